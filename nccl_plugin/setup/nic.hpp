// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mrc/device.hpp"
#include "nccl_plugin/data/memory.hpp"
#include "nccl_plugin/log.hpp"
#include "nccl_plugin/rules/plane_match.hpp"
#include "nccl_plugin/settings/settings.hpp"
#include "nccl_plugin/setup/peers.hpp"

namespace mrc_nccl {

/// What NCCL asks of a net device. A plain value.
struct NicFacts {
  std::string name;      ///< "mrc0"
  std::string pci_path;  ///< real path in /sys; empty: none
  std::uint64_t guid = 0;
  int speed_mbps = 0;        ///< all planes together
  int rail = -1;             ///< its number among the host's NICs
  int plane = -1;            ///< number of its only plane; -1: it has several
  std::vector<int> members;  ///< the devices of which it is made; itself if it is not virtual
};

/// A net device of NCCL: one device of the library, with all planes of the NIC, and the memory that
/// is registered with it. Connections keep it alive. Any thread.
class Nic {
 public:
  /// Opens the device. Throws mrc::Error and SettingsError.
  Nic(const Settings& settings, const NicPlan& plan, const mrc::Config& config, int number,
      std::vector<int> members);

  [[nodiscard]] const NicFacts& facts() const noexcept { return facts_; }
  [[nodiscard]] const NicPlan& plan() const noexcept { return plan_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] mrc::Device& device() noexcept { return device_; }
  [[nodiscard]] MemoryCache& memory() noexcept { return memory_; }
  /// Addresses of its planes.
  [[nodiscard]] const std::vector<mrc::port::IpAddress>& addresses() const noexcept {
    return addresses_;
  }
  /// What peers are told of its planes.
  [[nodiscard]] const std::vector<PlaneOffer>& offers() const noexcept { return offers_; }
  /// True for the first of lines that are the same; false for all after many different ones.
  [[nodiscard]] bool is_news(const std::string& line);
  /// Those that queue pairs are connected to.
  [[nodiscard]] Peers& peers() noexcept { return peers_; }
  /// Counts a TCP connection from `peer` that option peers_allowed forbids; returns the count.
  std::uint64_t count_refused(const std::string& peer);
  /// How many, and from whom the last one came.
  struct Refused {
    std::uint64_t count = 0;
    std::string last;
  };
  [[nodiscard]] Refused refused() const;
  /// A plane as messages name it: number, interface and address.
  [[nodiscard]] std::string plane_text(mrc::Plane plane) const;
  /// "mrc0: 4 planes (eth0 10.0.0.1, ...) x 16 paths, 1 lane, UDP ports, 100 Gb/s, 4096-byte
  /// packets, iCRC auto".
  [[nodiscard]] std::string text();

 private:
  [[nodiscard]] std::string place_of(std::size_t plane) const;

  const Settings settings_;
  const NicPlan plan_;
  NicFacts facts_;
  mrc::Device device_;
  MemoryCache memory_;
  Peers peers_;
  std::vector<mrc::port::IpAddress> addresses_;
  std::vector<PlaneOffer> offers_;
  mutable std::mutex mutex_;
  std::set<std::string> told_;
  Refused refused_;
};

}  // namespace mrc_nccl
