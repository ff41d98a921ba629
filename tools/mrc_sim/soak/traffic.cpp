// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/soak/traffic.hpp"

namespace mrc::soak {

// --- building
// -------------------------------------------------------------------------------------

SoakTraffic::SoakTraffic(Network& network, const SoakSetup& setup, SoakSabotage sabotage)
    : network_(network), setup_(setup), sabotage_(sabotage) {
  Random random(setup.seeds[3]);
  for (unsigned h = 0; h < setup.fabric.hosts; ++h) {
    hosts_.push_back(
        std::make_unique<SoakHost>(network, h, setup.host, random.next(), setup.poll_delay));
    hosts_.back()->set_application(this);
    nodes_.push_back(hosts_.back()->node());
    memories_.emplace_back("h" + std::to_string(h), random.next());
  }
  lay_out(random);
  uses_.resize(hosts_.size());
}

/// Assigns places to all messages: at the receiver in random order, some adjacent.
void SoakTraffic::lay_out(Random& random) {
  std::vector<std::pair<SoakMessage*, unsigned>> all;
  std::vector<std::uint64_t> sent(hosts_.size(), 1);
  for (SoakConnection& c : setup_.connections)
    for (unsigned side = 0; side < 2; ++side)
      for (SoakMessage& m : c.messages[side]) {
        std::uint64_t& end = sent[c.host[m.answered() ? 1 - side : side]];
        if (m.opcode == SendOpcode::fetch_add) end = (end + 7) / 8 * 8;
        m.source = end;
        end += m.length + random.below(4);
        all.emplace_back(&m, c.target_of(side, m));
      }
  random.shuffle(std::span(all));
  for (SoakMemory& memory : memories_) (void)memory.place(0, 16);
  for (const auto& [m, to] : all)
    m->target = memories_[to].place(m->length, random.chance(0.3) ? 0 : random.below(32));
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    memories_[h].make(16);
    sources_.emplace_back(sent[h] + 1, std::uint8_t{0xDD});
  }
  const Access access =
      Access::remote_write | (setup_.relaxed ? Access::relaxed_ordering : Access::none);
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    engine::Engine& e = hosts_[h]->engine();
    const auto rkey =
        e.register_memory(memories_[h].data(), memories_[h].size(), access, hosts_[h]->pd());
    const auto lkey =
        e.register_memory(sources_[h].data(), sources_[h].size(),
                          Access::remote_read | Access::remote_atomic, hosts_[h]->pd());
    if (!rkey || !lkey) throw Error(rkey ? lkey.error() : rkey.error(), "soak: memory");
    rkeys_.push_back(rkey.value());
    lkeys_.push_back(lkey.value());
  }
}

/// Completion queues of the minimum size for the completions that can be pending.
void SoakTraffic::make_queues() {
  std::vector<std::uint32_t> depth(hosts_.size(), 1);
  for (const SoakConnection& c : setup_.connections)
    for (unsigned side = 0; side < 2; ++side) {
      depth[c.host[side]] += c.capacity[side].send + c.capacity[side].receive;
      // A late poll finds completions of all requests, not only of current ones.
      if (setup_.poll_delay.count() > 0)
        depth[c.host[side]] +=
            static_cast<std::uint32_t>(c.messages[0].size() + c.messages[1].size());
    }
  for (unsigned h = 0; h < hosts_.size(); ++h)
    hosts_[h]->make_queue(depth[h], [this, h](const Completion& c) { read(h, c); });
}

void SoakTraffic::connect(std::size_t number) {
  const SoakConnection& c = setup_.connections[number];
  std::array<SoakEnd, 2>& ends = ends_.emplace_back();
  for (unsigned side = 0; side < 2; ++side) {
    const unsigned h = c.host[side];
    engine::QpInit init;
    init.pd = hosts_[h]->pd();
    init.send_cq = init.receive_cq = hosts_[h]->queue();
    init.capacity = c.capacity[side];
    init.attributes = c.attributes[side];
    engine::Engine& e = hosts_[h]->engine();
    const auto qpn = e.create_qp(init);
    if (!qpn) throw Error(qpn.error(), "soak: queue pair");
    ends[side] = {hosts_[h].get(),
                  qpn.value(),
                  &memories_[h],
                  rkeys_[h],
                  &sources_[h],
                  lkeys_[h],
                  0,
                  0,
                  false};
    while (e.start_psn(ends[side].qpn)->value() < (1u << 24) - c.near_wrap)
      (void)e.to_reset(ends[side].qpn);  // draws a new one
  }
  for (unsigned side = 0; side < 2; ++side) {
    const QpAttributes& other = c.attributes[1 - side];
    engine::Engine& e = ends[side].host->engine();
    RemoteQp remote;
    remote.peer = ends[side].host->peer(c.host[1 - side]);
    remote.qpn = ends[1 - side].qpn;
    remote.start_psn = *ends[1 - side].host->engine().start_psn(remote.qpn);
    remote.mtu = c.mtu();
    remote.mpr_dest = other.mpr_dest;
    remote.max_wimm_dest = other.max_wimm_dest;
    remote.dynamic_mpr = other.dynamic_mpr;
    remote.trim_nack = other.trim_nack;
    remote.rc = c.rc;
    remote.max_rd_atomic_dest = other.max_rd_atomic_dest;
    remote.tag = *ends[1 - side].host->engine().tag(remote.qpn);
    Errc error = e.to_init(ends[side].qpn);
    if (error == Errc::ok) error = e.to_rtr(ends[side].qpn, remote);
    if (error == Errc::ok) error = e.to_rts(ends[side].qpn, network_.now());
    if (error != Errc::ok) throw Error(error, "soak: connection");
  }
}

void SoakTraffic::add_flow(std::size_t number, unsigned side) {
  const SoakConnection& c = setup_.connections[number];
  if (c.messages[side].empty()) return flow_of_.push_back(~0u);
  flow_of_.push_back(static_cast<std::uint32_t>(flows_.size()));
  flows_.emplace_back("connection " + std::to_string(number) + " h" + std::to_string(c.host[side]) +
                          " to h" + std::to_string(c.host[1 - side]),
                      ends_[number][side], ends_[number][1 - side], c.messages[side],
                      setup_.seeds[3] + 2 * number + side, sabotage_);
  ++open_;
}

void SoakTraffic::start(const Fabric& fabric, const FaultSchedule& faults) {
  for (auto& host : hosts_) host->attach(fabric, frame_);
  make_queues();
  for (std::size_t i = 0; i < setup_.connections.size(); ++i) {
    connect(i);
    for (unsigned side = 0; side < 2; ++side) add_flow(i, side);
  }
  const auto flow = [this](std::size_t i) {
    return flow_of_[i] == ~0u ? nullptr : &flows_[flow_of_[i]];
  };
  for (std::size_t i = 0; i < setup_.connections.size(); ++i)
    for (unsigned side = 0; side < 2; ++side)
      use_of(setup_.connections[i].host[side], ends_[i][side].qpn) = {
          &ends_[i][side], flow(2 * i + side), flow(2 * i + 1 - side),
          &setup_.connections[i].attributes[side], &ends_[i][1 - side]};
  for (std::size_t i = 0; i < setup_.connections.size(); ++i)
    for (unsigned side = 0; side < 2; ++side)
      if (SoakFlow* in = flow(2 * i + 1 - side))
        for (std::uint32_t n = setup_.connections[i].receives[side]; n > 0; --n) in->post_receive();
  if (!faults.empty()) {
    first_fault_ = faults.faults().front().at;
    last_fault_ = faults.last();
  }
  release();
}

/// Plans when messages are posted.
void SoakTraffic::release() {
  for (SoakFlow& flow : flows_) {
    Time last = Time{Duration{-1}};
    for (const SoakMessage& m : flow.messages()) {
      if (m.release == last) continue;
      last = m.release;
      network_.call_at(last, [this, &flow] {
        flow.post(network_.now());
        flow.sender().work();
      });
    }
  }
}

SoakTraffic::Use& SoakTraffic::use_of(unsigned host, Qpn qpn) {
  return uses_[host][mrc::value(qpn)];
}

// --- running
// --------------------------------------------------------------------------------------

void SoakTraffic::read(unsigned host, const Completion& c) {
  const Use use = use_of(host, c.qpn);
  soak_require(use.end != nullptr, [&] {
    return "h" + std::to_string(host) + ": completion of an unknown queue pair";
  });
  if (c.opcode == WcOpcode::recv_write_imm || c.opcode == WcOpcode::recv) {
    if (use.in != nullptr) {
      use.in->on_received(c);
      return update(use.in);
    }
    soak_require(c.status != WcStatus::success,
                 [&] { return "h" + std::to_string(host) + ": received without a sender"; });
    ++use.end->receives_done;
    return;
  }
  soak_require(use.out != nullptr,
               [&] { return "h" + std::to_string(host) + ": completion of what was not sent"; });
  use.out->on_sent(c);
  use.out->post(network_.now());
  update(use.out);
}

void SoakTraffic::on_qp_error(MrcHost& host, Qpn qpn) {
  const Use use = use_of(host.number(), qpn);
  check_error(use, use.end->qp().cause);
  use.end->failed = true;
  ++failed_;
  update(use.out);
  update(use.in);
}

/// A queue pair may only break when its peer is dead or broken, or when faults lasted for longer
/// than its retries do.
void SoakTraffic::check_error(const Use& use, QpErrorCause cause) const {
  const std::string name = "h" + std::to_string(use.end->host->number()) + " queue pair " +
                           std::to_string(mrc::value(use.end->qpn)) + " to h" +
                           std::to_string(use.peer->host->number());
  const auto fail = [&](const std::string& why) {
    throw SoakFailure(name + " failed at " + time_text(network_.now().time_since_epoch()) + " (" +
                      to_string(cause) + "), but " + why);
  };
  if (cause == QpErrorCause::peer_in_error) {
    if (!use.peer->in_error()) fail("its peer has no error");
    return;
  }
  if (cause != QpErrorCause::retry_exhausted) fail("nothing can have caused that");
  if (setup_.patient) fail("its retries never run out");
  const QpAttributes& a = *use.attributes;
  if (use.peer->host->killed()) return;
  const Duration timers = SoakSetup::patience(a, Duration{});
  if (first_fault_ == kNever || network_.now() < first_fault_ + timers / 2)
    fail("there was no fault for as long as its retries last");
  const Duration longest = reliability::timeout_value(0u + a.timeout + a.retry_exponential);
  if (network_.now() > last_fault_ + 2 * longest + 20 * setup_.round_trip)
    fail("all faults were over at " + time_text(last_fault_.time_since_epoch()));
}

void SoakTraffic::kill(unsigned host) {
  hosts_[host]->kill_now();
  for (SoakFlow& flow : flows_) update(&flow);
}

void SoakTraffic::update(SoakFlow* flow) {
  if (flow == nullptr || flow->closed || !flow->over(setup_.patient)) return;
  flow->closed = true;
  if (--open_ == 0) network_.stop();
}

std::string SoakTraffic::stuck() const {
  std::string text;
  unsigned shown = 0;
  for (const SoakFlow& flow : flows_)
    if (!flow.closed && ++shown <= 3) text += "\n  " + flow.text();
  return std::to_string(open_) + " of " + std::to_string(flows_.size()) + " flows" + text;
}

void SoakTraffic::audit() const {
  for (std::size_t i = 0; i < flow_of_.size(); ++i)
    if (flow_of_[i] != ~0u)
      flows_[flow_of_[i]].audit(setup_.connections[i / 2].mtu(),
                                flow_of_[i ^ 1] == ~0u ? nullptr : &flows_[flow_of_[i ^ 1]]);
  // Everything between the messages.
  for (unsigned h = 0; h < hosts_.size(); ++h) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const SoakConnection& c : setup_.connections)
      for (unsigned side = 0; side < 2; ++side)
        for (const SoakMessage& m : c.messages[side])
          if (c.target_of(side, m) == h) places.emplace_back(m.target, m.target + m.length);
    std::sort(places.begin(), places.end());
    std::uint64_t at = 0;
    for (const auto& [begin, end] : places) {
      memories_[h].check_guard(at, begin);
      at = end;
    }
    memories_[h].check_guard(at, memories_[h].size());
  }
}

}  // namespace mrc::soak
