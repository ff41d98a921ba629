// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/simulation.hpp"

namespace mrc::inline v0_1::sim {

namespace detail {

[[nodiscard]] inline std::array<std::uint64_t, 5> derived_seeds(std::uint64_t seed) {
  Random random(seed);
  std::array<std::uint64_t, 5> seeds;
  for (std::uint64_t& s : seeds) s = random.next();
  return seeds;
}

}  // namespace detail

Simulation::Simulation(Scenario scenario)
    : scenario_(std::move(scenario)),
      seeds_(detail::derived_seeds(scenario_.seed)),
      network_(seeds_[0]) {
  scenario_.fabric.check();
  if (const auto* mrc = std::get_if<MrcCluster::Settings>(&scenario_.transport))
    mrc_ = make_cluster<MrcCluster>(*mrc);
  else
    roce_ = make_cluster<baseline::RoceCluster>(std::get<Scenario::Roce>(scenario_.transport));
  plan_faults();
  if (scenario_.samples) {
    recorder_ = std::make_unique<Recorder>(network_, *fabric_, *cluster_, *scenario_.samples);
    recorder_->start();
  }
  if (scenario_.warm_up > Time{})
    network_.call_at(scenario_.warm_up, [this] {
      for (unsigned h = 0; h < cluster_->hosts(); ++h)
        before_.push_back(cluster_->received_bytes(h));
      measured_from_ = network_.now();
    });
  plan_traffic();
}

// --- faults
// ---------------------------------------------------------------------------------------

void Simulation::plan_faults() {
  faults_ = scenario_.faults;
  if (scenario_.random_faults)
    faults_.add(sim::random_faults(*fabric_, *scenario_.random_faults, seeds_[3]));
  faults_.add(draw_bad_cables());
  faults_.apply(network_, *fabric_, [this](unsigned host) {
    if (mrc_ != nullptr)
      mrc_->host(host).kill();
    else
      roce_->host(host).kill();
  });
}

/// Draws cables between switches, as many as the scenario's fraction of all of them.
FaultSchedule Simulation::draw_bad_cables() const {
  FaultSchedule schedule;
  const BadCables& bad = scenario_.bad_cables;
  if (bad.share <= 0) return schedule;
  const FabricSettings& f = scenario_.fabric;
  const std::string join = bad.both_ways ? "-" : ">";
  std::vector<std::string> cables;
  for (unsigned p = 0; p < f.planes; ++p)
    for (unsigned j = 0; j < f.t0s(); ++j)
      for (unsigned u = 0; u < f.t1_count(); ++u)
        cables.push_back(switch_name(0, p, j) + join + switch_name(1, p, u));
  Random random(seeds_[4]);
  random.shuffle(std::span<std::string>(cables));
  const auto count = static_cast<std::size_t>(bad.share * static_cast<double>(cables.size()) + 0.5);
  for (std::size_t i = 0; i < std::min(count, cables.size()); ++i)
    schedule.add({Time{}, FaultKind::loss, cables[i], bad.loss});
  return schedule;
}

// --- traffic
// --------------------------------------------------------------------------------------

void Simulation::plan_traffic() {
  if (scenario_.traffic.empty()) throw Error(Errc::invalid_argument, "scenario: no traffic");
  shared_ = std::make_unique<SharedCluster>(*cluster_);
  open_ = scenario_.traffic.size();
  for (std::size_t i = 0; i < scenario_.traffic.size(); ++i) {
    traffic_.push_back(scenario_.traffic[i].make(*fabric_));
    views_.push_back(&shared_->add_view());
    traffic_.back()->when_done([this] {
      if (--open_ == 0) network_.stop();
    });
    if (scenario_.traffic[i].start <= Time{})
      start(i);
    else
      network_.call_at(scenario_.traffic[i].start, [this, i] { start(i); });
  }
}

void Simulation::start(std::size_t pattern) {
  traffic_[pattern]->start(network_, *views_[pattern], log_);
}

}  // namespace mrc::inline v0_1::sim
