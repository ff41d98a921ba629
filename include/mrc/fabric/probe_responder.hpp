// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/containers.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/fabric/description.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::detail {

/// Answers endpoint requests of the fabric's hosts to which no queue pair is connected (mrc-1.0
/// §5), so that mrc_probe finds every host on which a device is open. All processes of a host
/// receive such requests; one of them answers.
///
/// Anybody can send them in the name of a host. There are only so many answers, per host and in
/// all, and only so many hosts are entered into the ports. One thread at a time.
class ProbeResponder : public StrangerLimits {
 public:
  /// Hosts that are entered into a port, per second, which costs more than an answer.
  static constexpr std::uint32_t kEntries = 100, kEntryBurst = 64;
  /// Hosts without a queue pair here that a port keeps, per plane. The least recently used is
  /// evicted, since every change of the network makes the port look up all of their next hops.
  static constexpr std::size_t kUnconnectedHosts = 32;

  /// `config` is the one in force. All three must outlive it.
  ProbeResponder(const fabric::Description& d, const fabric::Host& self, const Config& config)
      : d_(d), self_(self), config_(config), unconnected_(d.planes) {}

  /// Answers over the plane and the uplink of the probe; the answer leaves with flush(). False, and
  /// nothing done, if it came from no other host of the fabric, another process answers, or there
  /// were too many.
  bool answer(Time now, const wire::UnconnectedRequest& probe, port::Port& port) noexcept;

  /// Sends the answers to probes that came by this port. What it does not take is lost, as any
  /// answer may be.
  void flush(Time now, port::Port& port) noexcept;

 private:
  /// An unconnected host as a port knows it.
  struct UnconnectedHost {
    const fabric::Host* host = nullptr;
    std::vector<fabric::Path> paths;  ///< back to it, by uplink
    Time asked{};
  };
  /// How often a process that does not answer checks whether the one that did is gone.
  static constexpr Duration kClaimInterval = std::chrono::seconds{1};

  /// Ports know unconnected hosts under numbers that the engine gives to no peer; the first of
  /// these is Connector's.
  [[nodiscard]] PeerId number_of(const fabric::Host* host) const noexcept {
    return PeerId{config_.max_peers + 1 + static_cast<std::uint32_t>(host - d_.hosts.data())};
  }
  /// A host that may ask, in one plane.
  struct Guest {
    const fabric::Host* host = nullptr;
    TokenBucket answers{kAnswersPerHost, kBurstPerHost};
  };
  [[nodiscard]] Guest* find_guest(const wire::UnconnectedRequest& probe);
  void list_hosts();
  [[nodiscard]] bool claim(Time now);
  [[nodiscard]] UnconnectedHost* enter(Time now, const fabric::Host& host, Plane plane,
                                       port::Port& port);
  [[nodiscard]] const fabric::Path& way_back(const UnconnectedHost& entry, Ev ev) const noexcept;

  const fabric::Description& d_;
  const fabric::Host& self_;
  const Config& config_;
  std::vector<std::unordered_map<std::uint64_t, Guest>> guests_;  ///< [plane], by source tag
  TokenBucket answers_{kAnswers, kBurst};
  TokenBucket entries_{kEntries, kEntryBurst};
  std::vector<std::vector<UnconnectedHost>> unconnected_;  ///< [plane]
  UniqueFd claim_;
  Time next_claim_ = Time::min();
  wire::TxBurst burst_{64, 1};
};

}  // namespace mrc::inline v0_1::detail
