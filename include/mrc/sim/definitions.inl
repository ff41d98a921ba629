// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: the simulator.
#include "mrc/sim/baseline/rc_sender.inl"
#include "mrc/sim/baseline/roce_cluster.inl"
#include "mrc/sim/baseline/roce_host.inl"
#include "mrc/sim/fabric.inl"
#include "mrc/sim/faults.inl"
#include "mrc/sim/mrc_cluster.inl"
#include "mrc/sim/mrc_host.inl"
#include "mrc/sim/network.inl"
#include "mrc/sim/recorder.inl"
#include "mrc/sim/simulation.inl"
#include "mrc/sim/traffic/trace.inl"
