// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/sim/baseline/dcqcn.hpp"
#include "mrc/sim/baseline/rc_sender.hpp"
#include "mrc/sim/fabric.hpp"
#include "mrc/sim/network.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// RoCEv2 transport packets in bytes: BTH, extension headers, payload, pad to four bytes, iCRC, in
/// UDP with destination port 4791 (wire::kUdpPort). Unlike in MRC, only a message's first packet
/// has a RETH, which covers the whole message.

/// Usual DSCP of RoCE data and ACKs.
inline constexpr std::uint8_t kRoceDscp = 26;
/// Usual DSCP of CNPs, which have a class of their own.
inline constexpr std::uint8_t kCnpDscp = 48;

/// The BTH opcodes in use: RDMA Writes and ACK of the RC service, and CNP.
enum class RoceOpcode : std::uint8_t {
  write_first = 0x06,
  write_middle = 0x07,
  write_last = 0x08,
  write_last_imm = 0x09,
  write_only = 0x0A,
  write_only_imm = 0x0B,
  acknowledge = 0x11,  ///< ACK or NAK, by AETH
  cnp = 0x81,          ///< congestion notification packet
};

/// The 16 bytes after BTH in a CNP, all zero.
struct CnpPayload {
  std::uint8_t reserved[16] = {};  ///< zeros
};

/// Why a transport packet can't be read.
enum class RoceError : std::uint8_t {
  none = 0,
  too_short,       ///< ends within the headers, the pad or the iCRC
  bad_version,     ///< BTH.TVer is not 0
  unknown_opcode,  ///< none of RoceOpcode
  bad_length,    ///< a payload or a pad that a packet of this opcode can't have or that contradicts
                 ///< RETH
  bad_envelope,  ///< not an IP and UDP header of RoCE, or lengths that disagree
};

/// Whether a RETH follows BTH.
[[nodiscard]] constexpr bool roce_has_reth(RoceOpcode op) noexcept {
  return op == RoceOpcode::write_first || op == RoceOpcode::write_only ||
         op == RoceOpcode::write_only_imm;
}
/// Whether an ImmDt is present.
[[nodiscard]] constexpr bool roce_has_immediate(RoceOpcode op) noexcept {
  return op == RoceOpcode::write_last_imm || op == RoceOpcode::write_only_imm;
}
/// Whether it is a data packet.
[[nodiscard]] constexpr bool roce_is_write(RoceOpcode op) noexcept {
  return op >= RoceOpcode::write_first && op <= RoceOpcode::write_only_imm;
}
/// Whether it ends a message.
[[nodiscard]] constexpr bool roce_is_last(RoceOpcode op) noexcept {
  return op >= RoceOpcode::write_last && op <= RoceOpcode::write_only_imm;
}

/// Bytes from BTH to the last extension header; 0 for an unknown opcode. A CNP's 16 bytes count as
/// an extension header.
[[nodiscard]] constexpr std::size_t roce_header_size(RoceOpcode op) noexcept {
  if (roce_is_write(op))
    return sizeof(wire::Bth) + (roce_has_reth(op) ? sizeof(wire::Reth) : 0) +
           (roce_has_immediate(op) ? sizeof(wire::ImmDt) : 0);
  if (op == RoceOpcode::acknowledge) return sizeof(wire::Bth) + sizeof(wire::Aeth);
  return op == RoceOpcode::cnp ? sizeof(wire::Bth) + sizeof(CnpPayload) : 0;
}
/// Largest roce_header_size().
inline constexpr std::size_t kMaxRoceHeader = 32;
static_assert(roce_header_size(RoceOpcode::write_first) == 28);
static_assert(roce_header_size(RoceOpcode::write_middle) == 12);
static_assert(roce_header_size(RoceOpcode::write_last_imm) == 16);
static_assert(roce_header_size(RoceOpcode::write_only_imm) == kMaxRoceHeader);
static_assert(roce_header_size(RoceOpcode::acknowledge) == 16);
static_assert(roce_header_size(RoceOpcode::cnp) == 28);

/// Zero bytes after the payload.
[[nodiscard]] constexpr std::uint8_t roce_pad(std::size_t payload) noexcept {
  return static_cast<std::uint8_t>((4 - payload % 4) % 4);
}

/// Bytes from BTH to the iCRC, which is what UDP carries.
[[nodiscard]] constexpr std::size_t roce_transport_size(RoceOpcode op,
                                                        std::size_t payload) noexcept {
  return roce_header_size(op) + payload + roce_pad(payload) + wire::kIcrcSize;
}

/// Fields of a packet's headers.
struct RoceHeader {
  RoceOpcode opcode = RoceOpcode::write_only;     ///< opcode
  bool ack_request = false;                       ///< BTH.AckReq
  Qpn dqp{};                                      ///< destination queue pair
  Psn psn;                                        ///< 0 in a CNP
  std::uint64_t va = 0;                           ///< RETH
  std::uint32_t rkey = 0;                         ///< RETH
  std::uint32_t dma_length = 0;                   ///< RETH: bytes of the whole message
  std::uint32_t immediate = 0;                    ///< ImmDt
  wire::Syndrome syndrome = wire::Syndrome::ack;  ///< AETH
  std::uint32_t msn = 0;                          ///< AETH, 24 bit
  std::uint32_t payload = 0;                      ///< bytes, without pad

  /// Equal in all fields.
  friend bool operator==(const RoceHeader&, const RoceHeader&) = default;
};

/// Header of a data packet. RETH's address carries the message's id, in place of a real address;
/// the immediate is the id's low 32 bits.
[[nodiscard]] RoceHeader roce_header(const RcPacket& packet, Qpn dqp) noexcept;

/// Header of the ACK or NAK of a reply, whose kind is not none.
[[nodiscard]] RoceHeader roce_header(const RcReply& reply, Qpn dqp) noexcept;

/// Header of a CNP to the sender's queue pair.
[[nodiscard]] inline RoceHeader cnp_header(Qpn dqp) noexcept {
  RoceHeader h;
  h.opcode = RoceOpcode::cnp;
  h.dqp = dqp;
  return h;
}

/// A data packet as input to RcReceiver; the opcode is a Write. Fields that are not on the wire
/// keep their defaults.
[[nodiscard]] inline RcPacket rc_packet(const RoceHeader& h) noexcept {
  return {.psn = h.psn,
          .payload = h.payload,
          .first = roce_has_reth(h.opcode),
          .last = roce_is_last(h.opcode),
          .notify = roce_has_immediate(h.opcode),
          .ack_request = h.ack_request,
          .message = h.va,
          .message_bytes = h.dma_length};
}

/// Writes BTH and extension headers. Returns their size, or 0 when `out` is too small or the opcode
/// is unknown.
[[nodiscard]] std::size_t build_roce(MutableBytes out, const RoceHeader& h) noexcept;

/// The inverse. `head` starts with BTH and holds at least the extension headers; `transport_size`
/// is the packet's size from BTH to the iCRC by its UDP length. Payload and iCRC are not read,
/// since a simulator need not carry them. Safe on any input; `out` is valid only when the result is
/// none.
[[nodiscard]] RoceError parse_roce(Bytes head, std::size_t transport_size,
                                   RoceHeader& out) noexcept;

/// RoCEv2 packets from their IP header on, so that simulated switches hash, mark and forward by
/// real header fields.

/// The UDP source port of a queue pair, which alone distinguishes a host's flows to the same peer:
/// ECMP picks the path by it. A hash of both QPNs over the dynamic ports, 49152 .. 65535, as
/// drivers do. Both directions of a connection may use the same port.
[[nodiscard]] constexpr std::uint16_t roce_source_port(Qpn local, Qpn remote) noexcept {
  std::uint64_t x = std::uint64_t{value(local)} << 24 | value(remote);
  x *= 0x9E3779B97F4A7C15u;
  x ^= x >> 32;
  x *= 0xD6E8FEB86659FD93u;
  return static_cast<std::uint16_t>(0xC000 | (x >> 50));
}

/// Bytes of a whole packet, IP header to iCRC.
[[nodiscard]] constexpr std::size_t roce_packet_size(const wire::Envelope& e,
                                                     const RoceHeader& h) noexcept {
  return e.size() + roce_transport_size(h.opcode, h.payload);
}

/// Writes envelope, BTH and extension headers of a packet whose payload, pad and iCRC are not
/// carried; the lengths in the headers include them. (With payload: build_roce(), then
/// wire::build_packet().) Returns the bytes written, or 0 for the reasons of wire::build_envelope()
/// and build_roce().
[[nodiscard]] inline std::size_t build_roce_headers(MutableBytes out, const wire::Envelope& e,
                                                    const RoceHeader& h) noexcept {
  const std::size_t envelope =
      wire::build_envelope(out, e, roce_transport_size(h.opcode, h.payload));
  if (envelope == 0) return 0;
  const std::size_t transport = build_roce(out.subspan(envelope), h);
  return transport == 0 ? 0 : envelope + transport;
}

/// A parsed packet.
struct RoceFrame {
  RoceHeader header;              ///< transport headers
  wire::IpAddress source{};       ///< IPv4: mapped
  wire::IpAddress destination{};  ///< IPv4: mapped
  std::uint16_t source_port = 0;  ///< UDP source port
  Ecn ecn = Ecn::not_ect;         ///< of the IP header
  std::size_t size = 0;           ///< of the whole packet by its IP length, carried or not
};

/// Parses a packet that starts with its IP header (IPv4, or IPv6 without extension headers) and is
/// carried at least up to its last extension header. Safe on any input; `out` is valid only when
/// the result is none.
[[nodiscard]] RoceError parse_roce_frame(Bytes l3, RoceFrame& out) noexcept;

/// A switch queue for DCQCN: the paper's marking (from 5 KB on, 1 % at 200 KB, for links of 40
/// Gb/s) scaled with the link; tail drop at `data_limit` bytes. For FabricSettings::queue.
[[nodiscard]] inline QueueSettings roce_queue(double gbps, std::uint64_t data_limit) noexcept {
  return {.data_limit = data_limit,
          .ecn_min = static_cast<std::uint64_t>(125 * gbps),
          .ecn_max = static_cast<std::uint64_t>(5000 * gbps),
          .ecn_probability = 0.01};
}

/// Settings of simulated hosts that run RoCE.
struct RoceHostSettings {
  RcSenderOptions sender{};      ///< of each queue pair; first_psn is drawn
  RcReceiverOptions receiver{};  ///< likewise
  /// Off: data is not ECN capable and is sent at the port's rate.
  bool dcqcn = true;
  DcqcnOptions reaction{};                    ///< of each queue pair; line_rate is the port's
  std::uint64_t nic_queue = 12 * 1024;        ///< bytes queued in a NIC port before it is busy
  TrafficClass answers = TrafficClass::data;  ///< of ACKs and NAKs; CNPs are control
};

/// Counters of a RoceHost, summed over its queue pairs.
struct RoceHostStats {
  std::uint64_t data_packets = 0;     ///< sent for the first time
  std::uint64_t retransmitted = 0;    ///< data packets resent
  std::uint64_t timeouts = 0;         ///< of senders
  std::uint64_t accepted = 0;         ///< data packets received in their turn
  std::uint64_t duplicates = 0;       ///< data packets received before
  std::uint64_t out_of_order = 0;     ///< data packets dropped because an earlier one is missing
  std::uint64_t control_packets = 0;  ///< ACKs, NAKs and CNPs sent
  std::uint64_t received_bytes = 0;   ///< payload accepted, without duplicates
  std::uint64_t marked = 0;           ///< data packets received with ECN CE
  std::uint64_t bad_icrc = 0;         ///< received and dropped: a bit was flipped
  std::uint64_t trimmed = 0;          ///< received and dropped: RC can't use trimmed packets
  std::uint64_t malformed = 0;        ///< received and dropped: not for a queue pair of this host
};

/// A host that runs RoCE on simulated ports: RcSenders with DCQCN at one end of its queue pairs,
/// RcReceivers at the other, exchanging packets with real headers. Every queue pair uses one port,
/// as it uses one path. A port serves its senders round robin, packet by packet, while its queue is
/// short; ACKs are sent at once.
///
/// The cost per packet is independent of the number of queue pairs. One thread at a time.
class RoceHost : public Node {
 public:
  /// The application on the host. Called from within events; may post and connect.
  class Application {
   public:
    virtual ~Application() = default;
    /// A message has arrived at the receiver connected with this context.
    virtual void on_delivered(std::uint32_t context, const RcDelivery& delivery) = 0;
    /// A posted message is acknowledged, or its queue pair has failed and with it every message.
    virtual void on_completion(std::uint32_t context, const RcCompletion& completion) = 0;
  };

  /// `number`: its index among the hosts of the fabric. `seed`: for QPNs and first PSNs, and
  /// thereby the paths that ECMP picks. Throws mrc::Error for invalid settings.
  RoceHost(Network& network, unsigned number, const RoceHostSettings& settings, std::uint64_t seed);

  /// Creates its ports. The fabric must outlive it. Throws mrc::Error for invalid DCQCN settings.
  void attach(const Fabric& fabric);
  /// Sets the receiver of events.
  void set_application(Application* application) noexcept { application_ = application; }

  /// Creates a queue pair from one attached host to another, in the plane selected by a hash of its
  /// QPNs. `context` is passed to the applications of both. Returns its index at `from`.
  static std::uint32_t connect(RoceHost& from, RoceHost& to, std::uint32_t context);
  /// RcSender::post() on queue pair `index`. Call work() after the last one.
  Errc post(std::uint32_t index, std::uint64_t message, std::uint32_t bytes, bool notify);
  /// Sends posted messages.
  void work();
  /// Makes the host hang: its links stay up, but it neither sends nor receives any more.
  void kill() noexcept { dead_ = true; }

  /// Index among the hosts of the fabric.
  [[nodiscard]] unsigned number() const noexcept { return number_; }
  /// Its node in the network.
  [[nodiscard]] NodeId node() const noexcept { return node_; }
  /// Counters.
  [[nodiscard]] const RoceHostStats& stats() const noexcept { return stats_; }
  /// Number of senders.
  [[nodiscard]] std::size_t senders() const noexcept { return senders_.size(); }
  /// Number of receivers.
  [[nodiscard]] std::size_t receivers() const noexcept { return receivers_.size(); }
  /// Sender by index.
  [[nodiscard]] const RcSender& sender(std::size_t index) const { return senders_[index].sender; }
  /// The rate limiter of a sender, as of its last event.
  [[nodiscard]] const DcqcnReactionPoint& reaction(std::size_t index) const {
    return senders_[index].reaction;
  }
  /// Receiver by index.
  [[nodiscard]] const RcReceiver& receiver(std::size_t index) const {
    return receivers_[index].receiver;
  }

  void on_packet(LinkId in, PacketId id) override;
  void on_link_ready(LinkId) override { work(); }
  void on_link_state(LinkId, bool) override { work(); }
  void on_timer(std::uint32_t index) override;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  /// Route from a queue pair to its other end.
  struct Way {
    Qpn remote{};
    std::uint32_t peer = 0;  // host
    std::uint16_t source_port = 0;
    std::uint8_t plane = 0;
  };
  struct Sender {
    Way way;
    RcSender sender;
    DcqcnReactionPoint reaction;
    std::uint32_t context = 0;
    std::uint32_t next = kNone;  // next in its port's list
    Time alarm = kNever;         // the valid wake-up; those posted earlier are void
    bool in_line = false;
  };
  struct Receiver {
    Way way;
    RcReceiver receiver;
    std::uint32_t context = 0;
  };
  /// A port, and the senders with packets for it.
  struct Outlet {
    LinkId link{};
    std::uint32_t head = kNone, tail = kNone;
  };
  struct Done {
    std::uint32_t context;
    RcCompletion completion;
  };

  /// QPNs count from first_qpn_; senders have even, receivers odd offsets.
  [[nodiscard]] Qpn qpn(std::size_t index, bool receiver) const noexcept {
    return Qpn{first_qpn_ + static_cast<std::uint32_t>(2 * index + receiver)};
  }
  void on_data(const RoceFrame& frame, Receiver& receiver);
  void on_answer(const RoceHeader& header, std::uint32_t index);
  void update(std::uint32_t index);
  void plan(std::uint32_t index);
  void transmit(Outlet& outlet);
  void emit(const Way& way, const RoceHeader& header, TrafficClass traffic, std::uint8_t dscp,
            Ecn ecn);

  Network& network_;
  unsigned number_;
  RoceHostSettings settings_;
  NodeId node_;
  Random random_;
  std::uint32_t first_qpn_;
  std::vector<Outlet> outlets_;  // by plane
  // Deques: an application may connect while an element is in use.
  std::deque<Sender> senders_;
  std::deque<Receiver> receivers_;
  std::deque<Done> done_;  // events for the application
  Application* application_ = nullptr;
  RoceHostStats stats_;
  bool working_ = false;
  bool dead_ = false;
};

}  // namespace mrc::inline v0_1::sim::baseline
