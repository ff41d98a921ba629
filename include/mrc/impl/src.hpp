// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All definitions of the library, for the one unit of a program that compiles them
/// (mrc/core/linkage.hpp). Each file of mrc/impl/src/ can be a unit of its own instead, so that
/// they compile side by side; OpenMRC's CMake targets do that.
#include "mrc/impl/src/api_unit.hpp"
#include "mrc/impl/src/control_unit.hpp"
#include "mrc/impl/src/engine_unit.hpp"
#include "mrc/impl/src/fabric_unit.hpp"
#include "mrc/impl/src/host_unit.hpp"
#include "mrc/impl/src/packet_unit.hpp"
#include "mrc/impl/src/plane_unit.hpp"
#include "mrc/impl/src/probe_unit.hpp"
#include "mrc/impl/src/sim_unit.hpp"
#include "mrc/impl/src/verbs_unit.hpp"
