// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "mrc/engine/engine.hpp"

/// One engine against hand-made packets: what it sends can be looked at byte by byte, and what it
/// receives is built here.
namespace mrc::test {

using engine::Engine;
using engine::EngineOptions;

/// A packet that the engine sent, with its payload.
struct Sent {
  std::vector<std::uint8_t> bytes;
  Plane plane = 0;
  Ev ev{};
  std::uint8_t dscp = 0;
  Ecn ecn{};
  Time when{};
  wire::CopyId copy{};  ///< payload that the port may still read

  [[nodiscard]] const wire::Bth& bth() const { return wire::view_as<wire::Bth>(bytes); }
  [[nodiscard]] wire::Opcode opcode() const { return bth().opcode(); }
  [[nodiscard]] Psn psn() const { return bth().psn(); }
  [[nodiscard]] bool is_data() const { return wire::is_data(opcode()); }
  template <class P>
  [[nodiscard]] const P& as() const {
    REQUIRE(bytes.size() == sizeof(P));
    return wire::view_as<P>(bytes);
  }
  [[nodiscard]] const wire::SackPacket& sack() const { return as<wire::SackPacket>(); }
  [[nodiscard]] const wire::NackPacket& nack() const { return as<wire::NackPacket>(); }
  [[nodiscard]] const wire::AckPacket& ack() const { return as<wire::AckPacket>(); }
  [[nodiscard]] wire::WriteView write() const { return wire::view_write(bytes); }
};

using SentList = std::vector<Sent>;

/// The packets of one kind.
[[nodiscard]] inline SentList only(const SentList& list, wire::Opcode opcode) {
  SentList found;
  for (const Sent& s : list)
    if (s.opcode() == opcode) found.push_back(s);
  return found;
}
/// The endpoint requests of one kind.
[[nodiscard]] inline SentList endpoint_requests(const SentList& list, wire::EndpointOp op) {
  SentList found = only(list, wire::Opcode::endpoint_request);
  std::erase_if(
      found, [op](const Sent& p) { return p.as<wire::EndpointRequestPacket>().erth.op() != op; });
  return found;
}
/// The answer to an endpoint request.
[[nodiscard]] inline wire::EndpointResponsePacket endpoint_answer(const Sent& request) {
  const auto& p = request.as<wire::EndpointRequestPacket>();
  wire::EndpointResponsePacket a{
      wire::Bth::make(wire::Opcode::endpoint_response, kEndpointQpn, p.bth.psn()), {}};
  a.eeth.set_op(p.erth.op());
  a.eeth.tx_timestamp = p.erth.tx_timestamp.value();
  return a;
}
[[nodiscard]] inline SentList data_of(const SentList& list) {
  SentList found;
  for (const Sent& s : list)
    if (s.is_data()) found.push_back(s);
  return found;
}

/// What the other side of the connection is, and what it starts with.
struct SingleSetup {
  EngineOptions options{.start = Time{std::chrono::seconds(1)}, .rtt_probes = 0};
  std::uint64_t remote_tag = 0;  ///< 0: the peer is not an OpenMRC peer
  QpCapacity capacity{.send = 64, .receive = 64, .send_sges = 3, .inline_bytes = 64};
  QpAttributes attributes{.mtu = 1024, .dynamic_mpr = false};
  unsigned planes = 4;
  unsigned paths = 4;                   ///< per plane
  std::uint32_t remote_psn = 0xFFFFF0;  ///< first PSN that it sends
  bool remote_dynamic_mpr = false;
  bool remote_trim_nack = true;
  bool remote_solicited = false;
  bool rc = false;  ///< both offer SEND, READ and atomics
  std::uint8_t remote_mpr = 255;
  std::uint16_t remote_wimm = 1000;
  Access access = Access::local_write | Access::remote_write | Access::relaxed_ordering;
  unsigned receives = 16;
  bool rts = true;
  bool as_verbs = false;
};

/// With QpAttributes::timeout `n`, and so many retries.
[[nodiscard]] inline SingleSetup with_retries(unsigned n, unsigned linear, unsigned exponential) {
  SingleSetup s;
  s.attributes.timeout = static_cast<std::uint8_t>(n);
  s.attributes.retry_linear = static_cast<std::uint8_t>(linear);
  s.attributes.retry_exponential = static_cast<std::uint8_t>(exponential);
  return s;
}

class Single {
 public:
  using Setup = SingleSetup;
  static constexpr Qpn kRemote{0x010203};
  static constexpr std::uint64_t kTag = 0x77;

  explicit Single(const Setup& s = {});

  [[nodiscard]] PeerId add_peer();
  [[nodiscard]] Qpn create();
  [[nodiscard]] RemoteQp remote() const;
  void connect();
  /// From RESET to RTS, without receives.
  void connect(Qpn q, const RemoteQp& to);

  // ---- in

  /// A peer with a tag puts that of the queue pair into all packets to it, but for forged ones.
  void receive(std::vector<std::uint8_t> bytes, const wire::RxPacket& facts);
  template <class P>
  void receive_control(const P& packet, Plane plane = 0) {
    std::vector<std::uint8_t> bytes(sizeof packet);
    std::memcpy(bytes.data(), &packet, sizeof packet);
    receive(bytes, from(plane));
  }
  [[nodiscard]] static wire::RxPacket from(Plane plane, Ecn ecn = Ecn::ect0);

  /// A data packet for the engine's responder; PSN `n` counts from its first expected one.
  struct Data {
    std::uint32_t n = 0;
    wire::Opcode opcode = wire::Opcode::write_only;
    std::size_t offset = 0;  ///< into target
    std::uint32_t length = 64;
    std::uint32_t dma_length = 0;  ///< 0: length
    std::uint8_t fill = 0x11;
    bool ack_request = false, rtx = false, timestamp = true;
    std::uint16_t stamp = 0x4242;
    std::uint32_t rqmsn = 0, msn = 0, immediate = 0;
    std::uint32_t rkey = 0;  ///< 0: that of target
    Plane plane = 0;
    Ecn ecn = Ecn::ect0;
    wire::Trim trim = wire::Trim::none;
    bool placed = false, unsettled = false;  ///< by the port
    bool solicited = false;
    std::size_t cut = ~std::size_t{0};  ///< keep so many bytes
  };
  [[nodiscard]] std::vector<std::uint8_t> build(const Data& d) const;
  void data(const Data& d);

  /// A SACK for the engine's requester; `cack` counts from the first PSN it sent, -1: none.
  struct SackOf {
    std::int32_t cack = -1;
    std::int16_t offset = 1;
    std::uint64_t bitmap = 0;
    const Sent* trigger = nullptr;  ///< reflected: PSN, EV, time stamp
    wire::SackMark mark = wire::SackMark::none;
    std::uint8_t mpr = 0;
    std::uint32_t received = 0;  ///< bytes
    Plane plane = 0;
  };
  void sack(const SackOf& s);
  /// The SACK that answers a probe.
  void answer_probe(const Sent& probe, std::int32_t cack = -1);
  /// `timer`: code of the wait, for receiver_not_ready.
  void nack(const Sent& about, wire::NackReason reason, std::uint8_t timer = 1);
  /// A Transport ACK for message `msn`, whose last packet is the `last`-th sent.
  void ack(std::uint16_t msn, std::uint32_t last, wire::Syndrome code = wire::Syndrome::ack);

  // ---- application

  struct Post {
    std::uint64_t id = 1;
    std::uint32_t length = 100;
    bool with_immediate = false, signaled = true, inlined = false, solicited = false;
    std::uint32_t immediate = 0;
    std::size_t offset = 0;
  };
  Errc post(const Post& m);
  std::vector<Completion> poll(CqId cq);
  std::vector<Completion> sends() { return poll(send_cq); }
  std::vector<Completion> receives() { return poll(receive_cq); }

  // ---- out

  /// What the engine sends now.
  SentList transmit(PlaneMask planes = ~PlaneMask{0});
  /// Lets time pass with all timers; what is sent meanwhile.
  SentList advance(Duration d);

  [[nodiscard]] const engine::QueuePairState& qp() const { return *engine.find_qp(qpn); }
  [[nodiscard]] engine::Peer& peer_state() { return *engine.find_peer(peer); }
  [[nodiscard]] path::PathIndex path_of(const Sent& s) { return peer_state().paths.find(s.ev); }

  Setup setup;
  const Psn first;  ///< that the engine expects
  Psn own;          ///< first that it sends
  Engine engine;
  Time now;
  std::vector<std::uint8_t> target, source;
  PdId pd{};
  CqId send_cq{}, receive_cq{};
  std::uint32_t rkey = 0, lkey = 0;
  PeerId peer{};
  Qpn qpn{};
  bool forged = false;  ///< packets come from somebody else, who knows no tag
  wire::TxBurst burst{64, 1024};
};

}  // namespace mrc::test
