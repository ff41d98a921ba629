// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/simulation.hpp"

/// Shared by the tests of whole simulations.
namespace mrc::test {

/// MRC hosts at T0s of `per_t0` each, without traffic yet: NICs of 100 Gb/s in every plane, as NSCC
/// knows, and switches that trim.
inline sim::Scenario clos_of_mrc(unsigned planes, unsigned hosts, unsigned per_t0, unsigned t1s) {
  sim::Scenario s;
  s.fabric.planes = planes;
  s.fabric.hosts = hosts;
  s.fabric.hosts_per_t0 = per_t0;
  s.fabric.t1s = t1s;
  sim::MrcCluster::Settings mrc;
  mrc.host.engine.cc.nscc.link_speed = planes * 100'000'000'000;
  mrc.host.engine.cc.nscc.trimming = true;
  s.transport = mrc;
  return s;
}

/// The result of a whole run.
inline sim::Summary result_of(const sim::Scenario& scenario) {
  sim::Simulation simulation(scenario);
  simulation.run();
  return summarize(simulation);
}

}  // namespace mrc::test
