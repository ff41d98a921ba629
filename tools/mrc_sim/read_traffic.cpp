// SPDX-License-Identifier: Apache-2.0
// "faults" and "traffic" of a scenario file.
#include <filesystem>

#include "mrc/sim/traffic/collective.hpp"
#include "mrc/sim/traffic/streams.hpp"
#include "mrc/sim/traffic/trace.hpp"
#include "mrc_sim/job.hpp"
#include "mrc_sim/metrics.hpp"

namespace mrc::tools {
namespace {

using namespace std::chrono_literals;
constexpr std::uint64_t kLargest = std::uint64_t{1} << 40;
constexpr const char* kHost = "h";  // hosts are called h0, h1 .. here, too, as faults call them

// --- faults -------------------------------------------------------------------------------------

const std::vector<std::string> kKinds{"down",       "up",   "black_hole", "heal", "loss",
                                      "corruption", "slow", "kill",       "flap"};

sim::FaultKind kind_of(const std::string& word) {
  for (const auto kind :
       {sim::FaultKind::down, sim::FaultKind::up, sim::FaultKind::black_hole, sim::FaultKind::heal,
        sim::FaultKind::loss, sim::FaultKind::corruption, sim::FaultKind::slow})
    if (word == to_string(kind)) return kind;
  return sim::FaultKind::kill;
}

void read_flap(const json_file::Object& o, Time at, sim::FaultSchedule& schedule) {
  const Time until{o.duration("until", 1ns, kLongest)};
  const Duration period = o.duration("period", 2ns, kLongest);
  const Duration down = o.duration("down", 1ns, kLongest);
  if (until <= at) o.fail("until", "is not after \"at\"");
  if (down >= period) o.fail("down", "must be less than \"period\"");
  for (const std::string& target : o.texts("target"))
    schedule.flap(target, at, until, period, down);
}

void read_fault(const json_file::Object& o, sim::FaultSchedule& schedule) {
  const Time at{o.duration("at", 0ns, kLongest, 0ns)};
  const std::string word = o.choice("kind", kKinds);
  if (!o.has("target")) (void)o.text("target");  // fails with the error for a missing field
  if (o.is_number("target")) o.fail("target", "is a number, must be a name: h3, h3.p0, p1t0-2 ..");
  if (word == "flap") return read_flap(o, at, schedule);
  sim::Fault fault{at, kind_of(word), {}, 0};
  if (fault.kind == sim::FaultKind::slow)
    fault.value = o.number("value", 1, 1e6);
  else if (has_value(fault.kind))
    fault.value = o.number("value", 0, 1);
  for (const std::string& target : o.texts("target")) {
    fault.target = target;
    try {
      if (o.has("for"))
        schedule.add_for(fault, o.duration("for", 1ns, kLongest));
      else
        schedule.add(fault);
    } catch (const Error& error) {
      o.fail("for", reason(error));
    }
  }
}

void read_random_faults(const json_file::Object& o, sim::Scenario& s) {
  sim::SwarmOptions r;
  r.begin = Time{o.duration("begin", 0ns, kLongest, 0ns)};
  r.end = Time{o.duration("end", 1ns, kLongest)};
  if (r.begin >= r.end) o.fail("end", "is not after \"begin\"");
  r.max_faults = o.integer<unsigned>("max_faults", 0, 10'000, r.max_faults);
  r.max_loss = o.number("max_loss", 0, 1, r.max_loss);
  r.max_corruption = o.number("max_corruption", 0, 1, r.max_corruption);
  r.max_slow = o.number("max_slow", 0, 1e5, r.max_slow);
  r.kills = o.boolean("kills", false);
  s.random_faults = r;
}

// --- traffic ------------------------------------------------------------------------------------

sim::StreamSettings read_stream(const json_file::Object& o, unsigned queue_pairs) {
  sim::StreamSettings s;
  s.bytes = o.bytes("bytes", 1, kLargest, s.bytes);
  s.depth = o.integer<unsigned>("depth", 1, 1'000'000, s.depth);
  s.count = o.integer<std::uint64_t>("count", 0, kLargest, 0);
  s.duration = o.duration("duration", 0ns, kLongest, 0ns);
  s.queue_pairs = queue_pairs;
  return s;
}

sim::CollectiveSettings read_collective(const json_file::Object& o, unsigned hosts,
                                        unsigned queue_pairs) {
  sim::CollectiveSettings c;
  c.bytes = o.bytes("bytes", 1, kLargest, c.bytes);
  c.ranks = o.indices("ranks", kHost, hosts - 1);
  c.iterations = o.integer<unsigned>("iterations", 1, 1'000'000, 1);
  c.queue_pairs = queue_pairs;
  return c;
}

sim::HostPair read_pair(const json_file::Object& o, unsigned hosts) {
  const sim::HostPair pair{o.index("from", kHost, hosts - 1), o.index("to", kHost, hosts - 1)};
  if (pair.from == pair.to) o.fail("to", "is the sender itself");
  return pair;
}

using Make = std::function<std::unique_ptr<sim::Workload>(const sim::Fabric&)>;

Make read_streams(const json_file::Object& o, unsigned hosts, unsigned queue_pairs) {
  struct Delayed {
    sim::HostPair pair;
    Duration delay;
  };
  std::vector<Delayed> pairs;
  for (const json_file::Object& p : o.array("pairs", 1))
    pairs.push_back({read_pair(p, hosts), p.duration("delay", 0ns, kLongest, 0ns)});
  return [pairs, s = read_stream(o, queue_pairs)](const sim::Fabric&) {
    auto made = std::make_unique<sim::Streams>(s);
    for (const Delayed& d : pairs) made->add(d.pair, d.delay);
    return made;
  };
}

Make read_send_recv(const json_file::Object& o, unsigned hosts, unsigned queue_pairs) {
  sim::SendRecvSettings s;
  s.stream = read_stream(o, queue_pairs);
  s.both_ways = o.boolean("both_ways", true);
  for (const json_file::Object& p : o.array("pairs")) s.pairs.push_back(read_pair(p, hosts));
  return [s](const sim::Fabric&) { return std::make_unique<sim::SendRecv>(s); };
}

Make read_permutation(const json_file::Object& o, unsigned queue_pairs, std::uint64_t seed) {
  sim::PermutationSettings s;
  s.stream = read_stream(o, queue_pairs);
  s.shift = o.integer<unsigned>("shift", 0, 2047, 0);
  s.spread = o.duration("spread", 0ns, kLongest, 0ns);
  s.seed = o.integer<std::uint64_t>("seed", 0, UINT64_MAX, seed);
  return [s](const sim::Fabric&) { return std::make_unique<sim::Permutation>(s); };
}

Make read_incast(const json_file::Object& o, unsigned hosts, unsigned queue_pairs) {
  sim::IncastSettings s;
  s.stream = read_stream(o, queue_pairs);
  s.receiver = o.index("receiver", kHost, hosts - 1, 0);
  s.senders = o.indices("senders", kHost, hosts - 1);
  if (s.senders.empty()) {
    const auto count = o.integer<unsigned>("sender_count", 0, hosts - 1, hosts - 1);
    s.senders = sim::far_senders(hosts, s.receiver, count);
  }
  for (const unsigned sender : s.senders)
    if (sender == s.receiver) o.fail("senders", "has the receiver among them");
  s.stagger = o.duration("stagger", 0ns, kLongest, 0ns);
  if (o.has("victim")) s.victim = read_pair(o.object("victim"), hosts);
  const bool pick = o.boolean("pick_victim", false);
  return [s, pick](const sim::Fabric& fabric) {
    sim::IncastSettings settings = s;
    if (pick && !settings.victim) settings.victim = sim::pick_victim(fabric, settings);
    return std::make_unique<sim::Incast>(settings);
  };
}

Make read_all_reduce(const json_file::Object& o, unsigned hosts, unsigned queue_pairs) {
  sim::RingAllReduceSettings s;
  s.collective = read_collective(o, hosts, queue_pairs);
  s.channels = o.integer<unsigned>("channels", 1, 256, s.channels);
  s.slices = o.integer<unsigned>("slices", 1, 256, s.slices);
  s.depth = o.integer<unsigned>("depth", 1, 1024, s.depth);
  return [s](const sim::Fabric&) { return std::make_unique<sim::RingAllReduce>(s); };
}

Make read_all_to_all(const json_file::Object& o, unsigned hosts, unsigned queue_pairs) {
  sim::AllToAllSettings s;
  s.collective = read_collective(o, hosts, queue_pairs);
  s.peers = o.integer<unsigned>("peers", 1, 2047, s.peers);
  return [s](const sim::Fabric&) { return std::make_unique<sim::AllToAll>(s); };
}

Make read_trace(const json_file::Object& o, unsigned queue_pairs) {
  const std::string file = o.text("file");
  try {
    return [trace = sim::TraceFile::read(file), queue_pairs](const sim::Fabric&) {
      return std::make_unique<sim::Trace>(trace, queue_pairs);
    };
  } catch (const Error& error) {
    o.fail("file", reason(error));
  }
}

sim::Traffic read_pattern(const json_file::Object& o, unsigned queue_pairs,
                          const sim::Scenario& s) {
  const unsigned hosts = s.fabric.hosts;
  sim::Traffic t;
  const std::string kind = o.choice("kind", {"streams", "send_recv", "permutation", "incast",
                                             "all_reduce", "all_to_all", "trace"});
  t.name = o.text("name", kind);
  t.start = Time{o.duration("start", 0ns, kLongest, 0ns)};
  const auto qps = o.integer<unsigned>("queue_pairs", 1, 1024, queue_pairs);
  if (kind == "streams") t.make = read_streams(o, hosts, qps);
  if (kind == "send_recv") t.make = read_send_recv(o, hosts, qps);
  if (kind == "permutation") t.make = read_permutation(o, qps, s.seed);
  if (kind == "incast") t.make = read_incast(o, hosts, qps);
  if (kind == "all_reduce") t.make = read_all_reduce(o, hosts, qps);
  if (kind == "all_to_all") t.make = read_all_to_all(o, hosts, qps);
  if (kind == "trace") t.make = read_trace(o, qps);
  return t;
}

}  // namespace

void read_faults(const json_file::Object& root, sim::Scenario& s) {
  for (const json_file::Object& o : root.array("faults")) read_fault(o, s.faults);
  if (root.has("random_faults")) read_random_faults(root.object("random_faults"), s);
  const json_file::Object bad = root.object("bad_cables");
  s.bad_cables.share = bad.number("share", 0, 1, 0);
  s.bad_cables.loss = bad.number("loss", 0, 1, 1);
  s.bad_cables.both_ways = bad.choice("directions", {"both", "up"}, "both") == "both";
  if (s.bad_cables.share > 0 && s.fabric.topology != sim::Topology::clos)
    bad.fail("share", "needs a clos topology");
}

void read_traffic(const json_file::Object& root, unsigned queue_pairs, sim::Scenario& s) {
  for (const json_file::Object& o : root.array("traffic", 1))
    s.traffic.push_back(read_pattern(o, queue_pairs, s));
}

}  // namespace mrc::tools
