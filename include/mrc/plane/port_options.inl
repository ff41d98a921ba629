// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc/core/error.hpp"
#include "mrc/plane/port_options.hpp"

namespace mrc::inline v0_1::port {

void PortOptions::check(const char* kind) const {
  if (receive_slots < 1 || receive_slots > 256)
    reject(kind, "receive_slots", receive_slots, "1 to 256");
  if (fault_slots < 1 || fault_slots > 65536)
    reject(kind, "fault_slots", fault_slots, "1 to 65536");
  if (plane >= kMaxPlanes) reject(kind, "plane", plane, "0 to 31");
  if (!dscp.valid())
    throw Error(Errc::invalid_argument,
                std::string(kind) +
                    ": DSCP values must be below 64, and those of trimmed packets different "
                    "from all that hosts send");
}

void PortOptions::reject(const char* kind, const char* name, std::size_t value,
                         const char* allowed) {
  throw Error(Errc::invalid_argument, std::string(kind) + ": " + name + " is " +
                                          std::to_string(value) + ", allowed is " + allowed);
}

}  // namespace mrc::inline v0_1::port
