// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/fabric/packet_kind.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/stats.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

/// AF_PACKET sockets, and the state of the interface that they are bound to.

/// A packet socket that is not bound, so it receives nothing yet. Throws Error.
[[nodiscard]] Socket open_packet_socket();

/// Binds to an interface; `protocol` 0 receives nothing. False on failure with errno set.
[[nodiscard]] bool bind_packet_socket(const Socket& socket, std::uint32_t index,
                                      std::uint16_t protocol) noexcept;

/// The present state of an interface; `index` 0: there is none of that name.
struct InterfaceState {
  std::uint32_t index = 0;  ///< the kernel's number of it
  bool up = false;          ///< administratively, and with a carrier
  wire::MacAddress mac{};   ///< its hardware address
  std::uint32_t mtu = 0;    ///< bytes of the largest IP packet
};

/// Reads the state with a few system calls.
[[nodiscard]] InterfaceState look_up_interface(const Socket& socket,
                                               const std::string& name) noexcept;

/// The neighbour to which packets for `destination` go when they leave by that interface: a
/// router, or the destination itself. Without a value there is no such route, and errno says why.
[[nodiscard]] std::optional<IpAddress> find_gateway(std::uint32_t interface_index,
                                                    const IpAddress& destination) noexcept;

/// What the kernel knows of a neighbour.
struct Neighbour {
  wire::MacAddress mac{};  ///< Ethernet address
  /// The kernel has not confirmed lately that the neighbour is reachable, and has sent nothing to
  /// it since (NUD_STALE).
  bool stale = false;
};

/// A neighbour, if the kernel knows its Ethernet address.
[[nodiscard]] std::optional<Neighbour> find_neighbour(std::uint32_t interface_index,
                                                      const IpAddress& address) noexcept;

/// Makes the kernel resolve a neighbour's Ethernet address, as it does for any packet: sends an
/// empty datagram to the discard port.
void solicit_neighbour(std::uint32_t interface_index, const IpAddress& address) noexcept;

/// Whether the kernel forwards IPv6 packets that come in by the interface.
[[nodiscard]] bool forwards_ipv6(const std::string& interface);

/// Binds a UDP socket that discards everything. Without one, the kernel would answer packets that
/// arrive as plain IPv6 and with a UDP checksum with ICMPv6 "port unreachable". Closed where
/// another program has the port, which keeps the kernel quiet as well; if something else fails,
/// `notes` gets a line, too.
[[nodiscard]] Socket silence_udp(const IpAddress& local, std::uint16_t udp_port,
                                 std::vector<std::string>& notes);

/// How the frames of a packet port enter and leave an interface: by packet sockets (SocketFrames),
/// or by a raw-packet queue pair of its NIC. Headers, routes and checks are the
/// port's.
///
/// One thread at a time. Nothing throws.
class FrameChannel {
 public:
  FrameChannel() = default;
  FrameChannel(const FrameChannel&) = delete;
  FrameChannel& operator=(const FrameChannel&) = delete;
  virtual ~FrameChannel() = default;

  /// Uses this interface from now on; index 0: none. False: there is none, or it can't be used.
  [[nodiscard]] virtual bool attach(const InterfaceState& interface) noexcept = 0;
  /// False: what carries the frames is gone or has failed; attach() again.
  [[nodiscard]] virtual bool usable(Time now) noexcept = 0;
  /// When usable() is to be called again, at the latest.
  [[nodiscard]] virtual Time next_look() const noexcept = 0;

  /// Sends frames, each in pieces, and counts its calls in `stats`. Returns how many were taken,
  /// from the first on: their memory is no longer needed. If not all, errno is the error of the
  /// first that was not; EAGAIN or ENOBUFS: try again soon.
  [[nodiscard]] virtual std::size_t send(std::span<mmsghdr> frames, PortStats& stats) noexcept = 0;
  /// Up to `most` frames that have arrived, in memory that is the caller's until the next call. An
  /// empty one was too long.
  [[nodiscard]] virtual std::span<const MutableBytes> receive(std::size_t most) noexcept = 0;
  /// The last receive() may have left frames behind.
  [[nodiscard]] virtual bool backlogged() const noexcept = 0;

  /// Part of the receive buffer in use, in 1/128.
  [[nodiscard]] virtual std::uint32_t fill() const noexcept = 0;
  /// Size of the receive buffer in bytes.
  [[nodiscard]] virtual std::uint64_t buffer() const noexcept = 0;
  /// Frames that were dropped since there was no room for them, as far as is known.
  [[nodiscard]] virtual std::uint64_t overrun() const noexcept = 0;
  /// Readable when something arrives after arm(); stays the same.
  [[nodiscard]] virtual int poll_fd() const noexcept = 0;
  /// Before sleep on poll_fd(). False: something has arrived since the last receive().
  [[nodiscard]] virtual bool arm() noexcept = 0;
  /// A line for the operator on how the channel was opened; empty: nothing to say.
  [[nodiscard]] virtual std::string note() const { return {}; }
};

/// The receive ring of a packet socket: slots of one size in memory that the kernel and this
/// process share (PACKET_RX_RING). The kernel copies a frame into the next slot when it arrives,
/// whatever processor that is on; receiving takes no system call and no further copy.
///
/// Version 2 of the rings (TPACKET_V2): each slot says for itself whether it is filled. Version 3
/// hands over blocks of many frames when they are full or a millisecond old at the least, and its
/// socket is not readable before: too late for a transport.
///
/// One thread at a time. A child process that was forked has the memory too, as it has the socket.
class PacketRing {
 public:
  /// Bytes that a slot has beside the IP packet: the kernel's header, its alignment, and the
  /// Ethernet header.
  static constexpr std::uint32_t kOverhead = 96;
  /// Size of a slot at most. Frames that are longer than a slot, since the MTU was raised later or
  /// the host has put packets together, come by way of the socket's receive buffer, one per call.
  static constexpr std::uint32_t kMaxSlot = 16'384;
  /// Size of a ring at most: its memory is taken when it is made, and can't be swapped out.
  static constexpr std::uint64_t kMaxBytes = 64 << 20;

  /// No ring.
  PacketRing() = default;
  PacketRing(const PacketRing&) = delete;
  PacketRing& operator=(const PacketRing&) = delete;
  ~PacketRing();

  /// Gives a socket that is not bound yet a ring of about `bytes`, kMaxBytes at most, for IP
  /// packets of `mtu` bytes. Returns why it has none, and is as it was; or nothing.
  [[nodiscard]] std::string open(const Socket& socket, std::uint32_t mtu, std::uint64_t bytes);
  /// True if there is a ring.
  [[nodiscard]] explicit operator bool() const noexcept { return memory_ != nullptr; }

  /// Gives the slots of the last call back to the kernel, and appends up to `most` frames that have
  /// arrived, valid until the next call; `frames` has room for them. An empty one was too long.
  /// True if more may be there: one that is longer than a slot is the last of a call.
  bool receive(std::size_t most, std::vector<MutableBytes>& frames) noexcept;
  /// True if frames of the last receive() occupy slots: the socket may be readable because of them.
  [[nodiscard]] bool held() const noexcept { return held_ != 0; }

  /// Part of the slots that is in use, in 1/128.
  [[nodiscard]] std::uint32_t fill() const noexcept;
  /// Frames that it holds, whatever their size.
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }

 private:
  /// Memory comes in pieces that are contiguous for the kernel, each of as many slots as fit.
  static constexpr std::uint32_t kBlock = 1 << 16;
  /// Any frame fits into so many bytes.
  static constexpr std::size_t kLongest = 65'536 + 14;

  /// The status word of the slot that is `n` after the next one, n < slots_.
  [[nodiscard]] std::uint32_t* status(std::uint32_t n) const noexcept;
  /// Reads a frame that was too long for its slot.
  [[nodiscard]] MutableBytes read_long() noexcept;

  int fd_ = -1;  ///< of the socket
  std::uint8_t* memory_ = nullptr;
  std::uint32_t blocks_ = 0, per_block_ = 0, slot_ = 0, slots_ = 0;
  std::uint32_t next_ = 0;  ///< slot that is filled next, or has been
  std::uint32_t held_ = 0;  ///< slots before next_ that are the caller's
  std::vector<std::uint8_t> long_frame_;
};

/// Frames through two packet sockets: one receives the MRC packets of the own slot, which the
/// kernel selects, into a ring that it shares with this process, or, where there can be none, into
/// a fixed pool; one sends. Needs CAP_NET_RAW.
class SocketFrames final : public FrameChannel {
 public:
  /// Bytes of a slot of the pool: any frame fits.
  static constexpr std::size_t kSlotBytes = 65536 + wire::kEthernetHeader;

  /// Bytes of a socket buffer that a slot of the ring stands for, whatever its size: PacketPort's
  /// share of that is 3/4 of what senders count for a small packet (kLeastCharge), so that a
  /// quarter of the slots is left to control packets, which nobody counts.
  static constexpr std::uint32_t kSlotWorth = 3072;

  /// The ring is twice options.receive_buffer, as a socket buffer would be. Throws mrc::Error.
  explicit SocketFrames(const PacketPortOptions& options);

  [[nodiscard]] bool attach(const InterfaceState& interface) noexcept override;
  [[nodiscard]] bool usable(Time) noexcept override {
    clear_error();
    return true;
  }
  [[nodiscard]] Time next_look() const noexcept override { return kNever; }
  [[nodiscard]] std::size_t send(std::span<mmsghdr> frames, PortStats& stats) noexcept override;
  [[nodiscard]] std::span<const MutableBytes> receive(std::size_t most) noexcept override;
  [[nodiscard]] bool backlogged() const noexcept override { return backlogged_; }
  [[nodiscard]] std::uint32_t fill() const noexcept override;
  [[nodiscard]] std::uint64_t buffer() const noexcept override { return buffer_; }
  [[nodiscard]] std::uint64_t overrun() const noexcept override;
  [[nodiscard]] int poll_fd() const noexcept override { return receive_.fd(); }
  /// The socket is readable as long as something is there, or is held by the caller.
  [[nodiscard]] bool arm() noexcept override {
    clear_error();
    return !ring_.held();
  }
  /// Why there is no ring.
  [[nodiscard]] std::string note() const override { return note_; }

 private:
  /// Makes the pool.
  void make_pool(std::size_t slots);
  /// Reads with a system call into the pool.
  void read(std::size_t most) noexcept;
  /// The kernel leaves an error in the socket when the link goes down, and until somebody reads it
  /// the socket counts as readable. Receiving from a ring does not read it.
  void clear_error() noexcept {
    if (ring_) (void)get_option(receive_, SOL_SOCKET, SO_ERROR, 0);
  }

  Socket receive_, send_;
  PacketRing ring_;
  std::string note_;
  std::size_t batch_ = 0;  ///< frames of a receive() at most
  std::uint64_t buffer_ = 0;
  mutable std::uint64_t overrun_ = 0;  ///< reading resets the kernel's count
  std::unique_ptr<std::uint8_t[]> pool_;
  std::vector<iovec> vectors_;
  std::vector<mmsghdr> messages_;
  std::vector<MutableBytes> frames_;
  bool backlogged_ = false;
};

/// Which process of a host has which slot of its packet ports, and which one answers probes: locks
/// on files in a folder of root's, where no other user can take them. A lock lasts as long as its
/// descriptor is open, and so ends with the process. Files are named by the network namespace, so
/// containers may share the folder. (The sockets of UDP ports are claims themselves: slot.hpp.)

/// Takes lock `number` of the file for `name` in this thread's network namespace. Not open if
/// another process, or another claim of this one, has it. Makes folder and file if need be. The
/// folder must be root's or this user's, and nobody else's to write to, except for a group that its
/// owner has given it to. Links are not followed. Throws Error.
[[nodiscard]] UniqueFd claim_lock(const std::string& folder, const std::string& name,
                                  unsigned number = 0);

/// A slot among the processes that use packet ports on this host, held as long as the lock is open.
struct PacketSlotClaim {
  std::uint8_t slot = 0;  ///< top 8 bits of its QPNs
  UniqueFd lock;          ///< holds the claim while it is open
};

/// Claims slot `wanted`, or the lowest free one of this network namespace. Throws Error when none
/// is free, or when this user may not take part.
[[nodiscard]] PacketSlotClaim claim_packet_slot(const std::string& folder,
                                                std::optional<std::uint8_t> wanted = std::nullopt);

/// What open_verbs_frames() needs to know. A plain value.
struct VerbsFramesOptions {
  VerbsPlaneName device;            ///< and its port, 1 on; `address` is not used
  bool encapsulated = true;         ///< MRC packets come as IPv6 in IPv6, or with an SRH
  std::uint16_t udp_port = 4791;    ///< without encapsulation: of MRC packets
  std::uint32_t send_depth = 256;   ///< frames that wait in the device, 64 on
  std::uint32_t receive_bytes = 0;  ///< receive buffers in all; at least 64 frames are made
};

/// Raw-packet mode: frames through a raw-packet queue pair (IBV_QPT_RAW_PACKET) of the NIC, past
/// the kernel. A frame is copied into a registered ring, since the processor reads all of its
/// payload anyway, for the iCRC. A burst is one doorbell for up to 32 frames, with one completion.
///
/// The NIC is told to send MRC packets to this queue pair, by rules for the interface's Ethernet
/// address: IPv6 that holds IPv6 or a routing header, or, without encapsulation, UDP to the given
/// port. The kernel keeps everything else. So one process per port of a NIC can do this.
///
/// Needs CAP_NET_RAW. A device that is removed, or a queue pair that fails, is opened again by
/// attach().
///
/// Opens the device. Throws mrc::Error that names the device and the remedy; `unsupported` if it
/// has no raw-packet queue pairs, as Soft-RoCE. The unit that defines it needs the headers of
/// libibverbs.
[[nodiscard]] std::unique_ptr<FrameChannel> open_verbs_frames(const VerbsFramesOptions& options);

/// The type of open_verbs_frames().
using OpenVerbsFrames = std::unique_ptr<FrameChannel> (*)(const VerbsFramesOptions&);
/// open_verbs_frames() if the program has planes on RDMA devices (host/modules.inl), else null.
extern std::atomic<OpenVerbsFrames> verbs_frames;

}  // namespace mrc::inline v0_1::port
