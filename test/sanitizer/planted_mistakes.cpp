// SPDX-License-Identifier: Apache-2.0
// Makes the mistake that the sanitizer named by its argument has to find.
#include <cstdio>
#include <limits>
#include <string_view>
#include <thread>

namespace {

// Volatile hides from the compiler what it would warn of or optimise away.
int use_after_free() {
  int* volatile p = new int(1);
  delete p;
  return *p;
}

int signed_overflow(int one) {
  volatile int largest = std::numeric_limits<int>::max();
  return largest + one;
}

int data_race() {
  volatile int shared = 0;
  const auto count = [&shared] {
    for (int i = 0; i < 100'000; ++i) shared = shared + 1;
  };
  std::thread other(count);
  count();
  other.join();
  return shared;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  int result = 0;
  if (which == "address") result = use_after_free();
  if (which == "undefined") result = signed_overflow(argc - 1);
  if (which == "thread") result = data_race();
  std::printf("%d: the mistake went unnoticed\n", result);
}
