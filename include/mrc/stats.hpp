// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Statistics of a device, its planes and its paths; states of planes, and events.
#include "mrc/api/device_stats.hpp"
