// SPDX-License-Identifier: Apache-2.0
#define MRC_API_VER_USED MRC_API_VER_LATEST
#include "abi.h"
