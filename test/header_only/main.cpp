// SPDX-License-Identifier: Apache-2.0
// A header-only program that opens a device: in the fabric that its first argument names, or on the
// RDMA devices that the second one names, or, if both are empty, on the loopback. The third one is
// option control; then it waits for its standard input to end. Linked with each of the implementing
// units beside this file.
#include <cstdio>
#include <string>

#include "mrc/mrc.hpp"

#ifdef INCLUDE_NLOHMANN_JSON_HPP_
#error "mrc/mrc.hpp includes JSON"
#endif

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  mrc::Config config;
  config.fabric = argv[1];
  config.verbs = argv[2];
  config.control = argc == 4 ? argv[3] : "off";
  try {
    const mrc::Device device(config);
    std::puts("open");
    std::fflush(stdout);
    if (argc == 4) (void)std::getchar();
    return 0;
  } catch (const mrc::Error& error) {
    std::printf("%s: %s\n", error.code() == mrc::Errc::unsupported ? "unsupported" : "refused",
                error.what());
    return 1;
  }
}
