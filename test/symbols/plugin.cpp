// SPDX-License-Identifier: Apache-2.0
// A shared object that has OpenMRC inside and offers one function.
#include <mrc/mrc.hpp>

extern "C" __attribute__((visibility("default"))) unsigned plugin_planes() {
  return mrc::Device().plane_count();
}
