// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/fabric/packet_kind.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/plane.hpp"

namespace mrc::inline v0_1::port {

/// The functions of libibverbs, found at run time: a program that uses no verbs planes needs no
/// library, and a plugin stays one file. The calls of the data path (posting, polling) go through
/// the context that the library makes, and are inline functions of <infiniband/verbs.h>.

/// libibverbs.so.1, opened once per process and never closed (providers start threads and keep
/// state). A table of functions with libibverbs' own names and contracts. Any thread.
struct VerbsLibrary {
  /// The library. Throws mrc::Error (unsupported), which names the remedy, if it cannot be opened,
  /// lacks a function, or is OpenMRC's verbs shim.
  [[nodiscard]] static const VerbsLibrary& get();

  decltype(&::ibv_get_device_list) get_device_list = nullptr;    ///< ibv_get_device_list
  decltype(&::ibv_free_device_list) free_device_list = nullptr;  ///< ibv_free_device_list
  decltype(&::ibv_get_device_name) get_device_name = nullptr;    ///< ibv_get_device_name
  decltype(&::ibv_open_device) open_device = nullptr;            ///< ibv_open_device
  decltype(&::ibv_close_device) close_device = nullptr;          ///< ibv_close_device
  decltype(&::ibv_query_device) query_device = nullptr;          ///< ibv_query_device
  /// The exported function fills in the first fields of ibv_port_attr, up to `flags`.
  int (*query_port)(ibv_context*, std::uint8_t, ibv_port_attr*) = nullptr;
  decltype(&::_ibv_query_gid_ex) query_gid_ex = nullptr;               ///< _ibv_query_gid_ex
  decltype(&::ibv_get_async_event) get_async_event = nullptr;          ///< ibv_get_async_event
  decltype(&::ibv_ack_async_event) ack_async_event = nullptr;          ///< ibv_ack_async_event
  decltype(&::ibv_alloc_pd) alloc_pd = nullptr;                        ///< ibv_alloc_pd
  decltype(&::ibv_dealloc_pd) dealloc_pd = nullptr;                    ///< ibv_dealloc_pd
  decltype(&::ibv_reg_mr_iova2) reg_mr_iova2 = nullptr;                ///< ibv_reg_mr_iova2
  decltype(&::ibv_dereg_mr) dereg_mr = nullptr;                        ///< ibv_dereg_mr
  decltype(&::ibv_create_comp_channel) create_comp_channel = nullptr;  ///< ibv_create_comp_channel
  decltype(&::ibv_destroy_comp_channel) destroy_comp_channel =
      nullptr;                                             ///< ibv_destroy_comp_channel
  decltype(&::ibv_create_cq) create_cq = nullptr;          ///< ibv_create_cq
  decltype(&::ibv_destroy_cq) destroy_cq = nullptr;        ///< ibv_destroy_cq
  decltype(&::ibv_get_cq_event) get_cq_event = nullptr;    ///< ibv_get_cq_event
  decltype(&::ibv_ack_cq_events) ack_cq_events = nullptr;  ///< ibv_ack_cq_events
  decltype(&::ibv_create_srq) create_srq = nullptr;        ///< ibv_create_srq
  decltype(&::ibv_destroy_srq) destroy_srq = nullptr;      ///< ibv_destroy_srq
  decltype(&::ibv_create_qp) create_qp = nullptr;          ///< ibv_create_qp
  decltype(&::ibv_modify_qp) modify_qp = nullptr;          ///< ibv_modify_qp
  decltype(&::ibv_destroy_qp) destroy_qp = nullptr;        ///< ibv_destroy_qp
  decltype(&::ibv_create_ah) create_ah = nullptr;          ///< ibv_create_ah
  decltype(&::ibv_destroy_ah) destroy_ah = nullptr;        ///< ibv_destroy_ah
};

/// Devices, ports and addresses of verbs planes. Set-up calls: they allocate, and throw mrc::Error.

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

/// Everything that a VerbsPort is made from. A plain value.
struct VerbsPortOptions : PortOptions {
  VerbsPlaneName device;           ///< device, port and GID
  std::uint16_t paths = 16;        ///< queue pairs to spray over, 1 .. kMaxPaths
  std::uint32_t send_depth = 128;  ///< packets of one path that wait in the device, 16 .. 4096
  /// The peers' devices place payload where they can (UC), and this one does for them.
  bool placement = true;
  /// Takes what an operator should know of and happens while the port runs, a line each. In a
  /// thread of the port's own; empty: nobody does.
  std::function<void(const std::string&)> warn;

  /// Throws Error that names the option, its value and what is allowed.
  void check() const;

  static constexpr std::uint16_t kMaxPaths = 64;  ///< upper bound of `paths`
};

/// What peers must know of a verbs port beside its address: ConnectionInfo::port_data of its plane.
/// A secret between the two sides, as the rest of a ConnectionInfo.
struct VerbsContact {
  std::uint64_t token = 0;          ///< random: who names it was told it
  std::uint32_t qkey = 0;           ///< of the UD queue pairs
  std::uint16_t path_mtu = 0;       ///< Capabilities::max_packet of the port
  bool placement = false;           ///< its device can place payload (UC)
  std::vector<std::uint32_t> qpns;  ///< of its UD queue pairs, 1 .. 64

  /// Equal in all fields.
  friend bool operator==(const VerbsContact&, const VerbsContact&) = default;
};

/// The bytes for the peer.
[[nodiscard]] std::vector<std::uint8_t> encode(const VerbsContact& contact);
/// Reads what a peer has encoded. Any bytes are safe: throws mrc::Error (bad_message) that says
/// what is wrong.
[[nodiscard]] VerbsContact decode_verbs_contact(Bytes data);

/// Control messages between two verbs ports, one UDP datagram each. Each names the secret tokens of
/// both ports, which only those know who exchanged ConnectionInfo: off the path, 128 bits must be
/// guessed. Set-up calls; any thread.

/// What a message is.
enum class VerbsMessageType : std::uint8_t {
  state = 1,       ///< how the sender is reached now
  key_query = 2,   ///< what does your device call the memory of this key?
  key_answer = 3,  ///< the answer
};

/// How the sender of a message is reached now by the receiver. States are numbered, by a clock and
/// then upwards, so that those of a session that begins anew are newer; both sides repeat theirs
/// until the other one has echoed its number.
struct VerbsState {
  std::uint32_t version = 0;      ///< number of the state; wraps, never 0
  std::uint32_t echo = 0;         ///< newest version received from the other side; 0: none
  bool ask = false;               ///< an answer is wanted: `version` has not been echoed
  std::uint32_t generation = 0;   ///< of the sender's device: with a new one, its keys are others
  std::uint32_t incarnation = 0;  ///< of its receiving UC paths: with a new one, epochs begin anew
  std::uint32_t sender = 0;       ///< of its sending ones: with a new one, numbers begin anew
  bool refused = false;           ///< no UC between these two, from now on
  std::uint32_t qkey = 0;         ///< of the UD queue pairs
  /// Queue pairs of a path at which the sender of this message receives.
  struct Path {
    std::uint32_t ud = 0;    ///< queue pair number
    std::uint32_t uc = 0;    ///< queue pair number; 0: none
    std::uint8_t epoch = 0;  ///< of `uc`

    /// Equal in all fields.
    friend bool operator==(const Path&, const Path&) = default;
  };
  std::vector<Path> paths;  ///< 1 .. 64
};

/// A control message.
struct VerbsMessage {
  VerbsMessageType type = VerbsMessageType::state;  ///< which of the fields below count
  std::uint64_t to = 0;                             ///< token of the receiving port
  std::uint64_t from = 0;                           ///< token of the sending port
  VerbsState state;                                 ///< of a state
  std::uint32_t key = 0;                            ///< of a query or an answer: the program's key
  std::uint32_t device_key = 0;  ///< of an answer: the device's key; 0: the device may not write
  std::uint32_t generation = 0;  ///< of an answer: of the device that the key is for
};

/// The datagram for a message.
[[nodiscard]] std::vector<std::uint8_t> encode(const VerbsMessage& message);
/// Reads a datagram. Any bytes are safe; nothing if they are no such message.
[[nodiscard]] std::optional<VerbsMessage> decode_verbs_message(Bytes datagram);

/// Bytes of the longest message.
inline constexpr std::size_t kMaxVerbsMessage = 24 + 28 + 64 * 12;

}  // namespace mrc::inline v0_1::port
