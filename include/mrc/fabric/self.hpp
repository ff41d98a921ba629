// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "mrc/fabric/description.hpp"

/// Which host of a fabric this machine (or network namespace) is.
namespace mrc::inline v0_1::fabric {

/// The host that this machine is, by its addresses `local` (port::local_addresses()). That is the
/// only host of which all addresses are local, or else the only one of which any is (a port that is
/// down may have lost its address). With `wanted`, the value of MRC_HOST: the host of that name.
/// Throws mrc::Error that names the file, what was looked for and what to do.
[[nodiscard]] const Host& find_self(const Description& d, std::span<const wire::IpAddress> local,
                                    std::string_view wanted = {});

}  // namespace mrc::inline v0_1::fabric
