// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/plane/verbs/verbs_device.hpp"

namespace mrc::inline v0_1::port {

void VerbsDeleter::operator()(ibv_context* context) const noexcept {
  (void)VerbsLibrary::get().close_device(context);
}
void VerbsDeleter::operator()(ibv_pd* pd) const noexcept {
  (void)VerbsLibrary::get().dealloc_pd(pd);
}
void VerbsDeleter::operator()(ibv_mr* mr) const noexcept {
  (void)VerbsLibrary::get().dereg_mr(mr);
}
void VerbsDeleter::operator()(ibv_comp_channel* channel) const noexcept {
  (void)VerbsLibrary::get().destroy_comp_channel(channel);
}
void VerbsDeleter::operator()(ibv_cq* cq) const noexcept {
  (void)VerbsLibrary::get().destroy_cq(cq);
}
void VerbsDeleter::operator()(ibv_srq* srq) const noexcept {
  (void)VerbsLibrary::get().destroy_srq(srq);
}
void VerbsDeleter::operator()(ibv_qp* qp) const noexcept {
  (void)VerbsLibrary::get().destroy_qp(qp);
}
void VerbsDeleter::operator()(ibv_ah* ah) const noexcept {
  (void)VerbsLibrary::get().destroy_ah(ah);
}

namespace detail {

/// The devices of this host, freed with the object. Throws mrc::Error.
class VerbsDeviceList {
 public:
  VerbsDeviceList() : list_(VerbsLibrary::get().get_device_list(&count_)) {
    if (list_ != nullptr) return;
    throw_errno(errno == ENOSYS ? "cannot list RDMA devices: this kernel has no RDMA; load it with "
                                  "`modprobe ib_uverbs` and the module of the NIC"
                                : "cannot list RDMA devices");
  }
  VerbsDeviceList(const VerbsDeviceList&) = delete;
  VerbsDeviceList& operator=(const VerbsDeviceList&) = delete;
  ~VerbsDeviceList() { VerbsLibrary::get().free_device_list(list_); }
  [[nodiscard]] std::span<ibv_device* const> devices() const noexcept {
    return {list_, static_cast<std::size_t>(count_)};
  }
  [[nodiscard]] ibv_device* find(const std::string& name) const noexcept {
    for (ibv_device* device : devices())
      if (VerbsLibrary::get().get_device_name(device) == name) return device;
    return nullptr;
  }
  /// "rxe0, rxe1", or "none".
  [[nodiscard]] std::string names() const {
    std::string names;
    for (ibv_device* device : devices())
      names +=
          (names.empty() ? "" : ", ") + std::string(VerbsLibrary::get().get_device_name(device));
    return names.empty() ? "none" : names;
  }

 private:
  int count_ = 0;
  ibv_device** list_;
};

/// Zero if the call fails.
[[nodiscard]] inline ibv_port_attr port_attributes(ibv_context* context,
                                                   std::uint8_t port) noexcept {
  ibv_port_attr attributes{};
  if (VerbsLibrary::get().query_port(context, port, &attributes) != 0) return {};
  return attributes;
}

[[nodiscard]] inline bool carries_roce(const ibv_port_attr& port) noexcept {
  return port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET;
}

struct VerbsGid {
  int index;
  IpAddress ip;
};

/// The RoCE v2 GIDs of a port that are addresses other than link-local ones.
[[nodiscard]] inline std::vector<VerbsGid> routable_gids(ibv_context* context, std::uint8_t port) {
  std::vector<VerbsGid> gids;
  const int count = port_attributes(context, port).gid_tbl_len;
  for (int i = 0; i < count; ++i) {
    ibv_gid_entry entry{};
    if (VerbsLibrary::get().query_gid_ex(context, port, static_cast<std::uint32_t>(i), &entry, 0,
                                         sizeof entry) != 0 ||
        entry.gid_type != IBV_GID_TYPE_ROCE_V2)
      continue;
    IpAddress ip;
    std::memcpy(ip.data(), entry.gid.raw, sizeof ip);
    if (!is_unspecified(ip) && !is_link_local(ip)) gids.push_back({i, ip});
  }
  return gids;
}

/// Smaller is better.
[[nodiscard]] inline int rank_of(const IpAddress& ip) noexcept {
  return (is_loopback(ip) ? 2 : 0) + (is_v4(ip) ? 0 : 1);
}

[[nodiscard]] inline std::optional<VerbsGid> choose_gid(ibv_context* context, std::uint8_t port,
                                                        const IpAddress& wanted) {
  std::optional<VerbsGid> best;
  for (const VerbsGid& gid : routable_gids(context, port)) {
    if (gid.ip == wanted) return gid;
    if (!best || rank_of(gid.ip) < rank_of(best->ip)) best = gid;
  }
  return is_unspecified(wanted) ? best : std::nullopt;
}

[[nodiscard]] inline std::uint32_t bytes_of(ibv_mtu mtu) noexcept {
  return 128u << static_cast<unsigned>(mtu);
}

/// Opens a device. Throws mrc::Error.
[[nodiscard]] inline VerbsHandle<ibv_context> open_context(ibv_device* device) {
  errno = 0;
  VerbsHandle<ibv_context> context(VerbsLibrary::get().open_device(device));
  if (!context)
    throw_errno("cannot open RDMA device " +
                    std::string(VerbsLibrary::get().get_device_name(device)) +
                    " (read and write access to /dev/infiniband/uverbs* is needed)",
                errno != 0 ? errno : ENODEV);
  return context;
}

/// Why no port of the device can be used.
[[nodiscard]] inline std::string why_no_port(const VerbsPlaneName& plane, ibv_context* context,
                                             unsigned ports) {
  std::string text = "RDMA device " + plane.device;
  if (plane.port > ports)
    return text + " has no port " + std::to_string(plane.port) + ": it has " +
           std::to_string(ports);
  for (unsigned i = 1; i <= ports; ++i) {
    if (plane.port != 0 && plane.port != i) continue;
    const auto port = static_cast<std::uint8_t>(i);
    const ibv_port_attr attributes = port_attributes(context, port);
    text += (text.ends_with(plane.device) ? ": port " : "; port ") + std::to_string(i);
    if (attributes.link_layer != IBV_LINK_LAYER_ETHERNET) {
      text += " is not Ethernet (verbs planes are RoCE v2)";
    } else if (attributes.state != IBV_PORT_ACTIVE) {
      text += " is not active (is its network interface up?)";
    } else if (const auto gids = routable_gids(context, port); gids.empty()) {
      text += " has no routable address: give its network interface one with `ip address add`";
    } else {
      text += " does not have the address " + format_ip(plane.address) + ", but";
      for (const VerbsGid& gid : gids) text += " " + format_ip(gid.ip);
    }
  }
  return text;
}

}  // namespace detail

namespace detail {

/// With its limits, but without a port.
[[nodiscard]] inline VerbsDevice open_by_name(const std::string& name) {
  VerbsDevice out;
  out.name = name;
  {
    const VerbsDeviceList list;
    ibv_device* device = list.find(name);
    if (device == nullptr)
      throw Error(Errc::not_found,
                  "there is no RDMA device " + name +
                      "; `ibv_devices` lists those that there are: " + list.names());
    out.context = open_context(device);
  }
  if (const int e = VerbsLibrary::get().query_device(out.context.get(), &out.limits); e != 0)
    throw_errno("cannot query RDMA device " + name, e);
  return out;
}

}  // namespace detail

VerbsDevice open_verbs_port(const VerbsPlaneName& plane) {
  VerbsDevice out = detail::open_by_name(plane.device);
  out.port = std::max<std::uint8_t>(plane.port, 1);
  if (out.port > out.limits.phys_port_cnt)
    throw Error(Errc::not_found,
                detail::why_no_port(plane, out.context.get(), out.limits.phys_port_cnt));
  return out;
}

VerbsDevice open_verbs_device(const VerbsPlaneName& plane) {
  VerbsDevice out = detail::open_by_name(plane.device);
  const unsigned ports = out.limits.phys_port_cnt;
  for (unsigned i = plane.port == 0 ? 1 : plane.port; i <= ports; ++i) {
    const auto port = static_cast<std::uint8_t>(i);
    const ibv_port_attr attributes = detail::port_attributes(out.context.get(), port);
    if (detail::carries_roce(attributes)) {
      if (const auto gid = detail::choose_gid(out.context.get(), port, plane.address)) {
        out.port = port;
        out.gid_index = gid->index;
        out.address = gid->ip;
        out.path_mtu = detail::bytes_of(attributes.active_mtu);
        return out;
      }
    }
    if (plane.port != 0) break;
  }
  throw Error(Errc::unreachable, detail::why_no_port(plane, out.context.get(), ports));
}

namespace detail {

/// Why memory could not be registered, and what helps.
[[nodiscard]] inline std::string pinning_advice(int error) {
  rlimit limit{};
  if ((error != ENOMEM && error != EPERM) || ::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY)
    return {};
  return " (RDMA devices pin memory, and this process may pin " +
         std::to_string(limit.rlim_cur / 1024) +
         " KiB: raise RLIMIT_MEMLOCK, as with `ulimit -l unlimited` or LimitMEMLOCK=infinity)";
}

}  // namespace detail

void throw_verbs(const VerbsDevice& device, const std::string& what) {
  const int error = errno != 0 ? errno : EINVAL;
  throw_errno("RDMA device " + device.name + ": cannot " + what + detail::pinning_advice(error),
              error);
}

VerbsHandle<ibv_mr> register_verbs_memory(const VerbsDevice& device, ibv_pd* pd, void* address,
                                          std::uint64_t length, int access) {
  errno = 0;
  VerbsHandle<ibv_mr> mr(VerbsLibrary::get().reg_mr_iova2(pd, address, length,
                                                          reinterpret_cast<std::uintptr_t>(address),
                                                          static_cast<unsigned>(access)));
  if (!mr) throw_verbs(device, "register " + std::to_string(length) + " bytes of memory");
  return mr;
}

VerbsPresence look_at(const VerbsDevice& device) noexcept {
  VerbsPresence presence;
  try {
    ibv_context* context = device.context.get();
    presence.active = detail::carries_roce(detail::port_attributes(context, device.port));
    if (const auto gid = detail::choose_gid(context, device.port, device.address))
      presence.gid_index = gid->index;
  } catch (const std::exception&) {  // out of memory: looked at again soon
  }
  return presence;
}

/// libibverbs keeps the entry of a device while it is open, and makes a new one for another device.
bool verbs_device_listed(const VerbsDevice& device) noexcept {
  try {
    return detail::VerbsDeviceList().find(device.name) == device.context->device;
  } catch (const std::exception&) {
    return false;
  }
}

std::vector<VerbsPlaneName> all_verbs_planes() {
  std::vector<VerbsPlaneName> planes;
  const detail::VerbsDeviceList list;
  for (ibv_device* device : list.devices()) {
    const VerbsHandle<ibv_context> context(VerbsLibrary::get().open_device(device));
    ibv_device_attr limits{};
    if (!context || VerbsLibrary::get().query_device(context.get(), &limits) != 0) continue;
    for (unsigned i = 1; i <= limits.phys_port_cnt; ++i) {
      const auto port = static_cast<std::uint8_t>(i);
      if (!detail::carries_roce(detail::port_attributes(context.get(), port))) continue;
      const auto gid = detail::choose_gid(context.get(), port, {});
      if (gid && !is_loopback(gid->ip))
        planes.push_back({VerbsLibrary::get().get_device_name(device), port, gid->ip});
    }
  }
  if (planes.empty())
    throw Error(Errc::not_found,
                "no RDMA device has an active Ethernet port with a routable address; there are: " +
                    list.names());
  return planes;
}

}  // namespace mrc::inline v0_1::port
