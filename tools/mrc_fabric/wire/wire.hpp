// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc_fabric/options.hpp"

/// The wire: the process that holds the packets of a fabric's delayed directions.
namespace mrc::tools {

/// Runs the wire of its network namespace: reads each frame that arrives on an interface of a
/// direction (wire_interface()), and sends it back there after the delay in the interface's alias
/// ("50us"). Returns the exit status when no such interfaces are left, when the namespace has a
/// wire already, or at SIGTERM. Throws mrc::Error.
int run_wire(const Options& o);

/// Starts it in the background, in this thread's namespace. Errors are logged to the file. Throws
/// mrc::Error.
void start_wire(const std::string& fabric, const std::string& log_file);

}  // namespace mrc::tools
