// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Fault injection: option `faults`, and the definition of Device::set_faults(). To be included
/// where a program defines MRC_IMPLEMENTATION. Programs that link the compiled library have it
/// anyway.
#include "mrc/mrc.hpp"

#ifdef MRC_IMPLEMENTATION
#pragma GCC visibility push(hidden)
#include "mrc/faults/definitions.inl"

namespace mrc::inline v0_1::detail {
/// Its initialisation is what counts.
const bool faults_registered = (mistake_in_faults.store(&port::FaultSchedule::mistake_in),
                                fault_setter.store(&set_faults), true);
}  // namespace mrc::inline v0_1::detail
#pragma GCC visibility pop
#endif
