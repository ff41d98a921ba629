// SPDX-License-Identifier: Apache-2.0
#include "mrc/control.hpp"
