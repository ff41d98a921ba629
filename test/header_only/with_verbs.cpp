// SPDX-License-Identifier: Apache-2.0
#include "mrc/verbs.hpp"
