// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/sim/faults.hpp"
#include "mrc/sim/mrc_host.hpp"

namespace mrc::soak {

using namespace sim;

/// A message of a soak run.
struct SoakMessage {
  std::uint32_t length = 0, immediate = 0;
  std::uint32_t sges = 0;  ///< SGEs
  SendOpcode opcode = SendOpcode::write;
  bool signaled = false, inlined = false;
  bool verified = false;
  Time release{};  ///< earliest posting
  /// Offset of its place: in the receiver's memory; of a READ or an atomic, in the requester's.
  std::uint64_t target = 0;
  std::uint64_t source = 0;  ///< offset of what is sent or read, in the sources of the other side

  /// The requester gets data: READ, atomic.
  [[nodiscard]] bool answered() const noexcept { return has_response(opcode); }
  [[nodiscard]] bool is_send() const noexcept {
    return opcode == SendOpcode::send || opcode == SendOpcode::send_imm;
  }
  [[nodiscard]] bool with_immediate() const noexcept {
    return opcode == SendOpcode::write_imm || opcode == SendOpcode::send_imm;
  }
  /// Consumes a receive.
  [[nodiscard]] bool consumes() const noexcept { return is_send() || with_immediate(); }
  /// Bytes that the packets of the request carry, and those of the response.
  [[nodiscard]] std::uint32_t payload() const noexcept {
    return !answered() ? length : opcode == SendOpcode::read ? 0 : 16;
  }
};

/// A connection between queue pairs of two hosts, side 0 and 1.
struct SoakConnection {
  std::array<unsigned, 2> host{};
  std::array<QpAttributes, 2> attributes{};
  std::array<QpCapacity, 2> capacity{};
  bool rc = false;                                   ///< with SEND, READ and atomics
  std::array<std::uint32_t, 2> receives{};           ///< posted at a time; RC waits for more
  std::uint32_t near_wrap = 1u << 24;                ///< first PSNs are among the last so many
  std::array<std::vector<SoakMessage>, 2> messages;  ///< by the side that posts them
  [[nodiscard]] std::uint32_t mtu() const noexcept {
    return std::min(attributes[0].mtu, attributes[1].mtu);
  }
  /// The host in whose memory the message of a side has its place.
  [[nodiscard]] unsigned target_of(unsigned side, const SoakMessage& m) const noexcept {
    return host[m.answered() ? side : 1 - side];
  }
};

/// Everything about a run that a seed determines: fabric, hosts, traffic. Extremes are as likely as
/// usual values: queues of two packets and of hundreds, timers far below and above a round trip.
struct SoakSetup {
  FabricSettings fabric;
  HostSettings host;
  std::vector<SoakConnection> connections;
  SwarmOptions swarm;
  bool faults = true;
  bool patient = true;       ///< unlimited retries
  bool relaxed = true;       ///< memory with relaxed ordering
  Duration poll_delay{0};    ///< delay until a host polls its completion queue
  Duration horizon{};        ///< end of all faults and of the release of messages
  Duration round_trip{};     ///< of an empty network, upper bound
  std::uint64_t bytes = 0;   ///< of all messages
  std::uint64_t seeds[4]{};  ///< of network, fabric, faults, hosts

  explicit SoakSetup(std::uint64_t seed)
      : random_(seed ^ 0x50A4'50A4'50A4'50A4u), rc_random_(seed ^ 0x5C5C'5C5C'5C5C'5C5Cu) {
    for (std::uint64_t& s : seeds) s = random_.next();
    draw_fabric();
    draw_hosts();
    swarm.end = Time{horizon};
    swarm.kills = chance(0.3);
    draw_engine();
    popular_ = chance(0.4) ? random_.below(fabric.hosts) : fabric.hosts;
    const unsigned n = 1 + random_.below(std::min(3 * fabric.hosts, 24u));
    for (unsigned i = 0; i < n; ++i) draw_connection();
    faults = !chance(0.15);
  }

  /// Time without progress after which a queue pair gives up: the sum of its timers, each at least
  /// `floor`.
  [[nodiscard]] static Duration patience(const QpAttributes& a, Duration floor) noexcept {
    Duration sum{};
    for (unsigned i = 0; i <= 0u + a.retry_linear + a.retry_exponential; ++i) {
      const unsigned doublings = i > a.retry_linear ? i - a.retry_linear : 0;
      sum += std::max(floor, reliability::timeout_value(a.timeout + doublings));
    }
    return sum;
  }
  [[nodiscard]] std::string text() const;

 private:
  [[nodiscard]] bool chance(double p) { return random_.chance(p); }
  template <class T>
  [[nodiscard]] T one_of(std::initializer_list<T> all) {
    return all.begin()[random_.below(static_cast<std::uint32_t>(all.size()))];
  }
  /// Small values are as likely as large ones.
  [[nodiscard]] std::uint32_t magnitude(std::uint32_t most) {
    const std::uint32_t range = std::max(1u, most >> random_.below(8));
    return 1 + random_.below(range);
  }

  void draw_fabric();
  void draw_queues();
  void draw_hosts();
  void draw_engine();
  void draw_connection();
  void draw_side(SoakConnection& c, unsigned side);
  void draw_messages(SoakConnection& c, unsigned side);
  void draw_operations(SoakConnection& c);
  void draw_operation(SoakMessage& m);

  Random random_;
  Random rc_random_;  // of its own, so that all else is as it would be without RC
  std::uint32_t largest_ = 0;
  unsigned popular_ = 0;  // a host that many send to; none if the index does not exist
};

}  // namespace mrc::soak
