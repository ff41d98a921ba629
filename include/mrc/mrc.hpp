// SPDX-License-Identifier: Apache-2.0
#pragma once

/// OpenMRC: the Multipath Reliable Connection transport (OCP MRC 1.0) in software. This header
/// brings what an application needs. stats_json.hpp adds statistics as JSON; fabric.hpp adds option
/// `fabric` to header-only programs.
#include "mrc/config.hpp"
#include "mrc/device.hpp"
#include "mrc/exchange.hpp"
#include "mrc/stats.hpp"
#include "mrc/version.hpp"
