// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/soak/setup.hpp"

#include "mrc/core/types.hpp"
#include "mrc/core/value_text.hpp"

namespace mrc::soak {

void SoakSetup::draw_fabric() {
  fabric.topology = one_of({Topology::clos, Topology::single_switch, Topology::dumbbell});
  fabric.forwarding = one_of({Forwarding::srv6, Forwarding::stev, Forwarding::udp});
  fabric.planes = chance(0.5) ? 1 + random_.below(2) : 1 + random_.below(8);
  fabric.hosts = 2 + random_.below(11);
  fabric.hosts_per_t0 = 1 + random_.below(6);
  fabric.t1s = 1 + random_.below(4);
  fabric.host_gbps = one_of({1.0, 10.0, 25.0, 100.0, 400.0});
  fabric.fabric_gbps = chance(0.6) ? fabric.host_gbps : fabric.host_gbps * one_of({0.25, 0.5, 2.0});
  const std::uint32_t far = chance(0.1) ? 100'000 : 5'000;
  fabric.host_delay = Duration{magnitude(far)};
  fabric.fabric_delay = Duration{magnitude(far)};
  draw_queues();
}

void SoakSetup::draw_queues() {
  QueueSettings& q = fabric.queue;
  q.data_limit = one_of({6'000u, 10'000u, 10'000u, 32'768u, 131'072u, 524'288u});
  q.control_limit = one_of({2'048u, 16'384u, 1'048'576u, 1'048'576u});
  q.overflow = chance(0.5) ? Overflow::trim : Overflow::drop;
  q.ecn_max = chance(0.3) ? 0 : q.data_limit * 3 / 4;
  q.ecn_min = q.ecn_max / (1 + random_.below(8));
  q.ecn_probability = chance(0.5) ? 1.0 : 0.2;
  fabric.ecn_last_hop = chance(0.2);
  if (chance(0.15)) {
    fabric.shared_buffer = q.data_limit * 4;
    fabric.buffer_alpha = one_of({0.25, 1.0, 8.0});
  }
  if (chance(0.1)) {
    fabric.pfc.xoff = q.data_limit / 4;
    fabric.pfc.xon = q.data_limit / 8;
  }
}

void SoakSetup::draw_hosts() {
  host.carry_payload = true;
  host.mtu = one_of({256u, 384u, 1024u, 1408u, 4096u});
  host.paths_per_plane = chance(0.5) ? 0 : 1 + random_.below(6);
  host.nic_queue = one_of({1'500u, 6'000u, 12'288u, 65'536u});
  host.carrier_delay = Duration{magnitude(50'000)};
  poll_delay = Duration{chance(0.8) ? 0 : magnitude(50'000)};
  relaxed = chance(0.5);
  patient = chance(0.75);
  horizon = Duration{50'000} * magnitude(400);
  // Four hops with a full packet each, in both directions.
  const double slowest = std::min(fabric.host_gbps, fabric.fabric_gbps);
  const Duration packet{static_cast<std::int64_t>((host.mtu + 200) * 8 / slowest) + 1};
  round_trip = 4 * fabric.host_delay + 4 * fabric.fabric_delay + 8 * packet;
}

void SoakSetup::draw_engine() {
  engine::EngineOptions& e = host.engine;
  e.max_qps = 64;
  e.max_mrs = 8;
  e.max_peers = 16;
  // Packets in flight to a dead peer stay in the pool while retries continue, possibly forever.
  const bool plenty = patient && swarm.kills;
  e.max_outstanding = plenty ? 65'536 : one_of({256u, 4'096u, 16'384u});
  e.control_queue = chance(0.1) ? 16 : 1024;
  e.deferred_stores = patient && chance(0.3) ? 4 : 4'096;
  e.sack_threshold = one_of({1'024u, 4'096u, 16'384u, 65'536u});
  e.burst = chance(0.5) ? 1 : 1 + random_.below(8);
  e.trimming = chance(0.9);
  // NSCC here reacts to round-trip times alone. Windows that trims do not reduce would fill a far
  // too narrow link with nothing but the headers of trimmed packets, which have priority.
  e.timestamps = chance(0.9);
  const bool trims = fabric.queue.overflow == Overflow::trim;
  if (trims) e.timestamps = true;
  e.cc.algorithm = one_of({cc::Algorithm::nscc, cc::Algorithm::fixed, cc::Algorithm::none});
  if (e.timestamps && (trims || chance(0.4))) e.cc.algorithm = cc::Algorithm::nscc;
  if (!e.timestamps && e.cc.algorithm == cc::Algorithm::nscc) e.cc.algorithm = cc::Algorithm::fixed;
  e.cc.nscc.link_speed =
      static_cast<std::uint64_t>(fabric.planes * fabric.host_gbps) * 1'000'000'000;
  e.cc.nscc.base_rtt = round_trip;
  e.cc.nscc.mtu = host.mtu + 128;
  e.cc.nscc.trimming = trims;
  e.cc.nscc.ack_gen_trigger = e.sack_threshold;
  e.paths.active = static_cast<std::uint16_t>(chance(0.3) ? fabric.planes : 0);
}

void SoakSetup::draw_connection() {
  SoakConnection c;
  c.host[0] = random_.below(fabric.hosts);
  c.host[1] = (c.host[0] + 1 + random_.below(fabric.hosts - 1)) % fabric.hosts;
  if (popular_ != c.host[0] && popular_ < fabric.hosts) c.host[1] = popular_;
  if (chance(0.4)) c.near_wrap = one_of({512u, 1'024u, 4'096u});
  largest_ = one_of({64u, 2'000u, 20'000u, 200'000u, 200'000u});
  for (unsigned side = 0; side < 2; ++side) draw_side(c, side);
  const bool both = chance(0.6);
  for (unsigned side = 0; side < (both ? 2u : 1u); ++side) draw_messages(c, side);
  for (unsigned side = 0; side < 2; ++side) {
    // A receive for each write with immediate that may be in flight, or for all of them.
    const std::uint32_t enough =
        std::min(c.attributes[1 - side].max_wimm, c.attributes[side].max_wimm_dest);
    const auto all = static_cast<std::uint32_t>(c.messages[1 - side].size());
    c.capacity[side].receive = poll_delay.count() > 0 || chance(0.3) ? all + enough : enough;
    c.receives[side] = c.capacity[side].receive;
  }
  if (rc_random_.chance(0.5)) draw_operations(c);
  connections.push_back(std::move(c));
}

void SoakSetup::draw_side(SoakConnection& c, unsigned side) {
  QpAttributes& a = c.attributes[side];
  a.mtu = chance(0.8) ? host.mtu : std::max(kSmallestMtu, host.mtu / 2 / kMtuUnit * kMtuUnit);
  a.mpr = static_cast<std::uint8_t>(magnitude(64));
  a.mpr_dest = static_cast<std::uint8_t>(magnitude(64));
  a.max_wimm = static_cast<std::uint16_t>(magnitude(64));
  a.max_wimm_dest = static_cast<std::uint16_t>(magnitude(64));
  a.retry_linear = static_cast<std::uint8_t>(random_.below(8));
  a.retry_exponential = reliability::kRetryForever;
  a.timeout = static_cast<std::uint8_t>(2 + random_.below(11));
  if (!patient) {  // large enough not to be exhausted by congestion alone
    a.retry_linear = static_cast<std::uint8_t>(4 + random_.below(4));
    a.retry_exponential = static_cast<std::uint8_t>(2 + random_.below(3));
    a.timeout = 6;
    while (reliability::timeout_value(a.timeout) < 32 * round_trip) ++a.timeout;
  }
  a.dynamic_mpr = chance(0.5);
  a.trim_nack = chance(0.85);
  QpCapacity& q = c.capacity[side];
  q.send = magnitude(64);
  q.send_sges = 1 + random_.below(5);
  q.inline_bytes = chance(0.5) ? 0 : magnitude(256);
}

void SoakSetup::draw_messages(SoakConnection& c, unsigned side) {
  constexpr std::uint64_t kMostBytes = 4'000'000;
  const unsigned n = chance(0.5) ? magnitude(60) : 60;
  const double immediates = one_of({0.0, 0.3, 0.7, 1.0});
  const double signals = one_of({0.0, 0.5, 1.0});
  const bool paced = chance(0.6);
  const QpCapacity& q = c.capacity[side];
  std::vector<Time> releases(n);
  for (Time& t : releases) t = paced ? Time{horizon / 1000 * random_.below(1000)} : Time{};
  std::sort(releases.begin(), releases.end());
  for (unsigned i = 0; i < n; ++i) {
    SoakMessage m;
    const std::uint32_t most = bytes < kMostBytes ? largest_ : 100;
    m.length = chance(0.08) ? 0 : chance(0.2) ? random_.below(64) : random_.below(most + 1);
    m.immediate = static_cast<std::uint32_t>(random_.next());
    if (chance(immediates)) m.opcode = SendOpcode::write_imm;
    // One request in each full send queue is signaled, or its poster would never be notified of
    // room.
    m.signaled = chance(signals) || i + 1 == n || i % q.send == q.send - 1;
    m.sges = 1 + random_.below(q.send_sges);
    m.inlined = m.length <= q.inline_bytes && chance(0.5);
    m.release = releases[i];
    bytes += m.length;
    c.messages[side].push_back(m);
  }
}

/// Makes SENDs, READs and atomics of some writes.
void SoakSetup::draw_operations(SoakConnection& c) {
  Random& r = rc_random_;
  c.rc = true;
  for (unsigned side = 0; side < 2; ++side) {
    QpAttributes& a = c.attributes[side];
    a.max_rd_atomic = static_cast<std::uint8_t>(1 + r.below(16));
    a.max_rd_atomic_dest = static_cast<std::uint8_t>(1 + r.below(16));
    a.min_rnr_timer = static_cast<std::uint8_t>(1 + r.below(6));
    QpCapacity& q = c.capacity[side];
    q.receive_sges = 1;
    q.atomics = true;
    // RNR retries of long messages are slow.
    if (largest_ <= 20'000 && r.chance(0.5)) c.receives[side] = 1 + r.below(q.receive);
    for (SoakMessage& m : c.messages[side]) draw_operation(m);
  }
}

void SoakSetup::draw_operation(SoakMessage& m) {
  constexpr SendOpcode kOthers[] = {SendOpcode::write, SendOpcode::send, SendOpcode::read,
                                    SendOpcode::fetch_add};
  if (m.opcode == SendOpcode::write_imm) {
    if (rc_random_.chance(0.5)) m.opcode = SendOpcode::send_imm;
    return;
  }
  m.opcode = kOthers[rc_random_.below(4)];
  if (m.answered()) m.inlined = false;
  if (m.opcode != SendOpcode::fetch_add) return;
  m.length = 8;
  m.sges = 1;
}

std::string SoakSetup::text() const {
  constexpr const char* kTopologies[] = {"clos", "single switch", "dumbbell"};
  constexpr const char* kForwarding[] = {"srv6", "stev", "udp"};
  const auto number = [](auto n) { return std::to_string(n); };
  const FabricSettings& f = fabric;
  const engine::EngineOptions& e = host.engine;
  std::string s = std::string(kTopologies[static_cast<int>(f.topology)]) + ", " +
                  kForwarding[static_cast<int>(f.forwarding)] + ", " + number(f.planes) +
                  " planes, " + number(f.hosts) + " hosts";
  if (f.topology == Topology::clos)
    s += " (" + number(f.hosts_per_t0) + " per T0), " + number(f.t1s) + " T1s per plane";
  s += "\n  host links " + format_real(f.host_gbps) + " Gb/s " + time_text(f.host_delay) +
       ", others " + format_real(f.fabric_gbps) + " Gb/s " + time_text(f.fabric_delay);
  s += "; queues " + number(f.queue.data_limit) + " B, " +
       (f.queue.overflow == Overflow::trim ? "trim" : "drop") + ", control " +
       number(f.queue.control_limit) + " B, ECN " + number(f.queue.ecn_min) + ".." +
       number(f.queue.ecn_max);
  if (f.shared_buffer > 0) s += ", shared buffer " + number(f.shared_buffer) + " B";
  if (f.pfc.xoff > 0) s += ", PFC";
  s += "\n  MTU " + number(host.mtu) + ", " + cc::to_string(e.cc.algorithm) + ", burst " +
       number(e.burst) + ", SACK threshold " + number(e.sack_threshold) + ", outstanding " +
       number(e.max_outstanding) + ", control queue " + number(e.control_queue) +
       ", deferred stores " + number(e.deferred_stores) + ", active paths " +
       number(e.paths.active);
  s += std::string(e.trimming ? "" : ", no trimming") + (e.timestamps ? "" : ", no timestamps") +
       (relaxed ? ", relaxed" : "") + (patient ? ", retry for ever" : "");
  if (poll_delay.count() > 0) s += ", polls after " + time_text(poll_delay);
  std::size_t messages = 0, rc = 0;
  for (const SoakConnection& c : connections) {
    messages += c.messages[0].size() + c.messages[1].size();
    rc += c.rc;
  }
  s += "\n  " + number(connections.size()) + " connections (" + number(rc) + " with RC), " +
       number(messages) + " messages, " + number(bytes) + " bytes within " + time_text(horizon) +
       "; empty round trip " + time_text(round_trip);
  return s;
}

}  // namespace mrc::soak
