// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/api/fault_schedule.inl"
#include "mrc/api/fault_spec.inl"
#include "mrc/host/faults.inl"
#include "mrc/plane/fault.inl"
