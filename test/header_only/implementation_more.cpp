// SPDX-License-Identifier: Apache-2.0
#define MRC_IMPLEMENTATION
#include "mrc/control.hpp"
#include "mrc/fabric.hpp"
#include "mrc/faults.hpp"
#include "mrc/resolve.hpp"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/verbs.hpp"
#endif
