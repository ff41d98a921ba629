// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Whole layer 3 packets, outermost IP header to iCRC: locate headers, parse, build, trim.

#include "mrc/wire/packet_build.hpp"   // IWYU pragma: export
#include "mrc/wire/packet_layout.hpp"  // IWYU pragma: export
#include "mrc/wire/packet_parse.hpp"   // IWYU pragma: export
#include "mrc/wire/packet_trim.hpp"    // IWYU pragma: export
