// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"
#include "mrc/plane/packet/verbs_name.hpp"
#include "mrc/plane/verbs/verbs_library.hpp"

/// Devices, ports and addresses of verbs planes. Set-up calls: they allocate, and throw mrc::Error.
namespace mrc::inline v0_1::port {

/// Destroys an object of libibverbs with the function that belongs to it.
struct VerbsDeleter {
  void operator()(ibv_context* context) const noexcept;       ///< ibv_close_device
  void operator()(ibv_pd* pd) const noexcept;                 ///< ibv_dealloc_pd
  void operator()(ibv_mr* mr) const noexcept;                 ///< ibv_dereg_mr
  void operator()(ibv_comp_channel* channel) const noexcept;  ///< ibv_destroy_comp_channel
  void operator()(ibv_cq* cq) const noexcept;                 ///< ibv_destroy_cq
  void operator()(ibv_srq* srq) const noexcept;               ///< ibv_destroy_srq
  void operator()(ibv_qp* qp) const noexcept;                 ///< ibv_destroy_qp
  void operator()(ibv_ah* ah) const noexcept;                 ///< ibv_destroy_ah
};
/// Owns an object of libibverbs. Not thread-safe, as the object.
template <class T>
using VerbsHandle = std::unique_ptr<T, VerbsDeleter>;

/// An open device with the port and the GID of a plane.
struct VerbsDevice {
  VerbsHandle<ibv_context> context;  ///< the open device
  std::string name;                  ///< of the device
  std::uint8_t port = 1;             ///< of the device
  int gid_index = 0;                 ///< of `address`; may change when addresses come and go
  IpAddress address{};               ///< the GID, an IP address (RoCE v2)
  std::uint32_t path_mtu = 0;        ///< active MTU in bytes, 256 .. 4096
  ibv_device_attr limits{};          ///< what the device can do
};

/// Opens the device of a plane and chooses port and GID: an active Ethernet port; of its RoCE v2
/// GIDs the given one, else the first IPv4 address, else the first global IPv6 address. Never a
/// link-local address, and a loopback one only if the device has no other. Throws mrc::Error that
/// names the devices, ports or GIDs that there are.
[[nodiscard]] VerbsDevice open_verbs_device(const VerbsPlaneName& plane);

/// Opens the device of a plane, without a GID: `plane.port` is its port, or 1 if that is 0. Throws
/// mrc::Error that names the devices or ports that there are.
[[nodiscard]] VerbsDevice open_verbs_port(const VerbsPlaneName& plane);

/// Throws mrc::Error for a call on a device that has set errno; says what helps if memory can't be
/// pinned.
[[noreturn]] void throw_verbs(const VerbsDevice& device, const std::string& what);
/// Registers memory, with rights as of ibv_reg_mr(). Throws mrc::Error that names RLIMIT_MEMLOCK if
/// that is the cause.
[[nodiscard]] VerbsHandle<ibv_mr> register_verbs_memory(const VerbsDevice& device, ibv_pd* pd,
                                                        void* address, std::uint64_t length,
                                                        int access);

/// Whether the device is still there and the port active with that GID, and at which index it is
/// now.
struct VerbsPresence {
  bool active = false;  ///< the port is
  int gid_index = -1;   ///< -1: the address is gone
};
/// Looks at an open device again. Does not throw.
[[nodiscard]] VerbsPresence look_at(const VerbsDevice& device) noexcept;

/// Whether an open device is still there: listed, and not another one that has come under its name.
/// Does not throw: false if devices cannot be listed.
[[nodiscard]] bool verbs_device_listed(const VerbsDevice& device) noexcept;

/// One plane for each active Ethernet port of each device that has an address other hosts can
/// reach, in the order of libibverbs: `verbs=all`. Throws mrc::Error if there is none.
[[nodiscard]] std::vector<VerbsPlaneName> all_verbs_planes();

}  // namespace mrc::inline v0_1::port
