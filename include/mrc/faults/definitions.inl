// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/faults/schedule.inl"
#include "mrc/api/fault_spec.inl"
#include "mrc/faults/lane_faults.inl"
#include "mrc/faults/injector.inl"
