// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/verbs/verbs_device.hpp"

#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <exception>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"

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

namespace detail {

/// Finds the functions of one library.
class VerbsSymbols {
 public:
  VerbsSymbols() : handle_(::dlopen(kName, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr)
      throw Error(Errc::unsupported,
                  "verbs planes need " + std::string(kName) + ": " + ::dlerror() +
                      "; install it (Debian: libibverbs1 and ibverbs-providers)");
    if (::dlsym(handle_, "mrc_verbs_shim") != nullptr)
      throw Error(Errc::unsupported,
                  "verbs planes need RDMA devices, and the " + std::string(kName) +
                      " of this program is the verbs shim (mrcrun), whose device is itself made of "
                      "planes; run the program without it, or set planes or fabric instead");
  }
  template <class Function>
  void find(Function& function, const char* name) const {
    // dlsym() gives the default version of a symbol, which is the one that the header declares.
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr)
      throw Error(Errc::unsupported, std::string(kName) + " has no " + name +
                                         ": verbs planes need rdma-core 32 or later");
  }

 private:
  static constexpr const char* kName = "libibverbs.so.1";
  void* handle_;  // never closed
};

[[nodiscard]] inline VerbsLibrary find_verbs() {
  const VerbsSymbols symbols;
  VerbsLibrary v;
  symbols.find(v.get_device_list, "ibv_get_device_list");
  symbols.find(v.free_device_list, "ibv_free_device_list");
  symbols.find(v.get_device_name, "ibv_get_device_name");
  symbols.find(v.open_device, "ibv_open_device");
  symbols.find(v.close_device, "ibv_close_device");
  symbols.find(v.query_device, "ibv_query_device");
  symbols.find(v.query_port, "ibv_query_port");
  symbols.find(v.query_gid_ex, "_ibv_query_gid_ex");
  symbols.find(v.get_async_event, "ibv_get_async_event");
  symbols.find(v.ack_async_event, "ibv_ack_async_event");
  symbols.find(v.alloc_pd, "ibv_alloc_pd");
  symbols.find(v.dealloc_pd, "ibv_dealloc_pd");
  symbols.find(v.reg_mr_iova2, "ibv_reg_mr_iova2");
  symbols.find(v.dereg_mr, "ibv_dereg_mr");
  symbols.find(v.create_comp_channel, "ibv_create_comp_channel");
  symbols.find(v.destroy_comp_channel, "ibv_destroy_comp_channel");
  symbols.find(v.create_cq, "ibv_create_cq");
  symbols.find(v.destroy_cq, "ibv_destroy_cq");
  symbols.find(v.get_cq_event, "ibv_get_cq_event");
  symbols.find(v.ack_cq_events, "ibv_ack_cq_events");
  symbols.find(v.create_srq, "ibv_create_srq");
  symbols.find(v.destroy_srq, "ibv_destroy_srq");
  symbols.find(v.create_qp, "ibv_create_qp");
  symbols.find(v.modify_qp, "ibv_modify_qp");
  symbols.find(v.destroy_qp, "ibv_destroy_qp");
  symbols.find(v.create_ah, "ibv_create_ah");
  symbols.find(v.destroy_ah, "ibv_destroy_ah");
  return v;
}

}  // namespace detail

const VerbsLibrary& VerbsLibrary::get() {
  static const VerbsLibrary library = detail::find_verbs();
  return library;
}

void VerbsPortOptions::check() const {
  constexpr const char* kKind = "verbs port";
  PortOptions::check(kKind);
  if (paths == 0 || paths > kMaxPaths) reject(kKind, "paths", paths, "1 to 64");
  if (send_depth < 16 || send_depth > 4096) reject(kKind, "send_depth", send_depth, "16 to 4096");
}

namespace detail {

inline constexpr std::uint8_t kContactForm = 1;
inline constexpr std::size_t kContactHead = 16;  ///< bytes in front of the QPNs
inline constexpr std::size_t kMaxContactQpns = 64;

}  // namespace detail

std::vector<std::uint8_t> encode(const VerbsContact& contact) {
  std::vector<std::uint8_t> bytes;
  ByteWriter out(bytes);
  out.u8(detail::kContactForm).u8(contact.placement ? 1 : 0).u16(contact.path_mtu);
  out.u32(contact.qkey).u64(contact.token);
  for (const std::uint32_t qpn : contact.qpns) out.u32(qpn);
  return bytes;
}

VerbsContact decode_verbs_contact(Bytes data) {
  const auto bad = [](const std::string& why) {
    throw Error(Errc::bad_message, "the peer's data of a verbs port " + why);
  };
  if (data.size() < detail::kContactHead) bad("is too short");
  ByteReader in(data);
  if (const auto form = in.u8(); form != detail::kContactForm)
    bad("has the unknown form " + std::to_string(form));
  VerbsContact contact;
  contact.placement = (in.u8() & 1) != 0;
  contact.path_mtu = in.u16();
  contact.qkey = in.u32();
  contact.token = in.u64();
  while (in.left() > 0) contact.qpns.push_back(in.u32());
  if (!in.done() || contact.qpns.empty() || contact.qpns.size() > detail::kMaxContactQpns)
    bad("has " + std::to_string(data.size() - detail::kContactHead) +
        " bytes of queue pair numbers");
  return contact;
}

namespace detail {

/// Layout: magic 4, form 1, type 1, length 2 (of everything), tokens of receiver and sender 8 each,
/// body.
inline constexpr std::uint32_t kVerbsMagic = 0x4D52'4356;  // "MRCV"
inline constexpr std::uint8_t kVerbsForm = 1;
inline constexpr std::size_t kVerbsHead = 24, kVerbsStateHead = 28, kVerbsPathBytes = 12;
inline constexpr std::size_t kMaxVerbsPaths = 64;
static_assert(kMaxVerbsMessage == kVerbsHead + kVerbsStateHead + kMaxVerbsPaths * kVerbsPathBytes);
inline constexpr std::uint8_t kVerbsAsk = 1, kVerbsRefused = 2;  ///< flags of a state

inline void write_state(ByteWriter& out, const VerbsState& state) {
  out.u32(state.version).u32(state.echo).u32(state.generation).u32(state.incarnation);
  out.u32(state.sender).u32(state.qkey);
  out.u8((state.ask ? kVerbsAsk : 0u) | (state.refused ? kVerbsRefused : 0u));
  out.u8(state.paths.size()).u16(0);
  for (const VerbsState::Path& path : state.paths)
    out.u32(path.ud).u32(path.uc).u8(path.epoch).u8(0).u16(0);
}

[[nodiscard]] inline bool read_state(ByteReader& in, VerbsState& state) {
  state.version = in.u32();
  state.echo = in.u32();
  state.generation = in.u32();
  state.incarnation = in.u32();
  state.sender = in.u32();
  state.qkey = in.u32();
  const auto flags = in.u8();
  state.ask = (flags & kVerbsAsk) != 0;
  state.refused = (flags & kVerbsRefused) != 0;
  const std::size_t count = in.u8();
  (void)in.u16();
  if (count == 0 || count > kMaxVerbsPaths || state.version == 0) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t ud = in.u32(), uc = in.u32();
    state.paths.push_back({ud, uc, in.u8()});
    (void)in.bytes(3);
  }
  return in.done();
}

}  // namespace detail

std::vector<std::uint8_t> encode(const VerbsMessage& message) {
  std::vector<std::uint8_t> body, datagram;
  if (ByteWriter out(body); message.type == VerbsMessageType::state)
    detail::write_state(out, message.state);
  else
    out.u32(message.key).u32(message.device_key).u32(message.generation);
  ByteWriter out(datagram);
  out.u32(detail::kVerbsMagic).u8(detail::kVerbsForm).u8(static_cast<std::uint8_t>(message.type));
  out.u16(detail::kVerbsHead + body.size()).u64(message.to).u64(message.from).bytes(body);
  return datagram;
}

std::optional<VerbsMessage> decode_verbs_message(Bytes datagram) {
  ByteReader in(datagram);
  if (in.u32() != detail::kVerbsMagic || in.u8() != detail::kVerbsForm) return std::nullopt;
  VerbsMessage message;
  message.type = static_cast<VerbsMessageType>(in.u8());
  if (in.u16() != datagram.size()) return std::nullopt;
  message.to = in.u64();
  message.from = in.u64();
  switch (message.type) {
    case VerbsMessageType::state:
      if (!detail::read_state(in, message.state)) return std::nullopt;
      return message;
    case VerbsMessageType::key_query:
    case VerbsMessageType::key_answer:
      message.key = in.u32();
      message.device_key = in.u32();
      message.generation = in.u32();
      if (!in.done()) return std::nullopt;
      return message;
  }
  return std::nullopt;
}

}  // namespace mrc::inline v0_1::port
