// SPDX-License-Identifier: Apache-2.0
#include "mrc_probe/prober.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <type_traits>
#include <utility>

#include "common/interrupt.hpp"
#include "mrc/core/error.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/net/address.hpp"

namespace mrc::probe_tool {
namespace {

/// Probes of the second look for each of the first: what lets half of them through can't pass for
/// dead.
constexpr unsigned kMoreTries = 8;
/// The same, of all turns together: so few losses in one direction of a link show only by many.
constexpr unsigned kTurnTries = 128;

/// Trains on each path, and again where some were slow; so that they meet more than one moment of
/// other traffic, a round of them takes at least so long.
constexpr unsigned kTrains = 6;
constexpr Duration kTrainRound = std::chrono::milliseconds(250);

/// Beyond this, a sweep takes too long to be of use.
constexpr std::size_t kMaxPaths = 65'536;

void check_count(const Description& d, const ProberOptions& options) {
  const std::size_t loops = options.loops ? std::size_t{1} + std::size_t{d.t1} * d.t0 : 0;
  const std::size_t each = d.forwarding == fabric::Forwarding::srv6 ? d.t1 : options.evs;
  const std::size_t count = d.planes * (loops + options.hosts.size() * each);
  if (count > kMaxPaths)
    throw Error(Errc::no_resources,
                fmt::format("{}: there are up to {} paths from one host, too many for a sweep (at "
                            "most {}): name fewer hosts with --to, or {}",
                            d.file, count, kMaxPaths,
                            d.forwarding == fabric::Forwarding::srv6
                                ? "leave loops or hosts out with --only"
                                : "set a smaller MRC_PATHS"));
}

}  // namespace

Prober::Prober(const Description& d, unsigned self, Network& network, const ProberOptions& options)
    : d_(d),
      self_(self),
      network_(network),
      options_(options),
      maker_(d, self),
      // Others on this host see the answers, too, and should not take them for theirs.
      next_id_(static_cast<std::uint16_t>(std::random_device{}())) {
  check_count(d, options);
  if (options.loops) paths_ = maker_.loops();
  for (const unsigned host : options.hosts)
    for (ProbePath& path : maker_.paths_to(host, options.evs)) paths_.push_back(std::move(path));
  add_ways(paths_, self);
}

/// Tells the ports about paths and remembers how to use them. Loops go to peer number `loop_peer`.
void Prober::add_ways(const std::vector<ProbePath>& paths, unsigned loop_peer) {
  std::map<std::pair<Plane, unsigned>, std::vector<path::UsidRoute>> routes;
  for (const ProbePath& path : paths) {
    const unsigned peer = path.kind == PathKind::peer ? path.to : loop_peer;
    auto& list = routes[{path.plane, peer}];
    ways_.push_back({path.plane, peer, static_cast<std::uint16_t>(list.size()), path.ev});
    if (d_.forwarding == fabric::Forwarding::srv6) list.push_back(path.route);
  }
  for (auto& [peer, list] : routes) {
    const unsigned host = peer.second < d_.hosts.size() ? peer.second : self_;
    network_.add_peer(peer.first, peer.second, d_.hosts[host].addresses[peer.first],
                      std::move(list));
  }
}

Report Prober::sweep() {
  Report report;
  report.self = self_;
  report.started = std::chrono::system_clock::now();
  const Time start = monotonic_now();
  sent_ = 0;
  const std::size_t known = paths_.size();
  std::vector<std::size_t> asked(known);
  std::iota(asked.begin(), asked.end(), std::size_t{0});
  report.results = look(asked, 0);

  if (options_.full) report.full_size = network_.full_size();
  if (report.full_size != 0) {
    asked.clear();
    for (std::size_t i = 0; i < paths_.size(); ++i)  // others may lose any packet
      if (const PathResult& r = report.results[i]; r.answered > r.lost()) asked.push_back(i);
    report.full = look(asked, report.full_size);
    report.results.resize(paths_.size());
    part_dead_from_narrow(report);
    report.narrow = judge(paths_, report.full, Extent::there);
    report.narrow.lossy.clear();  // a matter of chance, which small ones show
    report.narrow.lossy_paths.clear();
    if (options_.load) load(report);
  }

  report.verdict = judge(paths_, report.results);
  report.paths = paths_;
  paths_.resize(known);
  ways_.resize(known);
  report.probes = sent_;
  for (unsigned p = 0; p < d_.planes; ++p)
    report.link_up.push_back(network_.link_up(static_cast<Plane>(p)));
  report.took = monotonic_now() - start;
  return report;
}

/// What lets no packet of full size through may have died since small ones passed it.
void Prober::part_dead_from_narrow(Report& report) {
  full_size_ = 0;
  Sweep again(options_.sweep, next_id_);
  for (std::size_t i = 0; i < report.full.size(); ++i)
    if (report.full[i].tries > 0 && report.full[i].answered == 0) again.ask(i, kMoreTries);
  run(again);
  for (std::size_t i = 0; i < again.results().size(); ++i) {
    const PathResult& small = again.results()[i];
    if (small.tries == 0 || small.answered > 0) continue;
    report.results[i] = small;
    report.full[i] = {};
  }
}

/// Detours and turns of a second look become paths, which are to be probed again. They go to peer
/// number `loop_peer`.
void Prober::add_more(SecondLook& more, unsigned loop_peer) {
  std::move(more.turns.begin(), more.turns.end(), std::back_inserter(more.detours));
  add_ways(more.detours, loop_peer);
  for (ProbePath& path : more.detours) {
    more.again.push_back(paths_.size());
    paths_.push_back(std::move(path));
  }
}

/// Probes these paths, and those of planes with losses again, beside detours and turns, which
/// become known. `full_size`: bytes of the packets; 0: small ones.
std::vector<PathResult> Prober::look(const std::vector<std::size_t>& asked,
                                     std::uint32_t full_size) {
  full_size_ = full_size;
  Sweep first(options_.sweep, next_id_);
  for (const std::size_t i : asked) first.ask(i, options_.tries);
  run(first);
  std::vector<PathResult> results = first.results();
  results.resize(paths_.size());

  SecondLook more = second_look(maker_, paths_, results);
  std::erase_if(more.again, [&](std::size_t i) { return results[i].tries == 0; });
  const std::size_t turns = more.turns.size();
  add_more(more, static_cast<unsigned>(d_.hosts.size()) + (full_size != 0 ? 1 : 0));
  results.resize(paths_.size());
  Sweep second(options_.sweep, next_id_);
  for (const std::size_t i : more.again) second.ask(i, kMoreTries * options_.tries);
  run(second);
  // A turn and the one the other way round: more tries, unless one of them has shown to be dead.
  for (std::size_t i = results.size() - turns; i < results.size(); i += 2) {
    if (second.results()[i].answered == 0 || second.results()[i + 1].answered == 0) continue;
    const auto times = std::max<std::size_t>(kMoreTries, kTurnTries / turns) - kMoreTries;
    for (const std::size_t turn : {i, i + 1})
      second.ask(turn, static_cast<unsigned>(times) * options_.tries);
  }
  run(second);
  // What the first look saw is why there is a second one, so it would tint the shares of losses.
  for (const std::size_t i : more.again) results[i] = second.results()[i];
  return results;
}

/// Trains on paths that packets of full size pass, and more of them where some are slow.
void Prober::load(Report& report) {
  full_size_ = report.full_size;
  std::vector<std::size_t> asked;
  for (std::size_t i = 0; i < report.full.size(); ++i)
    if (const PathResult& r = report.full[i]; r.answered > r.lost()) asked.push_back(i);
  report.loads.resize(paths_.size());
  send_trains(asked, report.loads);
  SecondLook more = second_look(maker_, paths_, results_of(compare_loads(paths_, report.loads)));
  std::erase_if(more.again, [&](std::size_t i) { return report.loads[i].trains == 0; });
  if (!more.again.empty()) {
    add_more(more, static_cast<unsigned>(d_.hosts.size()) + 2);
    report.results.resize(paths_.size());
    report.full.resize(paths_.size());
    report.loads.resize(paths_.size());
    send_trains(more.again, report.loads);
  }
  report.slow = judge_standings(paths_, compare_loads(paths_, report.loads));
}

void Prober::send_trains(const std::vector<std::size_t>& asked, std::vector<PathLoad>& loads) {
  TrainOptions options;
  options.rate = options_.sweep.rate;
  options.patience = std::max(options.patience, options_.sweep.timeout);
  for (unsigned round = 0; round < kTrains && !tools::g_interrupted; ++round) {
    const Time end = monotonic_now() + kTrainRound;
    Trains trains(options, next_id_);
    for (const std::size_t i : asked) trains.ask(i);
    run(trains);
    for (const std::size_t i : asked) {
      const PathLoad& more = trains.results()[i];
      loads[i].trains += more.trains;
      loads[i].rates.insert(loads[i].rates.end(), more.rates.begin(), more.rates.end());
    }
    while (monotonic_now() < end && !tools::g_interrupted) {
      network_.wait(end);
      network_.receive([](const wire::RxPacket&) {});  // late, or for others
    }
  }
}

template <class Pace>
void Prober::run(Pace& pace) {
  constexpr bool kTogether = std::is_same_v<Pace, Trains>;
  const std::uint64_t before = pace.sent();
  while (!pace.done() && !tools::g_interrupted) {
    // Probes one at a time: a round trip does not begin before its probe leaves.
    for (auto probe = pace.poll(monotonic_now()); probe;
         probe = kTogether ? pace.poll(monotonic_now()) : std::nullopt)
      send(*probe);
    network_.flush();
    network_.wait(pace.next_event());
    network_.receive([&](const wire::RxPacket& packet) { on_packet(pace, packet); });
    pace.on_time(monotonic_now());
  }
  next_id_ = pace.next_id();
  sent_ += pace.sent() - before;
}

void Prober::send(const Sweep::Probe& probe) {
  wire::EndpointRequestPacket p{
      wire::Bth::make(wire::Opcode::endpoint_request, kEndpointQpn, Psn{probe.id}), {}};
  p.erth.set_op(wire::EndpointOp::ev_probe);
  p.erth.vendor_info = network_.slot();
  p.erth.set_tx_timestamp(wire::timestamp_of(probe.sent));
  network_.send(ways_[probe.path], p, padding(paths_[probe.path], sizeof p));
}

/// What a packet with that header is filled up with.
std::uint32_t Prober::padding(const ProbePath& path, std::size_t header) const noexcept {
  if (full_size_ == 0) return 0;
  using enum wire::Encapsulation;
  const bool routed = d_.forwarding == fabric::Forwarding::srv6;
  const auto encapsulation = !routed ? none : path.route.has_srh ? srh : ipv6_in_ipv6;
  const std::size_t rest = wire::envelope_size(false, encapsulation) + header + wire::kIcrcSize;
  return full_size_ - static_cast<std::uint32_t>(rest);
}

/// An answer is a response from the host that was asked, or a request that came back to its sender.
/// Either came in by the plane that it left by, and has the number and time of a probe.
template <class Pace>
void Prober::on_packet(Pace& pace, const wire::RxPacket& packet) {
  const auto& bth = wire::view_as<wire::Bth>(packet.bytes);
  std::uint16_t timestamp = 0;
  bool is_loop = false;
  if (bth.opcode() == wire::Opcode::endpoint_request) {
    const auto& p = wire::view_as<wire::EndpointRequestPacket>(packet.bytes);
    if (p.erth.op() != wire::EndpointOp::ev_probe || p.erth.vendor_info != network_.slot()) return;
    is_loop = true;
    timestamp = p.erth.tx_timestamp.value();
  } else if (bth.opcode() == wire::Opcode::endpoint_response) {
    const auto& p = wire::view_as<wire::EndpointResponsePacket>(packet.bytes);
    if (p.eeth.op() != wire::EndpointOp::ev_probe) return;
    timestamp = p.eeth.tx_timestamp.value();
  } else {
    return;
  }
  const auto id = static_cast<std::uint16_t>(bth.psn().value());
  const Sweep::Probe* probe = pace.find(id);
  if (probe == nullptr || bth.psn().value() != id) return;
  const ProbePath& path = paths_[probe->path];
  const wire::IpAddress& from = d_.hosts[path.to].addresses[path.plane];
  if (is_loop == (path.kind == PathKind::peer) || packet.plane != path.plane ||
      packet.source != port::source_tag(from) || timestamp != wire::timestamp_of(probe->sent))
    return;
  pace.on_answer(monotonic_now(), id);
}

}  // namespace mrc::probe_tool
