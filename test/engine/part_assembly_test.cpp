// SPDX-License-Identifier: Apache-2.0
// Data packets that arrive in parts: put together in any order, and nothing else accepted.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/engine/memory.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::engine::part_assembly_test {
namespace {

using Buffer = std::vector<std::uint8_t>;

constexpr std::uint32_t kLargest = 8192;

/// A data packet, whole and in parts.
struct Packet {
  Packet(std::uint32_t psn, std::uint32_t length, bool imm = true, Qpn qpn = Qpn{0x20007}) {
    wire::WriteHeader h;
    h.opcode = imm ? wire::Opcode::write_last_imm : wire::Opcode::write_middle;
    h.pad = static_cast<std::uint8_t>((4 - length % 4) % 4);
    h.has_timestamp = psn % 2 == 0;
    h.timestamp = 0x1234;
    h.dqp = qpn;
    h.psn = Psn{psn};
    h.va = 0x1122334455667788;
    h.rkey = 0x99AABBCC;
    h.dma_length = 70'000;
    h.immediate = 0xDDEEFF00;
    std::uint8_t header[wire::kMaxWriteHeader];
    const std::size_t size = wire::build_write_header(header, h);
    whole.assign(header, header + size);
    Random random(psn);
    for (std::uint32_t i = 0; i < length; ++i)
      whole.push_back(static_cast<std::uint8_t>(random.next()));
    for (std::uint32_t at = 0; at < length; at += wire::kPartPayload) {
      const std::uint32_t n = std::min(wire::kPartPayload, length - at);
      Buffer part(header, header + sizeof(wire::Bth));
      part[0] = static_cast<std::uint8_t>(wire::Opcode::packet_part);
      const bool last = at + n == length;
      reinterpret_cast<wire::Bth*>(part.data())->set_pad(last ? h.pad : 0u);
      wire::PartHeader ph;
      ph.op = header[0];
      ph.offset = static_cast<std::uint16_t>(at);
      ph.length = static_cast<std::uint16_t>(length);
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(&ph);
      part.insert(part.end(), bytes, bytes + sizeof ph);
      part.insert(part.end(), header + sizeof(wire::Bth), header + size);
      const auto payload = whole.begin() + static_cast<std::ptrdiff_t>(size + at);
      part.insert(part.end(), payload, payload + n);
      if (last) part.insert(part.end(), h.pad, 0);
      parts.push_back(part);
    }
    whole.insert(whole.end(), h.pad, 0);
  }
  Buffer whole;
  std::vector<Buffer> parts;
};

std::optional<wire::RxPacket> add(PartAssembly& assembly, const Buffer& part, bool& malformed,
                                  Ecn ecn = Ecn::ect0, Time now = Time{},
                                  std::uint32_t check = 42) {
  REQUIRE(wire::check(part) == wire::ParseError::none);
  wire::RxPacket p;
  p.bytes = part;
  p.plane = 3;
  p.check = check;
  p.ecn = ecn;
  return assembly.add(now, p, malformed);
}

TEST_CASE("packet parts: in any order, with copies, of several packets at a time") {
  PartAssembly assembly(16, kLargest);
  Random random(1);
  bool malformed = false;
  for (std::uint32_t round = 0; round < 100; ++round) {
    std::vector<Packet> packets;
    std::vector<const Buffer*> arrivals;
    for (std::uint32_t i = 0; i < 8; ++i)
      packets.emplace_back(round * 8 + i, 1025 + random.below(kLargest - 1024), i % 2 == 0);
    for (const Packet& p : packets)
      for (const Buffer& part : p.parts) arrivals.insert(arrivals.end(), 1, &part);
    for (std::size_t i = arrivals.size(); i > 1; --i)
      std::swap(arrivals[i - 1], arrivals[random.below(static_cast<std::uint32_t>(i))]);
    unsigned complete = 0;
    for (const Buffer* part : arrivals) {
      const bool marked = complete % 2 == 1;
      const auto whole = add(assembly, *part, malformed, marked ? Ecn::ce : Ecn::ect0);
      REQUIRE_FALSE(malformed);
      if (!whole) {
        if (random.chance(0.3)) CHECK_FALSE(add(assembly, *part, malformed));  // twice
        continue;
      }
      ++complete;
      const Buffer got(whole->bytes.begin(), whole->bytes.end());
      CHECK(std::any_of(packets.begin(), packets.end(),
                        [&](const Packet& p) { return p.whole == got; }));
      CHECK(wire::check(whole->bytes) == wire::ParseError::none);
      CHECK(whole->udp_length == 8 + got.size() + 4);
      CHECK(whole->plane == 3);
      CHECK(whole->check == 42);
    }
    CHECK(complete == packets.size());
  }
}

TEST_CASE("packet parts: a mark of any part marks the packet") {
  PartAssembly assembly(4, kLargest);
  const Packet p(9, 3000);
  bool malformed = false;
  CHECK_FALSE(add(assembly, p.parts[0], malformed, Ecn::ce));
  CHECK_FALSE(add(assembly, p.parts[1], malformed));
  CHECK(add(assembly, p.parts[2], malformed)->ecn == Ecn::ce);
}

TEST_CASE("packet parts: a packet that takes the place of another one leaves nothing of it") {
  const Packet a(1, 3000), b(2, 3000), shorter(1, 2000), other(1, 3000, false);
  bool malformed = false;
  for (const Packet* second : {&b, &shorter, &other}) {
    PartAssembly assembly(1, kLargest);
    CHECK_FALSE(add(assembly, a.parts[0], malformed));
    CHECK_FALSE(add(assembly, a.parts[1], malformed));
    std::optional<wire::RxPacket> whole;
    for (const Buffer& part : second->parts) {
      CHECK_FALSE(whole);
      whole = add(assembly, part, malformed);
    }
    REQUIRE(whole);
    CHECK(Buffer(whole->bytes.begin(), whole->bytes.end()) == second->whole);
    CHECK_FALSE(add(assembly, a.parts[2], malformed));  // the others are gone
  }
}

TEST_CASE(
    "packet parts: those of an earlier connection, or of long ago, are not mixed with new ones") {
  const Packet p(1, 3000);
  bool malformed = false;
  struct Later {
    Time now;
    std::uint32_t check;
    bool mixed;
  };
  for (const auto& [now, check, mixed] :
       {Later{Time{PartAssembly::kLifetime}, 42, true},
        Later{Time{PartAssembly::kLifetime + Duration{1}}, 42, false}, Later{Time{}, 43, false}}) {
    PartAssembly assembly(4, kLargest);
    CHECK_FALSE(add(assembly, p.parts[0], malformed));
    CHECK_FALSE(add(assembly, p.parts[1], malformed, Ecn::ect0, now, check));
    CHECK(add(assembly, p.parts[2], malformed, Ecn::ect0, now, check).has_value() == mixed);
    CHECK(add(assembly, p.parts[0], malformed, Ecn::ect0, now, check).has_value() == !mixed);
  }
}

TEST_CASE("packet parts: what fits no packet is refused, whatever its bytes are") {
  const Packet p(4, 3001);
  const auto refused = [](Buffer part) {
    PartAssembly assembly(4, 4096);
    bool malformed = false;
    return !add(assembly, part, malformed) && malformed;
  };
  const auto with = [&](std::size_t part, std::size_t at, unsigned value) {
    Buffer bytes = p.parts[part];
    bytes[at] = static_cast<std::uint8_t>(value);
    return bytes;
  };
  constexpr std::size_t kOp = 12, kOffset = 14, kLength = 16;
  CHECK_FALSE(refused(p.parts[0]));
  CHECK(refused(with(0, kOp, 0xD7)));       // a part of a part
  CHECK(refused(with(0, kOp, 0xDC)));       // a SACK
  CHECK(refused(with(0, kOffset + 1, 4)));  // no multiple of 1,024
  CHECK(refused(with(0, kOffset, 12)));     // behind the end
  CHECK(refused(with(0, kLength, 0x20)));   // longer than a packet can be
  CHECK(refused(with(0, kLength, 2)));      // fits into one
  CHECK(refused(with(2, kOffset, 4)));      // the last one in the midst
  CHECK(refused(with(1, kOffset, 8)));      // the reverse
  Buffer cut = p.parts[0];
  cut.resize(cut.size() - 4);
  CHECK(refused(cut));
  cut.resize(sizeof(wire::Bth) + sizeof(wire::PartHeader) + 20);  // least that wire::check() takes
  CHECK(refused(cut));
  PartAssembly none(0, kLargest);
  bool malformed = false;
  CHECK_FALSE(add(none, p.parts[0], malformed));
  CHECK(malformed);

  Random random(7);  // any bytes behind the opcode
  PartAssembly assembly(8, 4096);
  for (unsigned i = 0; i < 20'000; ++i) {
    Buffer bytes = p.parts[random.below(3)];
    for (unsigned n = random.below(6); n > 0; --n)
      bytes[1 + random.below(40)] = static_cast<std::uint8_t>(random.next());
    bytes.resize(random.below(static_cast<std::uint32_t>(bytes.size()) + 1));
    if (wire::check(bytes) != wire::ParseError::none) continue;
    wire::RxPacket packet;
    packet.bytes = bytes;
    (void)assembly.add(Time{}, packet, malformed);
  }
}

}  // namespace
}  // namespace mrc::engine::part_assembly_test
