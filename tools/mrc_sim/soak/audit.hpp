// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "mrc/sim/fabric.hpp"
#include "mrc_sim/soak/traffic.hpp"

namespace mrc::soak {

/// Consistency checks of all counters after a soak run, when no packets are in flight. Failed
/// checks throw SoakFailure.
class SoakAudit {
 public:
  SoakAudit(Network& network, const Fabric& fabric, const SoakSetup& setup,
            const FaultSchedule& faults, const SoakTraffic& traffic)
      : network_(network), fabric_(fabric), setup_(setup), traffic_(traffic) {
    for (const Fault& f : faults.faults()) {
      corruption_ |= f.kind == FaultKind::corruption;
      kills_ |= f.kind == FaultKind::kill;
      others_ |= f.kind != FaultKind::kill;
    }
  }

  void run() const {
    check_links();
    check_packets();
    check_account();
    for (const auto& host : traffic_.hosts())
      if (!host->killed()) check_host(*host);
    traffic_.audit();
  }

 private:
  static void zero(const std::string& where, const char* what, std::uint64_t n) {
    soak_require(n == 0, [&] { return where + ": " + std::to_string(n) + " " + what; });
  }
  static void equal(const std::string& where, const char* left, std::uint64_t a, const char* right,
                    std::uint64_t b) {
    soak_require(a == b, [&] {
      return where + ": " + left + " is " + std::to_string(a) + ", but " + right + " " +
             std::to_string(b);
    });
  }

  void check_links() const;
  void check_packets() const;
  void check_account() const;
  void check_host(const SoakHost& host) const;
  void check_queue_pairs(const SoakHost& host) const;
  void check_peers(const SoakHost& host) const;
  [[nodiscard]] static std::string name(const SoakHost& host) {
    return "h" + std::to_string(host.number());
  }

  Network& network_;
  const Fabric& fabric_;
  const SoakSetup& setup_;
  const SoakTraffic& traffic_;
  bool corruption_ = false, kills_ = false, others_ = false;
};

/// Links must have only the faults injected, and empty queues.
inline void SoakAudit::check_links() const {
  for (const Link& l : network_.links()) {
    zero(l.name, "packets in the queue", !l.control.empty() + !l.data.empty());
    zero(l.name, "bytes in the queue", l.queued() + l.buffered);
    zero(l.name, "flow control still stops it", l.paused);
    soak_require(l.up, [&] { return l.name + " is down"; });
    if (!corruption_) zero(l.name, "packets corrupted without cause", l.stats.corrupted);
    if (!others_) zero(l.name, "packets lost without cause", l.stats.lost + l.stats.refused);
    if (setup_.fabric.queue.overflow == Overflow::drop)
      zero(l.name, "packets trimmed without cause", l.stats.trimmed);
    if (setup_.fabric.pfc.xoff == 0) zero(l.name, "pauses without cause", l.stats.pauses);
  }
  if (setup_.fabric.forwarding != Forwarding::udp)
    zero("the switches", "packets without a route", fabric_.unroutable());
}

/// Every packet sent is accounted for, as received or in a drop counter.
inline void SoakAudit::check_packets() const {
  zero("the network", "packets under way", network_.packets().in_use());
  std::uint64_t sent = 0, received = 0, gone = fabric_.unroutable();
  for (const auto& host : traffic_.hosts()) {
    received += host->swallowed();
    for (const auto& port : host->ports()) {
      sent += port->stats().tx_packets;
      received += port->stats().rx_packets;
    }
  }
  std::uint64_t corrupted = 0, bad = 0, malformed = 0, probes = 0;
  for (const Link& l : network_.links()) {
    gone += l.stats.dropped + l.stats.lost + l.stats.refused;
    corrupted += l.stats.corrupted;
  }
  equal("the network", "packets sent", sent, "received, dropped and lost are", received + gone);
  for (const auto& host : traffic_.hosts()) {
    probes += host->engine().stats().probes_sent;
    for (const auto& port : host->ports()) malformed += port->stats().rx_malformed;
    bad += host->engine().stats().drops.bad_icrc;
  }
  // A trimmed reliability probe is not a trimmed write (mrc-1.0 §2.13 step 3).
  if (setup_.fabric.queue.overflow == Overflow::drop) probes = 0;
  soak_require(malformed <= probes, [&] {
    return std::to_string(malformed) + " malformed packets received, with at most " +
           std::to_string(probes) + " trimmed probes";
  });
  soak_require(bad <= corrupted, [&] {
    return std::to_string(bad) + " packets with a wrong iCRC, only " + std::to_string(corrupted) +
           " were corrupted";
  });
}

/// Every data packet that was sent again was lost before, for a cause that the network knows, or
/// was refused, or has arrived twice.
inline void SoakAudit::check_account() const {
  const Ledger& ledger = network_.ledger();
  std::uint64_t first = 0, again = 0, accepted = 0, duplicates = 0, errors = 0;
  for (const auto& host : traffic_.hosts()) {
    const EngineStats& s = host->engine().stats();
    first += s.tx_data;
    again += s.tx_retransmits;
    accepted += s.rx_data;
    duplicates += s.rx_duplicates;
    errors += s.qp_errors;
  }
  zero("the network", "data packets under way", ledger.under_way());
  equal("the network", "data packets sent", first + again, "it has carried", ledger.sent());
  const std::uint64_t arrived = ledger[PacketFate::arrived];
  soak_require(accepted + duplicates <= arrived, [&] {
    return std::to_string(accepted + duplicates) + " data packets received, only " +
           std::to_string(arrived) + " arrived";
  });
  if (kills_ || errors > 0) return;  // what was given up never arrives
  equal("the hosts", "new data packets sent", first, "accepted", accepted);
  equal("the hosts", "data packets sent again", again, "lost, refused and received twice",
        ledger.lost() + (arrived - accepted - duplicates) + duplicates);
}

inline void SoakAudit::check_host(const SoakHost& host) const {
  const engine::Engine& e = host.engine();
  const EngineStats& s = e.stats();
  std::uint64_t sent = 0, received = 0;
  for (const auto& port : host.ports()) {
    sent += port->stats().tx_packets;
    received += port->stats().rx_packets;
  }
  received -= s.drops.bad_icrc;
  equal(name(host), "packets sent by the engine", s.tx_data + s.tx_retransmits + s.tx_control,
        "by its ports", sent);
  const std::uint64_t known = s.rx_data + s.rx_duplicates + s.rx_trimmed + s.rx_control;
  soak_require(known <= received, [&] {
    return name(host) + ": the engine counts " + std::to_string(known) +
           " packets, its ports received " + std::to_string(received);
  });
  zero(name(host), "malformed packets in the engine", s.drops.malformed);
  zero(name(host), "packets for unknown queue pairs", s.drops.unknown_qp);
  zero(name(host), "packets of foreign senders", s.drops.foreign);
  zero(name(host), "implausible acknowledgements", s.drops.implausible);
  check_queue_pairs(host);
  check_peers(host);
}

inline void SoakAudit::check_queue_pairs(const SoakHost& host) const {
  const engine::Engine& e = host.engine();
  std::uint64_t first = 0, again = 0, duplicates = 0, accepted = 0, errors = 0;
  bool waits = false;
  e.context().objects.for_each_qp([&](const engine::QueuePairState& state) {
    const auto* qp = &state;
    const QpStats stats = e.qp_stats(state);
    first += stats.tx_packets;
    again += stats.retransmits;
    accepted += stats.rx_packets;
    duplicates += stats.rx_duplicates;
    errors += qp->state == QpState::err;
    const bool open = !qp->tx.window.empty() || qp->tx.queue.backlog();
    waits |= open;
    const std::string qp_name = name(host) + " queue pair " + std::to_string(mrc::value(qp->qpn));
    // Only with a dead peer and unlimited retries.
    if (!kills_) zero(qp_name, "packets in the send window", qp->tx.window.span());
    if (!open) zero(qp_name, "bytes in its account", qp->tx.inflight);
  });
  const EngineStats& s = e.stats();
  equal(name(host), "packets of all queue pairs", first, "the engine's", s.tx_data);
  equal(name(host), "retransmissions of all queue pairs", again, "the engine's", s.tx_retransmits);
  equal(name(host), "packets accepted by all queue pairs", accepted, "the engine's", s.rx_data);
  equal(name(host), "duplicates of all queue pairs", duplicates, "the engine's", s.rx_duplicates);
  equal(name(host), "queue pairs in error", errors, "the engine's", s.qp_errors);
  if (waits) return;
  soak_require(e.quiet(), [&] { return name(host) + ": the engine keeps packet records"; });
}

inline void SoakAudit::check_peers(const SoakHost& host) const {
  const engine::Engine& e = host.engine();
  for (std::uint32_t i = 0; i < e.peer_count(); ++i) {
    const engine::Peer& peer = *e.find_peer(PeerId{i});
    // Peers are numbered in order of creation; their tag identifies the host.
    const auto other = static_cast<std::size_t>(peer.source_tags[0] >> 8 & 0xFFFF);
    if (traffic_.hosts().at(other)->killed()) continue;
    const std::string where = name(host) + " peer h" + std::to_string(other);
    soak_require(peer.congestion.inflight() <= 0, [&] {
      return where + ": " + std::to_string(peer.congestion.inflight()) + " bytes in flight";
    });
    for (const std::uint64_t bytes : peer.plane_inflight) zero(where, "bytes in a plane", bytes);
    equal(where, "usable planes", peer.paths.planes_up(), "all planes are",
          (PlaneMask{1} << setup_.fabric.planes) - 1);
    for (path::PathIndex p = 0; p < peer.paths.size(); ++p)
      soak_require(path::usable(peer.paths.health(p)), [&] {
        return where + ": path " + std::to_string(p) + " of plane " +
               std::to_string(peer.paths[p].plane) + " was not brought back into use";
      });
  }
}

}  // namespace mrc::soak
