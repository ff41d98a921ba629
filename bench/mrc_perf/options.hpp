// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/types.hpp"

namespace mrc::perf {

/// Version of the protocol between client and server.
inline constexpr int kProtocolVersion = 1;
inline constexpr std::uint16_t kDefaultPort = 18515;

enum class Test { write, write_imm, latency, completion };
[[nodiscard]] const char* to_string(Test test) noexcept;

/// Parameters of the run for both sides, sent by the client to the server.
struct Parameters {
  Test test = Test::write;
  std::uint32_t qps = 1;
  std::uint32_t depth = 128;  ///< messages in flight per queue pair
  bool bidirectional = false;
  bool check = false;
  std::uint64_t largest = 0;  ///< bytes of the longest message
  std::uint32_t inline_bytes = 16;
  std::uint32_t signal_every = 0;  ///< 0: chosen by size
  std::uint64_t rate = 0;          ///< of each sender, in bits per second; 0: as fast as it goes
  std::uint64_t seed = 0;          ///< of the checked pattern
  Duration give_up{};              ///< time without progress; 0: StallGuard's default
  std::string faults;

  /// Time between two messages of that size; 0 without --rate.
  [[nodiscard]] Duration interval(std::uint64_t size) const noexcept {
    return Duration{
        rate == 0 ? 0 : static_cast<std::int64_t>((size * 8'000'000'000 + rate - 1) / rate)};
  }
  /// A test of latency: one message at a time.
  [[nodiscard]] bool one_by_one() const noexcept {
    return test == Test::latency || test == Test::completion;
  }
};

[[nodiscard]] nlohmann::json to_json(const Parameters& p);
/// Throws mrc::Error(bad_message) naming the field that is missing or out of range.
[[nodiscard]] Parameters parameters_from_json(const nlohmann::json& j);

/// The command line.
struct Options {
  std::string host;  ///< empty: server
  std::uint16_t port = kDefaultPort;
  std::string bind;
  bool persistent = false;

  Parameters parameters;
  std::vector<std::uint64_t> sizes;
  std::uint64_t iterations = 0;  ///< 0: by time
  Duration duration{};
  Duration warmup = std::chrono::milliseconds(100);

  Duration interval = std::chrono::seconds(1);
  bool live = true;
  bool quiet = false;
  std::string json_file;
  std::string timeline_file;
  std::string marks;  ///< externally caused events, in the form of a schedule of faults
  Duration timeline_interval = std::chrono::milliseconds(100);

  /// Device options given on the command line, in order: name and value for Config::set().
  std::vector<std::pair<std::string, std::string>> device;

  [[nodiscard]] bool server() const noexcept { return host.empty(); }
};

/// Parses the command line. Throws tools::Exit.
[[nodiscard]] Options parse_options(int argc, char** argv);

/// The device's configuration: environment, then command line. Throws mrc::Error.
[[nodiscard]] Config client_config(const Options& options);
/// The client's device options, which the server uses unless set otherwise there.
[[nodiscard]] nlohmann::json settings_for_server(const Options& options, const Config& config);
/// The server's configuration: environment, then the client's settings where neither the server's
/// command line nor its environment sets a value, then command line. Throws mrc::Error.
[[nodiscard]] Config server_config(const Options& options, const nlohmann::json& wishes);

}  // namespace mrc::perf
