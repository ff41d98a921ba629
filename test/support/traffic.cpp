// SPDX-License-Identifier: Apache-2.0
#include "support/traffic.hpp"

#include <cstring>

namespace mrc::test {

Traffic::Traffic(EnginePair& pair, const TrafficOptions& options, std::uint64_t seed)
    : pair_(pair), options_(options), random_(seed ^ 0xABCDEF) {
  for (unsigned i = 0; i < options.queue_pairs; ++i) open();
}

bool Traffic::run(Duration limit) {
  return pair_.run_for(limit, [this] {
    work();
    return finished();
  });
}

void Traffic::work() {
  for (auto& f : flows_) {
    post(f);
    poll(f);
  }
}

bool Traffic::finished() const {
  for (const auto& f : flows_)
    if (f.completed < options_.messages || f.next_received < f.wimms.size()) return false;
  return true;
}

void Traffic::check() {
  pair_.run_for(std::chrono::seconds(2));  // stragglers
  work();
  for (auto& f : flows_) {
    for (const auto& m : f.all) {
      INFO("message ", m.id, " of ", m.length, " bytes, verified: ", m.verified);
      CHECK(untouched(f, m));
    }
    const auto* qp = pair_[f.side].find_qp(f.qpn);
    CHECK(qp->state == QpState::rts);
    CHECK(qp->tx.window.empty());
    CHECK(qp->tx.inflight == 0);
  }
  for (unsigned side = 0; side < 2; ++side) {
    const auto* peer = pair_[side].find_peer(pair_.peer(side));
    CHECK(peer->congestion.inflight() == 0);
    for (const auto bytes : peer->plane_inflight) CHECK(bytes == 0);
    CHECK(pair_[side].quiet());
  }
}

std::uint64_t Traffic::completed() const {
  std::uint64_t n = 0;
  for (const auto& f : flows_) n += f.completed;
  return n;
}

void Traffic::open() {
  Qpn qpn[2];
  CqId send[2], receive[2];
  for (unsigned side = 0; side < 2; ++side) {
    Engine& e = pair_[side];
    send[side] = *e.create_cq(options_.capacity.send + 8);
    receive[side] = *e.create_cq(options_.capacity.receive + 8);
    engine::QpInit init;
    init.pd = pair_.pd(side);
    init.send_cq = send[side];
    init.receive_cq = receive[side];
    init.capacity = options_.capacity;
    init.attributes = options_.attributes;
    qpn[side] = *e.create_qp(init);
  }
  pair_.connect(qpn[0], qpn[1], options_.near_wrap);
  for (unsigned side = 0; side < (options_.both ? 2u : 1u); ++side) {
    Flow f;
    f.contents = Random(random_.next());
    f.side = side;
    f.qpn = qpn[side];
    f.peer_qpn = qpn[1 - side];
    f.send_cq = send[side];
    f.receive_cq = receive[1 - side];
    const std::size_t bytes = std::size_t{options_.messages} * (options_.max_size + 8) + 8;
    for (auto* memory : {&f.source, &f.target, &f.sent})
      *memory = std::make_unique_for_overwrite<std::uint8_t[]>(bytes);
    Access access = Access::local_write | Access::remote_write;
    if (options_.relaxed) access = access | Access::relaxed_ordering;
    f.lkey = pair_.register_memory(side, f.source.get(), bytes, Access::none);
    f.rkey = pair_.register_memory(1 - side, f.target.get(), bytes, access);
    for (std::uint32_t i = 0; i < options_.capacity.receive; ++i)
      CHECK(pair_[1 - side].post_receive(f.peer_qpn, i) == Errc::ok);
    flows_.push_back(std::move(f));
  }
}

void Traffic::fill(Flow& f, std::size_t bytes) {
  for (; f.filled < bytes; f.filled += 8) {
    const std::uint64_t word = f.contents.next();
    std::memcpy(f.source.get() + f.filled, &word, 8);
    std::memcpy(f.sent.get() + f.filled, &word, 8);
    std::memset(f.target.get() + f.filled, 0xEE, 8);
  }
}

void Traffic::post(Flow& f) {
  while (f.all.size() < options_.messages) {
    Message m;
    m.id = f.all.size();
    m.length = random_.chance(0.1)   ? 0
               : random_.chance(0.3) ? random_.below(std::min(64u, options_.max_size + 1))
                                     : random_.below(options_.max_size + 1);
    m.offset = f.offset;
    m.immediate = static_cast<std::uint32_t>(random_.next());
    m.with_immediate = random_.chance(options_.immediates) || m.id + 1 == options_.messages;
    m.signaled = random_.chance(options_.signaled) || m.id + 1 == options_.messages;
    m.verified = false;
    fill(f, m.offset + m.length + 8);
    std::vector<Sge> sges = cut(f, m);
    SendRequest r;
    r.wr_id = m.id;
    r.sges = sges;
    r.remote = {reinterpret_cast<std::uint64_t>(f.target.get()) + m.offset, f.rkey};
    if (m.with_immediate) r.opcode = SendOpcode::write_imm;
    r.immediate = m.immediate;
    r.flags.signaled = m.signaled;
    r.flags.inline_data = m.length <= options_.capacity.inline_bytes && random_.chance(0.5);
    const Errc e = pair_[f.side].post_send(f.qpn, r, pair_.now());
    if (e == Errc::queue_full) return;
    REQUIRE(e == Errc::ok);
    if (m.with_immediate) f.wimms.push_back(f.all.size());
    f.all.push_back(m);
    f.offset += m.length + 8;  // a gap that must stay untouched
  }
}

std::vector<Sge> Traffic::cut(Flow& f, const Message& m) {
  std::vector<Sge> sges;
  if (m.length == 0) return sges;
  const std::uint32_t first = random_.below(m.length + 1);
  const std::uint8_t* data = f.source.get() + m.offset;
  sges.push_back({data, first, f.lkey});
  if (first < m.length) sges.push_back({data + first, m.length - first, f.lkey});
  return sges;
}

void Traffic::poll(Flow& f) {
  Completion c;
  while (pair_[f.side].poll_cq(f.send_cq, {&c, 1}) == 1) {
    REQUIRE(c.status == WcStatus::success);
    REQUIRE(c.wr_id >= f.completed);  // in posting order, unsignaled ones skipped
    for (std::size_t i = f.completed; i < c.wr_id; ++i) REQUIRE(!f.all[i].signaled);
    for (; f.completed <= c.wr_id; ++f.completed) {
      verify(f, f.all[f.completed]);
      take_back(f, f.all[f.completed]);
    }
  }
  while (pair_[1 - f.side].poll_cq(f.receive_cq, {&c, 1}) == 1) {
    REQUIRE(c.status == WcStatus::success);
    REQUIRE(f.next_received < f.wimms.size());
    const std::size_t index = f.wimms[f.next_received++];
    REQUIRE(c.immediate == f.all[index].immediate);
    REQUIRE(c.byte_len == f.all[index].length);
    REQUIRE(c.qpn == f.peer_qpn);
    for (; f.barrier <= index; ++f.barrier) verify(f, f.all[f.barrier]);  // and all before it
    REQUIRE(pair_[1 - f.side].post_receive(f.peer_qpn, c.wr_id) == Errc::ok);
  }
}

void Traffic::take_back(Flow& f, const Message& m) {
  std::fill_n(f.source.get() + m.offset, m.length, std::uint8_t{0xDD});
}

void Traffic::verify(Flow& f, Message& m) {
  if (m.verified) return;
  m.verified = true;
  REQUIRE(std::memcmp(f.target.get() + m.offset, f.sent.get() + m.offset, m.length) == 0);
  for (std::uint32_t i = 0; i < m.length; ++i) f.target[m.offset + i] ^= 0xFF;
}

bool Traffic::untouched(const Flow& f, const Message& m) {
  for (std::uint32_t i = 0; i < m.length; ++i)
    if (f.target[m.offset + i] != static_cast<std::uint8_t>(f.sent[m.offset + i] ^ 0xFF))
      return false;
  for (unsigned i = 0; i < 8; ++i)
    if (f.target[m.offset + m.length + i] != 0xEE) return false;
  return true;
}

}  // namespace mrc::test
