// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <poll.h>

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/headers.hpp"
#include "support/wait.hpp"

/// Two ports of one kind, and packets from one to the other.
namespace mrc::port::test {

using mrc::test::eventually;

/// True if the descriptor is readable now.
inline bool readable(int fd) {
  pollfd descriptor{fd, POLLIN, 0};
  return poll(&descriptor, 1, 0) == 1;
}

/// What arrived, copied out of the port's buffers.
struct Arrived {
  wire::RxPacket facts;
  std::vector<std::uint8_t> bytes;
};

/// Payload of a packet: reproducible from its number.
inline std::vector<std::uint8_t> payload_of(std::uint32_t number, std::size_t size) {
  std::vector<std::uint8_t> bytes(size);
  Random random(number);
  for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
  return bytes;
}

template <class P>
struct PortRig {
  PortRig(P a, P b) : sender(std::move(a)), receiver(std::move(b)) {}

  /// Puts one packet into the burst: that header, and payload in two SGEs.
  void append(Bytes header, std::uint32_t number, std::size_t payload, std::uint16_t path, Ecn ecn,
              std::uint8_t dscp, Ev ev) {
    payloads.push_back(payload_of(number, payload));
    wire::TxPacket& p = burst.append();
    p.header.fill(0);
    std::memcpy(p.header.data(), header.data(), header.size());
    p.header_length = static_cast<std::uint8_t>(header.size());
    p.pad = pad_of(payload);
    p.dscp = dscp;
    p.ecn = ecn;
    p.peer = PeerId{5};
    p.port_path = path;
    p.entropy = ev;
    p.plane = 0;
    const auto& data = payloads.back();
    const auto half = static_cast<std::uint32_t>(payload / 2);
    burst.add_sge(data.data(), half, 0);
    burst.add_sge(data.data() + half, static_cast<std::uint32_t>(payload) - half, 0);
    burst.commit();
  }
  [[nodiscard]] static std::uint8_t pad_of(std::size_t payload) {
    return static_cast<std::uint8_t>((4 - payload % 4) % 4);
  }

  /// Sends all groups, each with a call of its own or all with one; returns how many packets were
  /// taken.
  std::uint32_t send_each() {
    std::uint32_t taken = 0;
    for (const wire::TxGroup& group : burst.groups())
      taken += sender.transmit(now(), burst, {&group, 1});
    return sent(taken);
  }
  std::uint32_t send_at_once() { return sent(sender.transmit(now(), burst, burst.groups())); }

  /// Receives until nothing more is there.
  void receive() {
    do {
      rx.clear();
      receiver.receive(now(), rx);
      for (const wire::RxPacket& p : rx.packets()) {
        if (p.check == 0)
          arrived.push_back({p, {p.bytes.begin(), p.bytes.end()}});
        else
          ++bad_icrc;
      }
    } while (more());
  }
  /// Would receive() bring something?
  [[nodiscard]] bool more() const {
    return receiver.next_release() <= now() || readable(receiver.poll_fd());
  }

  [[nodiscard]] static Time now() { return monotonic_now(); }
  [[nodiscard]] static std::uint32_t number_of(const Arrived& a) {
    wire::Bth bth;
    std::memcpy(&bth, a.bytes.data(), sizeof bth);
    return bth.psn().value();
  }

  P sender;
  P receiver;
  std::uint64_t tag = 0;
  wire::TxBurst burst{256, 1024};
  std::vector<std::vector<std::uint8_t>> payloads;
  RxBurst rx{64};
  std::vector<Arrived> arrived;
  std::uint64_t bad_icrc = 0;  ///< packets received whose iCRC is wrong

 private:
  std::uint32_t sent(std::uint32_t taken) {
    burst.clear();
    payloads.clear();
    return taken;
  }
};

}  // namespace mrc::port::test
