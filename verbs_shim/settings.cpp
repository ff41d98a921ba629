// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/settings.hpp"

#include <cerrno>
#include <cstdlib>
#include <string>

#include "mrc/core/value_text.hpp"

namespace mrc_verbs {

namespace {

/// "MRC" in ASCII. Vendors have 24 bits, too, and no network card calls itself that.
constexpr std::uint32_t kVendor = 0x4D5243;

/// The number in a variable of the environment, or `otherwise` if it is not set.
std::uint32_t number(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  errno = 0;
  const unsigned long value = std::strtoul(text, &end, 0);
  if (errno != 0 || *end != '\0' || *text == '-' || value > UINT32_MAX)
    throw mrc::Error(mrc::Errc::invalid_argument, std::string("environment variable ") + variable +
                                                      ": value '" + text +
                                                      "' is not allowed; allowed: 0 .. 4294967295");
  return static_cast<std::uint32_t>(value);
}

mrc::Duration min_timeout() {
  constexpr const char* variable = "MRC_VERBS_MIN_TIMEOUT";
  constexpr mrc::Duration most = std::chrono::minutes(1);
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return mrc::Duration(0);
  const auto time = mrc::parse_duration(text);
  if (!time || *time < mrc::Duration(0) || *time > most)
    throw mrc::Error(mrc::Errc::invalid_argument, std::string("environment variable ") + variable +
                                                      ": value '" + text +
                                                      "' is not allowed; allowed: 0s .. 60s");
  return *time;
}

bool controls_process() {
  constexpr const char* variable = "MRC_VERBS_CONTROLLER";
  const char* text = std::getenv(variable);
  const std::string value = text == nullptr || *text == '\0' ? "host" : text;
  if (value != "host" && value != "process")
    throw mrc::Error(mrc::Errc::invalid_argument, std::string("environment variable ") + variable +
                                                      ": value '" + value +
                                                      "' is not allowed; allowed: host, process");
  return value == "process";
}

}  // namespace

Settings read_settings() {
  Settings settings;
  mrc::Config own;
  own.planes = {std::string(mrc::Config::kDefaultRoute)};
  // Verbs programs do not expect limits as low as the library's. Tables of these sizes cost address
  // space; what is in them is allocated with the objects.
  own.max_qps = 16384;
  own.max_cqs = 16384;
  own.max_mrs = 65536;
  own.max_pds = 4096;
  own.max_srqs = 16384;
  // Programs that wait for a byte in memory do not poll meanwhile, and every message would wait for
  // the helper thread this long (ib_write_lat, NCCL, UCX's put).
  own.expert.helper_takeover = std::chrono::microseconds(50);
  own.expert.poll_ahead = std::chrono::microseconds(50);
  settings.config = mrc::Config::from_environment(own);
  // Its planes would be opened through libibverbs.so.1, which is this library.
  if (!settings.config.verbs.empty())
    throw mrc::Error(mrc::Errc::unsupported,
                     "environment variable MRC_VERBS: value '" + settings.config.verbs +
                         "': the verbs shim takes the place of libibverbs and cannot use RDMA "
                         "devices itself; unset it, and name planes with MRC_PLANES or MRC_FABRIC");
  settings.planes_by_default =
      settings.config.planes == own.planes && settings.config.fabric.empty();
  settings.vendor_id = number("MRC_VERBS_VENDOR_ID", kVendor);
  settings.min_timeout = min_timeout();
  settings.controls_process = controls_process();
  settings.vendor_part_id = number("MRC_VERBS_VENDOR_PART_ID", 1);
  return settings;
}

}  // namespace mrc_verbs
