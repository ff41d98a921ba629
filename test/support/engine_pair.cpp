// SPDX-License-Identifier: Apache-2.0
#include "support/engine_pair.hpp"

#include <algorithm>

#include "mrc/core/types.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::test {
namespace {

/// How many of the first packets of a group leave in one piece: all of a length, and a shorter one.
std::size_t piece_length(std::span<const wire::TxPacket> packets) {
  const std::uint32_t segment = packets.front().transport_length();
  std::size_t n = 1;
  while (n < packets.size() && packets[n - 1].transport_length() == segment &&
         packets[n].transport_length() <= segment)
    ++n;
  return n;
}

}  // namespace

EnginePair::EnginePair(const Setup& setup, std::uint64_t seed) : setup_(setup), random_(seed) {
  for (unsigned side = 0; side < 2; ++side) {
    EngineOptions o = setup.options;
    o.seed = seed * 2 + side;
    o.secret = {seed, side};
    o.planes = (PlaneMask{1} << setup.planes) - 1;
    o.slot = static_cast<std::uint8_t>(side);
    o.start = now_;
    if (setup.parts) o.part_places = 64;
    if (setup.parts) o.largest_payload = kLargestMtu;
    const PlaneMask planes = (PlaneMask{1} << setup.planes) - 1;
    if (setup.habits.holds) o.holding_planes = planes;
    if (setup.habits.holds && o.held_copies == 0) o.held_copies = 4096;
    if (setup.habits.places) o.placing_planes = planes;
    engines_[side] = std::make_unique<Engine>(o);
    pd_[side] = *engines_[side]->alloc_pd();
  }
  for (unsigned side = 0; side < 2; ++side) peer_[side] = add_peer(side);
  for (unsigned side = 0; side < 2; ++side)
    for (unsigned p = 0; p < setup.planes; ++p)
      ports_[side].emplace_back(
          setup.habits, seed * 64 + side * 32 + p,
          [this, side](Time, const wire::TxPacket& packet, std::vector<std::uint8_t> bytes) {
            send(side, packet, std::move(bytes));
          });
  for (auto& direction : busy_until_) direction.assign(setup.planes, now_);
}

std::uint32_t EnginePair::register_memory(unsigned side, void* address, std::size_t length,
                                          Access access) {
  const std::uint32_t key = *engines_[side]->register_memory(address, length, access, pd_[side]);
  for (FakePort& port : ports_[side])
    port.register_memory({key, static_cast<std::uint8_t*>(address), length, in_force(access)});
  return key;
}

std::size_t EnginePair::held(unsigned side) const {
  std::size_t n = 0;
  for (const FakePort& port : ports_[side]) n += port.held();
  return n;
}

std::uint64_t EnginePair::placed(unsigned side) const {
  std::uint64_t n = 0;
  for (const FakePort& port : ports_[side]) n += port.placed();
  return n;
}

void EnginePair::connect(Qpn a, Qpn b, std::uint32_t near_wrap) {
  const Qpn qpn[2] = {a, b};
  for (unsigned side = 0; side < 2; ++side)
    while (engines_[side]->start_psn(qpn[side])->value() < (1u << 24) - near_wrap)
      (void)engines_[side]->to_reset(qpn[side]);  // draws a new one
  for (unsigned side = 0; side < 2; ++side) {
    Engine& e = *engines_[side];
    const auto& other = *engines_[1 - side]->find_qp(qpn[1 - side]);
    RemoteQp remote;
    remote.peer = peer_[side];
    remote.qpn = qpn[1 - side];
    remote.start_psn = other.start_psn;
    remote.mpr_dest = other.attributes.mpr_dest;
    remote.max_wimm_dest = other.attributes.max_wimm_dest;
    remote.dynamic_mpr = other.attributes.dynamic_mpr;
    remote.trim_nack = other.attributes.trim_nack;
    if (setup_.tags) remote.tag = other.tag.bits();
    remote.parts = setup_.parts;
    if (setup_.rc) {
      remote.rc = other.attributes.rc;
      remote.max_rd_atomic_dest = other.attributes.max_rd_atomic_dest;
      remote.solicited = true;
    }
    (void)e.to_init(qpn[side]);
    (void)e.to_rtr(qpn[side], remote);
    (void)e.to_rts(qpn[side], now_);
  }
}

bool EnginePair::run(Time limit, const std::function<bool()>& done) {
  for (;;) {
    flush();
    if (done()) return true;
    flush();  // what done() posted
    Time next = std::min(wakes(0), wakes(1));
    if (!wire_.empty()) next = std::min(next, wire_.top().when);
    for (const auto& ports : ports_)
      for (const FakePort& port : ports) next = std::min(next, port.next_release());
    if (next > limit || next == kNever) {
      now_ = std::max(now_, limit);
      return done();
    }
    now_ = std::max(now_, next);
    deliver();
    for (unsigned side = 0; side < 2; ++side)
      for (unsigned p = 0; p < setup_.planes; ++p)
        if (ports_[side][p].next_release() <= now_) take_in(side, p);
    for (unsigned side = 0; side < 2; ++side)
      if (wakes(side) <= now_) engines_[side]->on_time(now_);
  }
}

void EnginePair::drop_in_flight() {
  for (; !wire_.empty(); wire_.pop()) lost(wire_.top());
}

void EnginePair::set_port(unsigned side, Plane plane, bool up) {
  if (up)
    ports_down_[side] &= ~plane_bit(plane);
  else
    ports_down_[side] |= plane_bit(plane);
  engines_[side]->set_plane_up(now_, plane, up);
}

PeerId EnginePair::add_peer(unsigned side) {
  engine::PeerSpec spec;
  spec.slot = static_cast<std::uint8_t>(1 - side);
  spec.planes = (PlaneMask{1} << setup_.planes) - 1;
  spec.plane_window = setup_.plane_window;
  spec.head_check = setup_.head_check;
  for (unsigned p = 0; p < setup_.planes; ++p) {
    spec.source_tags[p] = source_tag(1 - side, static_cast<Plane>(p));
    for (unsigned i = 0; i < setup_.paths; ++i)
      spec.paths.push_back(
          {Ev{0x1000 * (p + 1) + i}, static_cast<Plane>(p), static_cast<std::uint16_t>(i)});
  }
  return *engines_[side]->add_peer(spec);
}

Time EnginePair::wakes(unsigned side) const {
  return stalled(side) ? stalled_until_[side] : engines_[side]->next_deadline();
}

void EnginePair::flush() {
  for (unsigned side = 0; side < 2; ++side) {
    if (stalled(side)) continue;
    for (;;) {
      burst_.clear();
      engines_[side]->poll_transmit(now_, ~PlaneMask{0}, burst_);
      if (burst_.empty()) break;
      if (setup_.habits.places)
        for (const auto& packet : burst_.packets())
          if (FakePort::placeable(packet)) copies_[1 - side].add(FakePort::name_of(packet));
      for (const auto& g : burst_.groups()) transmit(side, g);
    }
  }
}

void EnginePair::transmit(unsigned side, const wire::TxGroup& group) {
  FakePort& port = ports_[side][group.plane];
  if (!pieces) {
    (void)port.transmit(now_, burst_, {&group, 1});
    return;
  }
  const auto packets = burst_.packets(group);
  for (std::size_t begin = 0; begin < packets.size();) {
    const bool joined =
        group.one_piece || (engines_[side]->planes_sent_singly() >> group.plane & 1) == 0;
    const auto piece = packets.subspan(begin, joined ? piece_length(packets.subspan(begin)) : 1);
    const std::size_t whole = std::min(pieces(side, piece), piece.size());
    for (std::size_t i = 0; i < piece.size(); ++i) {
      vanishes_ = i >= whole;
      const wire::TxGroup one{group.first + static_cast<std::uint32_t>(begin + i), 1, group.plane};
      (void)port.transmit(now_, burst_, {&one, 1});
    }
    begin += piece.size();
  }
  vanishes_ = false;
}

void EnginePair::send(unsigned side, const wire::TxPacket& p, std::vector<std::uint8_t> bytes) {
  if (tap) tap(side, p, bytes);
  Flying f{std::max(now_, stalled_until_[side]),
           ++number_,
           1 - side,
           std::move(bytes),
           0,
           p.entropy,
           p.plane,
           p.ecn,
           wire::Trim::none,
           p.check_seed,
           setup_.habits.places && FakePort::placeable(p),
           FakePort::name_of(p)};
  if (vanishes_) return lost(f);
  if (filter && !filter(side, p, f.bytes)) return lost(f);
  f.udp_length = 8 + static_cast<std::uint32_t>(f.bytes.size()) + 4;
  if (swallowed(side, p)) return lost(f);
  const bool data = p.dscp != setup_.options.dscp.control;
  if (!enqueue(side, f, data)) return lost(f);
  if (faults.corrupt > 0 && random_.chance(faults.corrupt) && corrupt(f.bytes)) {
    ++corrupted_and_caught;
    return lost(f);
  }
  if (data && random_.chance(faults.ecn)) f.ecn = Ecn::ce;
  if (data && f.trim == wire::Trim::none && random_.chance(faults.trim)) trim(f);
  f.when += setup_.delay;
  if (faults.skew.count() > 0) f.when += faults.skew * (value(p.entropy) * 37 % 100) / 100;
  if (faults.jitter.count() > 0)
    f.when += Duration{random_.below(static_cast<std::uint32_t>(faults.jitter.count()))};
  if (random_.chance(faults.reorder)) f.when += setup_.delay * (1 + random_.below(4));
  if (random_.chance(faults.duplicate)) {
    Flying copy = f;
    copy.number = ++number_;
    copy.when += setup_.delay * random_.below(20);
    if (copy.placeable) copies_[copy.to].add(copy.name);
    wire_.push(std::move(copy));
  }
  wire_.push(std::move(f));
}

bool EnginePair::swallowed(unsigned side, const wire::TxPacket& p) {
  if (dead_[0] || dead_[1]) return true;
  if (((faults.black_holes | ports_down_[0] | ports_down_[1]) >> p.plane & 1) != 0) return true;
  if (faults.dead_paths.count(value(p.entropy)) != 0) return true;
  if (p.payload_length > faults.largest && (faults.narrow >> p.plane & 1) != 0 &&
      (faults.narrow_paths.empty() || faults.narrow_paths.count(value(p.entropy)) != 0))
    return true;
  (void)side;
  return random_.chance(faults.loss);
}

bool EnginePair::enqueue(unsigned side, Flying& f, bool data) {
  if (!data) return true;
  Time& busy = busy_until_[side][f.plane];
  busy = std::max(busy, f.when);
  const double queued = static_cast<double>((busy - f.when).count()) * setup_.gbps / 8;
  if (queued > static_cast<double>(setup_.queue)) {
    if (!setup_.trimming_switch) return false;
    trim(f);
    return true;
  }
  if (queued > static_cast<double>(setup_.ecn_threshold) && f.ecn == Ecn::ect0) f.ecn = Ecn::ce;
  busy +=
      Duration{static_cast<std::int64_t>(static_cast<double>(f.udp_length + 60) * 8 / setup_.gbps)};
  f.when = busy;
  return true;
}

void EnginePair::lost(const Flying& f) {
  if (f.placeable && copies_[f.to].remove(f.name)) settle(f.to, f.name);
}

void EnginePair::settle(unsigned side, wire::PacketName name) {
  for (FakePort& port : ports_[side]) port.settle(now_, name);
}

void EnginePair::trim(Flying& f) {
  lost(f);
  f.placeable = false;
  f.bytes.resize(std::min<std::size_t>(f.bytes.size(), 20));
  f.trim = wire::Trim::trimmed;
}

bool EnginePair::corrupt(std::vector<std::uint8_t>& bytes) {
  const auto crc = [&] { return wire::crc32(0, Bytes{bytes}); };
  const std::uint32_t before = crc();
  bytes[random_.below(static_cast<std::uint32_t>(bytes.size()))] ^=
      static_cast<std::uint8_t>(1u << random_.below(8));
  return crc() != before;
}

void EnginePair::deliver() {
  while (!wire_.empty() && wire_.top().when <= now_) {
    if (stalled(wire_.top().to)) {
      Flying waiting = wire_.top();
      wire_.pop();
      waiting.when = stalled_until_[waiting.to];
      wire_.push(std::move(waiting));
      continue;
    }
    const Flying& f = wire_.top();
    wire::RxPacket p;
    p.bytes = f.bytes;
    p.source = source_tag(1 - f.to, f.plane);
    p.udp_length = f.udp_length;
    p.entropy = f.entropy;
    p.plane = f.plane;
    p.ecn = f.ecn;
    p.trim = f.trim;
    p.check = f.trim == wire::Trim::none ? f.check : 0;
    const unsigned to = f.to;
    const bool dead = dead_[0] || dead_[1];
    bool last = false;
    if (dead)
      lost(f);
    else
      last = ports_[to][f.plane].deliver(now_, p, f.bytes, copies_[to]);
    if (last) settle(to, f.name);
    wire_.pop();
    if (!dead) take_in(to, p.plane);
  }
}

void EnginePair::take_in(unsigned side, unsigned plane) {
  FakePort& port = ports_[side][plane];
  Engine& e = *engines_[side];
  rx_.clear();
  port.receive(now_, rx_);
  if (!rx_.empty()) e.receive(now_, rx_.packets());
  e.on_released(port.take_released());
  e.on_settled(now_, static_cast<Plane>(plane), port.take_settled());
}

}  // namespace mrc::test
