// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "mrc/fabric/description.hpp"
#include "mrc/fabric/json.hpp"

namespace mrc::inline v0_1::fabric {

/// Reads a file (docs/fabric.md) into a Description and checks all of it. Set-up only; any thread.

/// Reads text that errors call `name`. Throws json_file::FileError with file, line and field.
[[nodiscard]] Description parse(const std::string& name, std::string_view text);

/// Reads a file; the same errors.
[[nodiscard]] Description read(const std::string& path);

/// Which host of a fabric this machine (or network namespace) is.

/// The host that this machine is, by its addresses `local` (port::local_addresses()). That is the
/// only host of which all addresses are local, or else the only one of which any is (a port that is
/// down may have lost its address). With `wanted`, the value of MRC_HOST: the host of that name.
/// Throws mrc::Error that names the file, what was looked for and what to do.
[[nodiscard]] const Host& find_self(const Description& d, std::span<const wire::IpAddress> local,
                                    std::string_view wanted = {});

}  // namespace mrc::inline v0_1::fabric
