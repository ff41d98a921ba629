// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "mrc_sim/soak/audit.hpp"
#include "mrc_sim/soak/options.hpp"
#include "mrc_sim/soak/setup.hpp"
#include "mrc_sim/soak/traffic.hpp"

/// The soak: small random fabrics with random hosts, random traffic and random faults, one for
/// each seed. A run checks
/// * safety: every byte exactly once in its place and none elsewhere, completions in the order of
///   posting, none lost or made up, queue pairs that break only when they may, counters that agree;
/// * liveness: all is done within a bound after the faults have ended, and all paths are in use
///   again.
namespace mrc::soak {

namespace detail {

/// One run. The order of the members is the order of construction.
class SoakRun {
 public:
  SoakRun(std::uint64_t seed, const SoakOptions& options, SoakResult& result)
      : options_(options), result_(result), setup_(seed), network_(setup_.seeds[0]) {
    result_.scenario = setup_.text();
  }

  void run() {
    SoakTraffic traffic(network_, setup_, options_.sabotage);
    const Fabric fabric(network_, setup_.fabric, traffic.nodes(), setup_.seeds[1]);
    FaultSchedule faults;
    if (setup_.faults) faults = random_faults(fabric, setup_.swarm, setup_.seeds[2]);
    result_.scenario += "\n  faults: " + (faults.empty() ? "none" : faults.text());
    result_.faults = static_cast<unsigned>(faults.faults().size());
    faults.apply(network_, fabric, [&](unsigned host) {
      ++result_.killed;
      traffic.kill(host);
    });
    traffic.start(fabric, faults);
    sabotage();
    try {
      drive(traffic);
      settle();
      SoakAudit(network_, fabric, setup_, faults, traffic).run();
    } catch (const SoakFailure& failure) {
      result_.failure = failure.what();
    }
    report(traffic);
  }

 private:
  /// Runs until all messages have ended, when the traffic stops the network.
  void drive(SoakTraffic& traffic) {
    const Time quiet{setup_.horizon};  // no faults and no new messages from then on
    result_.bound = bound();
    while (!traffic.done() && network_.now() < quiet + result_.bound)
      run_until(std::min(quiet + result_.bound, network_.now() + kSlice));
    soak_require(traffic.done(), [&] {
      return "not done " + time_text(result_.bound) +
             " after faults and posting ended: " + traffic.stuck();
    });
    result_.after_faults = std::max(Duration{}, network_.now() - quiet);
  }
  /// Lets late packets arrive, ports report their state, and probes revive paths.
  void settle() {
    const Time end = std::max(network_.now(), Time{setup_.horizon}) + std::chrono::seconds(2);
    while (network_.now() < end) run_until(std::min(end, network_.now() + kSlice));
    for (unsigned i = 0; i < 1000 && network_.packets().in_use() > 0; ++i)
      run_until(network_.now() + setup_.round_trip);
  }
  /// In slices, so that an endless run is stopped too.
  void run_until(Time when) {
    network_.run_until(when);
    soak_require(network_.events() < options_.max_events, [&] {
      return "no end after " + std::to_string(network_.events()) + " events, at " +
             time_text(network_.now().time_since_epoch());
    });
  }

  /// Time limit after the last fault: retransmission timers may have backed off to the length of
  /// the faults, and queue pairs without a peer need time to give up.
  [[nodiscard]] Duration bound() const {
    Duration longest = std::chrono::milliseconds(20) + 4 * setup_.horizon;
    const auto transfer = static_cast<double>(setup_.bytes) * 8 /
                          std::min(setup_.fabric.host_gbps, setup_.fabric.fabric_gbps);
    longest += Duration{static_cast<std::int64_t>(50 * transfer)} + 200 * setup_.round_trip;
    Duration retries{};
    for (const SoakConnection& c : setup_.connections)
      for (const QpAttributes& a : c.attributes)
        retries =
            std::max(retries, setup_.patient ? 16 * reliability::timeout_value(a.timeout)
                                             : 2 * SoakSetup::patience(a, 2 * setup_.round_trip));
    return longest + retries;
  }

  void sabotage() {
    if (options_.sabotage == SoakSabotage::keep_packet) (void)network_.packets().take();
    if (options_.sabotage == SoakSabotage::cut_wires)
      for (std::uint32_t i = 0; i < network_.link_count(); ++i)
        network_.call_at(Time{}, [this, i] { network_.set_link_up(LinkId{i}, false); });
  }

  void report(const SoakTraffic& traffic) {
    result_.digest = network_.digest();
    result_.events = network_.events();
    result_.failed_qps = traffic.failed();
    for (const SoakFlow& flow : traffic.flows()) {
      result_.messages += flow.completed();
      for (std::size_t i = 0; i < flow.completed(); ++i) result_.bytes += flow.messages()[i].length;
    }
    for (const Link& l : network_.links()) {
      result_.dropped += l.stats.dropped;
      result_.lost += l.stats.lost + l.stats.refused;
    }
    for (const auto& host : traffic.hosts()) {
      const EngineStats& s = host->engine().stats();
      result_.packets += s.tx_data;
      result_.retransmits += s.tx_retransmits;
      result_.trimmed += s.rx_trimmed;
      result_.timeouts += s.timeouts;
    }
  }

  static constexpr Duration kSlice = std::chrono::milliseconds(10);

  SoakOptions options_;
  SoakResult& result_;
  SoakSetup setup_;
  Network network_;
};

}  // namespace detail

/// Runs a seed. The same seed and options give the same result on any machine, digest included.
/// Failures of the run are in the result, never thrown. Runs on several threads are independent.
[[nodiscard]] inline SoakResult run_soak_seed(std::uint64_t seed, const SoakOptions& options = {}) {
  SoakResult result;
  result.seed = seed;
  try {
    detail::SoakRun(seed, options, result).run();
  } catch (const std::exception& error) {
    result.failure = std::string("could not be run: ") + error.what();
  }
  return result;
}

}  // namespace mrc::soak
