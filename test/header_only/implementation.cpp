// SPDX-License-Identifier: Apache-2.0
#define MRC_IMPLEMENTATION
#include "mrc/mrc.hpp"
