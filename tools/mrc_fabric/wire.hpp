// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "mrc_fabric/options.hpp"

/// The wire: the process that holds the packets of a fabric's delayed directions.
namespace mrc::bench {

/// Is the wire of the network namespace that it is started in: takes each frame that comes by an
/// interface of a direction (wire_interface()), and sends it back there after the time that the
/// interface's alias says ("50us"). Returns the exit status when there are no such interfaces any
/// more, when the namespace has a wire already, or at SIGTERM. Throws mrc::Error.
int run_wire(const Options& o);

/// Starts it in the background, in the namespace that this thread is in. What it may have to
/// complain of is in the file. Throws mrc::Error.
void start_wire(const std::string& fabric, const std::string& log_file);

}  // namespace mrc::bench
