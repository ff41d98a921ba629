// SPDX-License-Identifier: Apache-2.0
#pragma once

/// OpenMRC: the Multipath Reliable Connection transport (OCP MRC 1.0) in software. This header
/// declares what an application needs. One unit of the program brings the definitions:
///
///     #define MRC_IMPLEMENTATION
///     #include "mrc/mrc.hpp"
///
/// before any other header of OpenMRC; programs that link the compiled library need none. In that
/// unit, headers of modules add what a write over UDP does not need: resolve.hpp connecting by GID
/// and datagrams, control.hpp profiles and control sockets, faults.hpp fault injection, fabric.hpp
/// and verbs.hpp further kinds of planes. stats_json.hpp, in any unit, adds statistics as JSON.
#include "mrc/config.hpp"
#include "mrc/device.hpp"
#include "mrc/exchange.hpp"
#include "mrc/stats.hpp"
#include "mrc/version.hpp"

#ifdef MRC_IMPLEMENTATION
#include "mrc/core/system_headers.hpp"

#pragma GCC visibility push(hidden)  // all but what is declared above
#include "mrc/engine/definitions.inl"
#include "mrc/host/definitions.inl"
#include "mrc/plane/definitions.inl"
#pragma GCC visibility pop
#endif
