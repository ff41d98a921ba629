// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Configuration of a device: struct Config (api/device_config.hpp), the table of its options and
/// the environment (api/option_table.hpp).
#include "mrc/api/device_config.hpp"
#include "mrc/api/option_table.hpp"
