// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Control sockets for header-only programs: what mrc_ctl asks and tells devices (docs/control.md)
/// needs nlohmann/json, which mrc/mrc.hpp leaves out. Include this header in one file of a
/// header-only program whose devices are to be seen. Programs that link the compiled library have
/// it anyway.
#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/host/control_service.hpp"
#include "mrc/host/device_control.hpp"

namespace mrc::inline v0_1::detail {
/// Its initialisation is what counts.
inline const bool control_registered = (control_opener.store(&open_control_socket), true);
}  // namespace mrc::inline v0_1::detail
#endif
