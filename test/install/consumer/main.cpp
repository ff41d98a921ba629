// SPDX-License-Identifier: Apache-2.0
#include <mrc/core/types.hpp>
#if __has_include(<mrc/mrc.hpp>)
#include <mrc/mrc.hpp>
#endif
static_assert(MRC_HAVE_ISAL == 0 || MRC_HAVE_ISAL == 1);

int main() {
  return mrc::Psn{0xFFFFFF} + 1 == mrc::Psn{0} ? 0 : 1;
}
