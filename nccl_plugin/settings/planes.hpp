// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/fabric/packet_kind.hpp"
#include "nccl_plugin/settings/environment.hpp"
#include "nccl_plugin/settings/interfaces.hpp"

/// Which interfaces become planes, and which planes form one net device of NCCL.
namespace mrc_nccl {

/// Mb/s of a plane whose interface does not tell its speed: what NCCL assumes, too.
inline constexpr int kUnknownSpeed = 10000;

/// One plane and its interface, as far as it is known.
struct PlaneFacts {
  std::string address;    ///< element of mrc::Config::planes
  std::string interface;  ///< name of the interface; empty: not known
  int speed_mbps = -1;    ///< Mb/s; -1: not known
  std::string pci_path;   ///< InterfaceFacts::pci_path
  int numa_node = -1;     ///< InterfaceFacts::numa_node
};

/// Which addresses may become planes (NCCL_SOCKET_FAMILY).
enum class Family : std::uint8_t { any, v4, v6 };

/// NCCL_SOCKET_IFNAME: "eth,ib" names prefixes, "=eth0,eth1" whole names, and '^' in front of
/// either excludes what matches.
struct InterfaceFilter {
  std::string text;                ///< as in the variable; empty: not set
  bool exclude = false;            ///< '^'
  bool exact = false;              ///< '='
  std::vector<std::string> names;  ///< names or prefixes

  /// Index of the first of `names` that matches, or names.size().
  [[nodiscard]] std::size_t match(std::string_view interface) const;
  /// True when only matching interfaces are wanted.
  [[nodiscard]] bool selects() const { return !names.empty() && !exclude; }
};

/// Reads NCCL_SOCKET_IFNAME and checks its form. Throws SettingsError.
[[nodiscard]] InterfaceFilter read_filter(const Environment& environment);
/// Reads NCCL_SOCKET_FAMILY. Throws SettingsError.
[[nodiscard]] Family read_family(const Environment& environment);

/// The planes that filter and family choose: one address of each interface. With a filter that
/// names interfaces, all of these that are up, in the filter's order. Otherwise the running ones
/// that are neither loopback nor of containers, virtual machines or tunnels; if there are none,
/// these; if there are none either, loopback. Interfaces of equal rank come in the order of their
/// names ("eth2" before "eth10"), the same on every host. Never IPv6 link-local addresses. Appends
/// to `warnings`; throws SettingsError when nothing is left, or more than 32.
[[nodiscard]] std::vector<PlaneFacts> choose_planes(const InterfaceFilter& filter, Family family,
                                                    const std::vector<InterfaceFacts>& interfaces,
                                                    std::vector<std::string>& warnings);

/// The planes of a configuration (mrc::Config::plane_list()): names or addresses.
[[nodiscard]] std::vector<PlaneFacts> find_planes(const std::vector<std::string>& list,
                                                  const std::vector<InterfaceFacts>& interfaces);

/// The planes of this host in the fabric that the configuration names; they have no address there.
/// Throws SettingsError.
[[nodiscard]] std::vector<PlaneFacts> fabric_planes(const mrc::Config& config,
                                                    const std::vector<InterfaceFacts>& interfaces);

/// mrc::port::all_verbs_planes(); throws mrc::Error without the headers of libibverbs.
[[nodiscard]] std::vector<mrc::port::VerbsPlaneName> all_verbs_planes();

/// Where RDMA devices are found.
struct VerbsDevices {
  std::string folder = "/sys/class/infiniband";  ///< where the kernel describes them
  /// Those of `MRC_VERBS=all`. Throws mrc::Error.
  std::function<std::vector<mrc::port::VerbsPlaneName>()> all = &all_verbs_planes;
};

/// The planes on RDMA devices that the configuration names (option verbs); they have no address
/// here. Throws SettingsError if there are none.
[[nodiscard]] std::vector<PlaneFacts> verbs_planes(const mrc::Config& config,
                                                   const std::vector<InterfaceFacts>& interfaces,
                                                   const VerbsDevices& devices = {});

/// A net device of NCCL: what becomes one mrc::Device.
struct NicPlan {
  std::string name;                 ///< "mrc0", "mrc1" ..
  std::vector<std::string> planes;  ///< addresses or names; empty in a fabric or on RDMA devices
  std::vector<std::string> interfaces;  ///< [p]: interface of plane p; empty: not known
  std::size_t plane_count = 1;          ///< planes, in a fabric, too
  int first_plane = 0;                  ///< number of its first plane among those of all NICs
  int speed_mbps = 0;        ///< Mb/s of all planes together; unknown ones count kUnknownSpeed
  bool speed_known = false;  ///< all planes are hardware that tells its speed
  std::string pci_path;      ///< of the first plane that has one; empty: none has
  int numa_node = -1;        ///< of the same plane; -1: not known
};

/// One NIC of all planes (`merge`), or one per plane.
[[nodiscard]] std::vector<NicPlan> make_nics(const std::vector<PlaneFacts>& planes, bool merge);

/// "eth2 10.0.0.1 (100 Gb/s), eth3 10.0.1.1".
[[nodiscard]] std::string planes_text(const std::vector<PlaneFacts>& planes);

}  // namespace mrc_nccl
