// SPDX-License-Identifier: Apache-2.0
#include "engine/rc_model/run.hpp"

#include <algorithm>

namespace mrc::test::rc {

void ProgramRun::open(unsigned side, const Program& program) {
  Shore& s = shores_[side];
  engine::Engine& e = pair_[side];
  s.send_cq = *e.create_cq(8192);
  s.receive_cq = random_.chance(0.5) ? s.send_cq : *e.create_cq(8192);
  const Access all[] = {Access::remote_read | Access::remote_atomic,
                        Access::remote_write | Access::remote_atomic,
                        Access::remote_write | Access::remote_read};
  s.counter_key = pair_.register_memory(side, &s.counter, sizeof s.counter, Access::remote_atomic);
  s.locked.assign(2 * 65'536, kFill);
  std::uint32_t* keys[] = {&s.no_write, &s.no_read, &s.no_atomic};
  for (unsigned i = 0; i < 3; ++i)
    *keys[i] = pair_.register_memory(side, s.locked.data(), s.locked.size(), all[i]);
  s.other_domain = *e.register_memory(
      s.locked.data(), s.locked.size(),
      Access::remote_write | Access::remote_read | Access::remote_atomic, *e.alloc_pd());
  const std::uint32_t depth = program.shared_depth[side];
  if (depth == 0) return;
  const std::uint32_t room = program.shared_room[side], sges = 1 + random_.below(4);
  auto q = std::make_unique<SharedReceives>();
  q->srq = *e.create_srq(pair_.pd(side), depth, sges);
  q->inbox.assign(std::size_t{depth} * (room + 8), kFill);
  q->posted.assign(depth, false);
  q->key = pair_.register_memory(side, q->inbox.data(), q->inbox.size(), Access::local_write);
  for (std::uint32_t i = 0; i < depth; ++i) {
    const std::uint32_t first = random_.below(room + 1);
    q->slots.push_back({{i * (room + 8), first}});
    if (sges > 1) q->slots.back().push_back({i * (room + 8) + first, room - first});
    if (sges == 1) q->slots.back().front().length = room;
  }
  shared_[side] = std::move(q);
}

void ProgramRun::connect(const Program& program, std::uint32_t index) {
  const Program::Connection& c = program.connections[index];
  FlowRun::Ends ends{{}, {&shores_[0], &shores_[1]}, c.signal_all, 0};
  for (unsigned side = 0; side < 2; ++side) {
    engine::QpInit init;
    init.pd = pair_.pd(side);
    init.send_cq = shores_[side].send_cq;
    init.receive_cq = shores_[side].receive_cq;
    init.capacity = c.capacities[side];
    init.attributes = c.attributes[side];
    init.signal_all = c.signal_all[side];
    if (c.flows[1 - side].shared) init.srq = shared_[side]->srq;
    const auto qpn = pair_[side].create_qp(init);
    expect(static_cast<bool>(qpn),
           [&] { return std::string("a queue pair was refused: ") + mrc::to_string(qpn.error()); });
    ends.qpn[side] = qpn.value();
  }
  pair_.connect(ends.qpn[0], ends.qpn[1], program.near_wrap);
  qpns_.push_back(ends.qpn);
  for (unsigned side = 0; side < 2; ++side) {
    ends.reads_in_flight =
        std::min(c.attributes[side].max_rd_atomic, c.attributes[1 - side].max_rd_atomic_dest);
    flows_.push_back(
        std::make_unique<FlowRun>(pair_, c.flows[side], side, index, ends, random_.next()));
  }
}

void ProgramRun::post_shared(unsigned side) {
  if (shared_[side] == nullptr) return;
  SharedReceives& q = *shared_[side];
  for (std::uint32_t i = 0; i < q.slots.size(); ++i) {
    if (q.posted[i] || random_.chance(0.5)) continue;
    std::vector<Sge> sges;
    for (const Slice& s : q.slots[i]) sges.push_back({q.inbox.data() + s.at, s.length, q.key});
    const Errc error = pair_[side].post_receive(q.srq, {WrId{true, true, 0, i}.id(), sges});
    expect(error == Errc::ok,
           [&] { return std::string("a shared receive was refused: ") + mrc::to_string(error); });
    q.posted[i] = true;
  }
}

void ProgramRun::poll(unsigned side) {
  Completion c;
  for (const CqId cq : {shores_[side].send_cq, shores_[side].receive_cq})
    while (pair_[side].poll_cq(cq, {&c, 1}) == 1) complete(side, c);
  engine::EngineEvent event;
  while (pair_[side].poll_event(event))
    if (event.kind == engine::EngineEvent::Kind::last_wqe)
      expect(last_wqe_[side].insert(event.qpn).second,
             [&] { return std::string("two events that a receive was the last"); });
}

void ProgramRun::complete(unsigned side, const Completion& c) {
  const WrId id = WrId::of(c.wr_id);
  if (!id.receive) return flow(side, id.connection).on_sent(c);
  if (!id.shared) return flow(1 - side, id.connection).on_received(c);
  const auto at = std::find_if(qpns_.begin(), qpns_.end(),
                               [&](const auto& qpns) { return qpns[side] == c.qpn; });
  expect(at != qpns_.end(), [&] { return std::string("a receive of an unknown queue pair"); });
  SharedReceives& q = *shared_[side];
  expect(id.index < q.slots.size() && q.posted[id.index],
         [&] { return std::string("a shared receive was consumed twice"); });
  FlowRun& run = flow(1 - side, static_cast<std::uint32_t>(at - qpns_.begin()));
  run.on_received(c, q.inbox, q.slots[id.index]);
  q.posted[id.index] = false;
  if (c.status == WcStatus::success) return;
  for (const Slice& s : q.slots[id.index])  // parts of a message may have come
    std::fill_n(q.inbox.begin() + s.at, s.length, kFill);
}

void ProgramRun::check(unsigned side) {
  const std::string where = "side " + std::to_string(side) + ": ";
  const Shore& s = shores_[side];
  std::uint64_t counts = 0;
  bool broken = false;
  for (std::uint32_t i = 0; i < qpns_.size(); ++i) {
    const FlowRun& to_here = flow(1 - side, i);
    const auto& ops = to_here.flow().ops;
    for (std::size_t n = 0; n < to_here.flow().good(); ++n) counts += ops[n].counter;
    const bool error = to_here.in_error(side);
    broken |= error;
    expect(last_wqe_[side].count(qpns_[i][side]) == (error && to_here.flow().shared), [&] {
      return where + "connection " + std::to_string(i) + ": event of the last receive " +
             (error ? "is missing" : "without cause");
    });
  }
  expect(s.counter == counts && s.counted.size() == counts &&
             (counts == 0 || *s.counted.rbegin() == counts - 1),
         [&] {
           return where + "the counter is " + std::to_string(s.counter) + " after " +
                  std::to_string(counts) + " atomics, which found " +
                  std::to_string(s.counted.size()) + " numbers";
         });
  for (const std::uint8_t byte : s.locked)
    expect(byte == kFill, [&] { return where + "memory without rights was written"; });
  if (shared_[side] != nullptr && !broken)
    for (const std::uint8_t byte : shared_[side]->inbox)
      expect(byte == kFill, [&] { return where + "a shared receive was written too late"; });
  const auto* peer = pair_[side].find_peer(pair_.peer(side));
  expect(peer->congestion.inflight() == 0 && pair_[side].quiet(),
         [&] { return where + "packets are in flight at the end"; });
}

}  // namespace mrc::test::rc
