// SPDX-License-Identifier: Apache-2.0
// "topology" and "transport" of a scenario file.
#include "mrc/core/types.hpp"
#include "mrc_sim/job.hpp"
#include "mrc_sim/metrics.hpp"

namespace mrc::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

void read_queue(const json_file::Object& q, const TransportFacts& facts, sim::FabricSettings& f) {
  sim::QueueSettings& queue = f.queue;
  if (facts.roce) {
    // DCQCN's own marking, in proportion to the link (SIGCOMM 2015: 5 KB, 200 KB, 1 % at 40 Gb/s).
    const double ratio = f.host_gbps / 40;
    queue.ecn_min = static_cast<std::uint64_t>(5'000 * ratio);
    queue.ecn_max = static_cast<std::uint64_t>(200'000 * ratio);
    queue.ecn_probability = 0.01;
    queue.overflow = sim::Overflow::drop;
    queue.data_limit = std::uint64_t{4} << 20;
  }
  queue.data_limit = q.bytes("limit", 1024, 64 * kGiB, queue.data_limit);
  queue.control_limit = q.bytes("control_limit", 1024, 64 * kGiB, queue.control_limit);
  queue.ecn_min = q.bytes("ecn_min", 0, 64 * kGiB, queue.ecn_min);
  queue.ecn_max = q.bytes("ecn_max", 0, 64 * kGiB, queue.ecn_max);
  if (queue.ecn_max != 0 && queue.ecn_min >= queue.ecn_max)
    q.fail("ecn_max", "must be above ecn_min, or 0: no marking");
  queue.ecn_probability = q.number("ecn_probability", 0, 1, queue.ecn_probability);
  const bool trim = queue.overflow == sim::Overflow::trim;
  queue.overflow = q.choice("overflow", {"trim", "drop"}, trim ? "trim" : "drop") == "trim"
                       ? sim::Overflow::trim
                       : sim::Overflow::drop;
  f.ecn_last_hop = q.boolean("ecn_last_hop", facts.dcqcn);
  f.shared_buffer = q.bytes("shared_buffer", 0, 64 * kGiB, 0);
  f.buffer_alpha = q.number("buffer_alpha", 0.001, 1000, f.buffer_alpha);
}

/// Round-trip time of a full packet and its response through an empty network, on the longest
/// route.
Duration empty_round_trip(const sim::FabricSettings& f, std::uint32_t mtu) {
  const bool tiers = f.topology != sim::Topology::single_switch;
  const double host_ns = (mtu + 400.0) * 8 / f.host_gbps;
  const double fabric_ns = (mtu + 400.0) * 8 / f.fabric_gbps;
  const unsigned fabric_hops = !tiers ? 0 : f.topology == sim::Topology::clos ? 2 : 1;
  const Duration delays = 4 * f.host_delay + 2 * fabric_hops * f.fabric_delay;
  return delays + Duration{static_cast<std::int64_t>(2 * host_ns + fabric_hops * fabric_ns) + 1};
}

cc::Options read_cc(const json_file::Object& t, const sim::FabricSettings& f, std::uint32_t mtu) {
  cc::Options o;
  const std::string name = t.choice("cc", {"nscc", "fixed", "none"}, "nscc");
  o.algorithm = *cc::parse_algorithm(name);
  o.fixed_window = t.bytes("window", 0, kGiB, 0);
  cc::NsccOptions& n = o.nscc;
  n.link_speed = static_cast<std::uint64_t>(f.host_gbps * 1e9) * f.planes;
  n.base_rtt = t.duration("base_rtt", 100ns, 1s, empty_round_trip(f, mtu));
  n.mtu = mtu + 128;
  n.trimming = f.queue.overflow == sim::Overflow::trim;
  if (t.has("target_delay")) n.target_delay = t.duration("target_delay", 1ns, 1s);
  if (t.has("max_cwnd")) n.max_cwnd = t.bytes("max_cwnd", n.mtu, kGiB);
  if (t.has("nscc_gamma")) n.gamma = t.number("nscc_gamma", 0, 1);
  if (t.has("nscc_fi")) n.fi = t.number("nscc_fi", 0, 1e9);
  if (t.has("nscc_fi_scale")) n.fi_scale = t.number("nscc_fi_scale", 0, 1e6);
  if (t.has("nscc_eta")) n.eta = t.number("nscc_eta", 0, 1e9);
  n.disable_qa = t.boolean("nscc_disable_qa", false);
  return o;
}

std::uint32_t read_mtu(const json_file::Object& t) {
  const auto mtu = static_cast<std::uint32_t>(t.bytes("mtu", kSmallestMtu, kLargestMtu, 4096));
  if (!is_mtu(mtu)) t.fail("mtu", "must be a multiple of 128");
  return mtu;
}

path::PathSetOptions read_paths(const json_file::Object& t) {
  path::PathSetOptions p;
  p.active = t.integer<std::uint16_t>("active_paths", 0, 32'768, p.active);
  p.min_active = t.integer<std::uint16_t>("min_active", 0, 32'768, p.min_active);
  p.loss_strikes = t.integer<std::uint8_t>("loss_strikes", 0, 255, p.loss_strikes);
  p.probe_successes = t.integer<std::uint8_t>("probe_successes", 1, 255, p.probe_successes);
  p.probe_first = t.duration("probe_first", 0us, 60s, p.probe_first);
  p.probe_max = t.duration("probe_max", std::max<Duration>(p.probe_first, 1us), 600s,
                           std::max(p.probe_first, p.probe_max));
  return p;
}

sim::MrcCluster::Settings read_mrc(const json_file::Object& t, const sim::FabricSettings& f) {
  sim::MrcCluster::Settings s;
  engine::EngineOptions& e = s.host.engine;
  s.host.mtu = read_mtu(t);
  e.cc = read_cc(t, f, s.host.mtu);
  e.paths = read_paths(t);
  s.host.paths_per_plane = t.integer<unsigned>("paths", 0, 256, 0);
  if (f.forwarding != sim::Forwarding::udp && s.host.paths_per_plane > std::max(1u, f.t1_count()))
    t.fail("paths", f.topology == sim::Topology::clos
                        ? "is above topology.t1s: there is one path over each T1"
                        : "is above 1: there is one path per plane without T1s");
  e.burst = t.integer<std::uint32_t>("burst", 1, 1'000'000, e.burst);
  e.sack_threshold =
      static_cast<std::uint32_t>(t.bytes("sack_threshold", 1, kGiB, e.sack_threshold));
  e.cc.nscc.ack_gen_trigger = e.sack_threshold;
  e.max_qps = t.integer<std::uint32_t>("max_qps", 1, 65'533, e.max_qps);
  e.max_outstanding = t.integer<std::uint32_t>("max_outstanding", 64, 1u << 22, e.max_outstanding);
  s.attributes.timeout = t.integer<std::uint8_t>("timeout", 0, 24, s.attributes.timeout);
  s.attributes.retry_linear =
      t.integer<std::uint8_t>("retry_linear", 0, 7, s.attributes.retry_linear);
  s.attributes.retry_exponential =
      t.integer<std::uint8_t>("retry_exponential", 0, 25, s.attributes.retry_exponential);
  s.attributes.mpr = s.attributes.mpr_dest =
      t.integer<std::uint8_t>("mpr", 1, 255, s.attributes.mpr);
  s.host.nic_queue = t.bytes("nic_queue", 1, kGiB, s.host.nic_queue);
  s.host.carrier_delay = t.duration("carrier_delay", 0ns, 60s, s.host.carrier_delay);
  s.host.carry_payload = t.boolean("carry_payload", false);
  s.chunk = static_cast<std::uint32_t>(t.bytes("chunk", 1, kGiB, s.chunk));
  return s;
}

sim::Scenario::Roce read_roce(const json_file::Object& t) {
  sim::Scenario::Roce s;
  s.host.sender.mtu = read_mtu(t);
  s.host.dcqcn = t.boolean("dcqcn", true);
  s.host.sender.window = t.bytes("window", 1, kGiB, s.host.sender.window);
  s.host.sender.ack_timeout = t.duration("ack_timeout", 1us, 60s, s.host.sender.ack_timeout);
  s.host.sender.retry_count = t.integer<unsigned>("retry_count", 0, 1000, 7);
  s.host.nic_queue = t.bytes("nic_queue", 1, kGiB, s.host.nic_queue);
  s.chunk = static_cast<std::uint32_t>(t.bytes("chunk", 1, kGiB, s.chunk));
  sim::baseline::DcqcnOptions& d = s.host.reaction;
  d.gain_shift = t.integer<unsigned>("dcqcn_gain_shift", 1, 20, d.gain_shift);
  d.alpha_period = t.duration("dcqcn_alpha_period", 1us, 1s, d.alpha_period);
  d.increase_period = t.duration("dcqcn_increase_period", 1us, 1s, d.increase_period);
  d.byte_counter = t.bytes("dcqcn_byte_counter", 1000, 64 * kGiB, d.byte_counter);
  return s;
}

}  // namespace

TransportFacts read_transport_facts(const json_file::Object& t) {
  TransportFacts facts;
  facts.roce = t.choice("kind", {"mrc", "roce"}, "mrc") == "roce";
  facts.dcqcn = facts.roce && t.boolean("dcqcn", true);
  facts.queue_pairs = t.integer<unsigned>("queue_pairs", 1, 1024, 1);
  return facts;
}

sim::FabricSettings read_topology(const json_file::Object& t, const TransportFacts& facts) {
  sim::FabricSettings f;
  const std::string kind = t.choice("kind", {"clos", "single_switch", "dumbbell"}, "clos");
  f.topology = kind == "clos"            ? sim::Topology::clos
               : kind == "single_switch" ? sim::Topology::single_switch
                                         : sim::Topology::dumbbell;
  const std::string forwarding =
      t.choice("forwarding", {"srv6", "stev", "udp"}, facts.roce ? "udp" : "srv6");
  f.forwarding = forwarding == "srv6"   ? sim::Forwarding::srv6
                 : forwarding == "stev" ? sim::Forwarding::stev
                                        : sim::Forwarding::udp;
  f.planes = t.integer<unsigned>("planes", 1, 16, f.planes);
  f.hosts = t.integer<unsigned>("hosts", 2, 2047, f.hosts);
  f.hosts_per_t0 = t.integer<unsigned>("hosts_per_t0", 1, 2047, f.hosts_per_t0);
  f.t1s = t.integer<unsigned>("t1s", 1, 256, f.t1s);
  f.host_gbps = t.number("host_gbps", 0.001, 100'000, f.host_gbps);
  f.fabric_gbps = t.number("fabric_gbps", 0.001, 100'000, f.host_gbps);
  f.host_delay = t.duration("host_delay", 1ns, 1s, f.host_delay);
  f.fabric_delay = t.duration("fabric_delay", 1ns, 1s, f.fabric_delay);
  read_queue(t.object("queue"), facts, f);
  const json_file::Object pfc = t.object("pfc");
  f.pfc.xoff = pfc.bytes("xoff", 0, 64 * kGiB, 0);
  f.pfc.xon = pfc.bytes("xon", 0, 64 * kGiB, f.pfc.xoff / 2);
  if (f.pfc.xon > f.pfc.xoff) pfc.fail("xon", "must not be above xoff");
  try {
    f.check();
  } catch (const Error& error) {
    t.fail("", reason(error));
  }
  return f;
}

void read_transport(const json_file::Object& t, sim::Scenario& s) {
  if (read_transport_facts(t).roce)
    s.transport = read_roce(t);
  else
    s.transport = read_mrc(t, s.fabric);
}

}  // namespace mrc::tools
