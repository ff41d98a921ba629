// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Configuration of a device: struct Config (config/config.hpp), the table of its options
/// (config/option_table.hpp), and the environment (config/environment.hpp).
#include "mrc/config/config.hpp"
#include "mrc/config/environment.hpp"
#include "mrc/config/option_table.hpp"
