// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): the simulator.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/sim/impl/fabric.ipp"
#include "mrc/sim/impl/fault_swarm.ipp"
#include "mrc/sim/impl/faults.ipp"
#include "mrc/sim/impl/mrc_cluster.ipp"
#include "mrc/sim/impl/mrc_host.ipp"
#include "mrc/sim/impl/network.ipp"
#include "mrc/sim/impl/port.ipp"
#include "mrc/sim/impl/rc_sender.ipp"
#include "mrc/sim/impl/recorder.ipp"
#include "mrc/sim/impl/roce_cluster.ipp"
#include "mrc/sim/impl/roce_frame.ipp"
#include "mrc/sim/impl/roce_host.ipp"
#include "mrc/sim/impl/roce_wire.ipp"
#include "mrc/sim/impl/simulation.ipp"
#include "mrc/sim/impl/summary.ipp"
#include "mrc/sim/impl/trace_file.ipp"
