// SPDX-License-Identifier: Apache-2.0
// A program of somebody else's: opens a device, and catches what the library throws.
#include <mrc/mrc.hpp>

int main() {
  mrc::Config config;
  const mrc::Device device(config);
  try {
    config.set("planes", "loopback:0");
    config.validate();
  } catch (const mrc::Error& error) {
    const bool named = error.code() == mrc::Errc::invalid_argument &&
                       std::string(error.what()).find("planes") != std::string::npos;
    return named && device.plane_count() == 1 ? 0 : 1;
  }
  return 2;
}
