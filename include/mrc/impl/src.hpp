// SPDX-License-Identifier: Apache-2.0
#pragma once

/// All definitions of the library, for the one unit of a program that compiles them
/// (mrc/core/linkage.hpp). Each file of mrc/impl/src/ can be a unit of its own instead, so that
/// they compile side by side; OpenMRC's CMake targets do that.
#include "mrc/impl/src/config.hpp"
#include "mrc/impl/src/device.hpp"
#include "mrc/impl/src/device_fabric.hpp"
#include "mrc/impl/src/engine.hpp"
#include "mrc/impl/src/fabric.hpp"
#include "mrc/impl/src/port.hpp"
#include "mrc/impl/src/probe.hpp"
#include "mrc/impl/src/sim.hpp"
#include "mrc/impl/src/verbs.hpp"
