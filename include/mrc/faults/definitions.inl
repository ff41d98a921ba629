// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: fault injection.
#include "mrc/faults/injector.inl"
#include "mrc/faults/lane_faults.inl"
#include "mrc/faults/schedule.inl"
