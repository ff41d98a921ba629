// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdlib>
#include <random>
#include <string_view>

#include "common/command_line.hpp"
#include "mrc/core/error.hpp"
#include "mrc/faults/schedule.hpp"
#include "results.hpp"
#include "units.hpp"

namespace mrc::perf {
namespace {

constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 30;
constexpr std::uint32_t kMaxQps = 4096;
constexpr std::uint32_t kMaxDepth = 8192;  // 2 * kMaxDepth + 8 requests fit a send queue
constexpr std::uint64_t kLargestOfAll = std::uint64_t{4} << 20;
constexpr std::uint64_t kMaxRate = 10'000'000'000'000;  // bits per second

/// A time such as "1.5s"; errors name option, value and what is allowed.
void add_duration(CLI::App& app, const std::string& name, Duration& to, const std::string& help,
                  std::chrono::milliseconds least = {}) {
  app.add_option_function<std::string>(
         name,
         [name, &to, least](const std::string& text) {
           const auto value = parse_duration(text);
           if (!value || *value < least)
             throw CLI::ValidationError(fmt::format(
                 "{} {}: must be a time such as 500ms, 2s or 10 (seconds), from {}ms on", name,
                 text, least.count()));
           to = *value;
         },
         help)
      ->type_name("TIME");
}

void add_number(CLI::App& app, const std::string& name, std::uint32_t& to, std::uint32_t least,
                std::uint32_t most, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [name, &to, least, most](const std::string& text) {
           const auto value = parse_count(text);
           if (!value || *value < least || *value > most)
             throw CLI::ValidationError(
                 fmt::format("{} {}: must be a number, {} .. {}", name, text, least, most));
           to = static_cast<std::uint32_t>(*value);
         },
         help)
      ->type_name("N");
}

/// A flag that sets a device option of the library, which also checks its value.
void add_device(CLI::App& app, const std::string& flag, const std::string& option, Options& o,
                const std::string& type, const std::string& help) {
  app.add_option_function<std::string>(
         flag, [option, &o](const std::string& text) { o.device.emplace_back(option, text); }, help)
      ->type_name(type)
      ->group("Transport");
}

std::string planes_setting(const std::string& text) {
  const bool number = !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isdigit(c) != 0;
  });
  return number ? "loopback:" + text : text;
}

std::vector<std::uint64_t> parse_sizes(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  if (text == "all") {
    for (std::uint64_t size = 1; size <= kLargestOfAll; size *= 2) sizes.push_back(size);
    return sizes;
  }
  for (const auto& part : split(text, ',')) {
    const auto size = parse_size(part);
    if (!size || *size < 1 || *size > kMaxSize)
      throw CLI::ValidationError(fmt::format(
          "--size {}: must be 'all' or a list of sizes, 1 .. 1G (K, M, G are binary)", part));
    sizes.push_back(*size);
  }
  if (sizes.empty()) throw CLI::ValidationError("--size: must name at least one size");
  return sizes;
}

bool parse_test(const std::string& text, Test& test) {
  for (const Test t : {Test::write, Test::write_imm, Test::latency, Test::completion}) {
    if (text != to_string(t)) continue;
    test = t;
    return true;
  }
  return false;
}

void add_test_options(CLI::App& app, Options& o, std::string& sizes, std::string& iterations) {
  Parameters& p = o.parameters;
  app.add_option_function<std::string>(
         "--test",
         [&p](const std::string& text) {
           if (!parse_test(text, p.test))
             throw CLI::ValidationError(
                 fmt::format("--test {}: must be write, write_imm, latency or completion", text));
         },
         "write: bandwidth of RDMA Writes (default); write_imm: the same with immediate data; "
         "latency: half of a round trip of writes, both sides polling memory; completion: a write "
         "until its completion, the server's program asleep")
      ->type_name("NAME");
  app.add_option("--size", sizes, "Message size, a list (4K,64K,1M), or all: 1 B to 4 MiB")
      ->type_name("SIZES")
      ->capture_default_str();
  app.add_option("--iters", iterations, "Messages per queue pair and size, instead of --duration")
      ->type_name("N");
  add_duration(app, "--duration", o.duration,
               "Time per size (default 5s, with several sizes 1s each)",
               std::chrono::milliseconds(1));
  add_duration(app, "--warmup", o.warmup, "Time before the measured phase (default 100ms)");
  add_number(app, "--qps", p.qps, 1, kMaxQps, "Queue pairs (default 1)");
  add_number(app, "--depth", p.depth, 1, kMaxDepth,
             "Messages in flight per queue pair (default 128)");
  app.add_flag("--bidirectional", p.bidirectional, "Both sides send; bandwidths are added");
  app.add_flag("--check", p.check, "Verify every byte at the receiver");
  add_number(app, "--inline", p.inline_bytes, 0, 1024,
             "Copy messages up to this many bytes into the request (default 16)");
  add_number(app, "--signal-every", p.signal_every, 1, kMaxDepth,
             "Ask for one completion per N messages (default 16, from 64 KiB on 1)");
  app.add_option_function<std::string>(
         "--rate",
         [&p](const std::string& text) {
           const auto value = parse_rate(text);
           if (!value || *value < 1 || *value > kMaxRate)
             throw CLI::ValidationError(fmt::format(
                 "--rate {}: must be bits per second such as 500M or 2.5G, up to 10T", text));
           p.rate = *value;
         },
         "Send no more than that, in bits per second of payload (500M, 2.5G), with --bidirectional "
         "in each direction; both programs sleep in between")
      ->type_name("RATE");
  add_duration(app, "--give-up", p.give_up,
               "Fail after this time in which nothing moves on either side (default 10s, or what a "
               "queue pair's retries take if that is longer)",
               std::chrono::milliseconds(10));
  app.add_option("--fault", p.faults,
                 "Faults for both sides, from the start of the measured phase: "
                 "'plane=1,down@2s-4s;loss=0.001'")
      ->type_name("SCHEDULE");
}

void add_connection_options(CLI::App& app, Options& o) {
  app.add_option("host", o.host, "Server to measure against; without it, be the server")
      ->type_name("HOST");
  app.add_option("--port", o.port, "TCP port of the control connection")
      ->check(CLI::Range(1, 65535))
      ->type_name("PORT")
      ->capture_default_str();
  app.add_option("--bind", o.bind, "Server: address that the control port listens on")
      ->type_name("ADDRESS");
  app.add_flag("--persistent", o.persistent, "Server: serve one client after the other");
}

void add_output_options(CLI::App& app, Options& o) {
  add_duration(app, "--interval", o.interval,
               "Time between live lines (default 1s; with several sizes there are none)",
               std::chrono::milliseconds(10));
  app.add_flag("--quiet", o.quiet, "Print no live lines, only results");
  app.add_option("--json", o.json_file, "Write the results as JSON")->type_name("FILE");
  app.add_option("--timeline", o.timeline_file, "Write bandwidth over time and plane as CSV")
      ->type_name("FILE");
  app.add_option("--mark", o.marks,
                 "External events at known times, to be shown in live lines and timeline: "
                 "'T1 reboots@2s-4s;...'")
      ->type_name("SCHEDULE");
  add_duration(app, "--timeline-interval", o.timeline_interval,
               "Time between lines of the timeline (default 100ms)", std::chrono::milliseconds(1));
}

void add_transport_options(CLI::App& app, Options& o) {
  app.add_option_function<std::string>(
         "--planes",
         [&o](const std::string& text) { o.device.emplace_back("planes", planes_setting(text)); },
         "N loopback planes, or a list of local addresses or interfaces, one per plane")
      ->type_name("N|LIST")
      ->group("Transport");
  add_device(
      app, "--fabric", "fabric", o, "FILE",
      "Packet ports over the source-routed fabric that FILE describes (docs/fabric.md); each "
      "side is told its own");
  add_device(
      app, "--verbs", "verbs", o, "DEVICES",
      "Ports of RDMA devices, one plane each, or all (docs/verbs_port.md); each side is told "
      "its own");
  add_device(app, "--paths", "paths", o, "N", "Paths per plane");
  add_device(app, "--mtu", "mtu", o, "BYTES", "Payload bytes per packet, a multiple of 128");
  add_device(app, "--burst", "burst", o, "N", "Packets in a row on one path; 1 sprays each packet");
  add_device(app, "--cc", "cc", o, "NAME", "Congestion control: nscc, fixed or none");
  add_device(app, "--icrc", "icrc", o, "auto|on|off",
             "Packet checksum (iCRC); auto: between processes of one host over the headers only, "
             "unless there are faults");
  app.add_option_function<std::vector<std::string>>(
         "--option",
         [&o](const std::vector<std::string>& list) {
           for (const auto& item : list) {
             const auto at = item.find('=');
             if (at == std::string::npos)
               throw CLI::ValidationError(fmt::format("--option {}: must be NAME=VALUE", item));
             o.device.emplace_back(item.substr(0, at), item.substr(at + 1));
           }
         },
         "Any option of the library (docs/configuration.md); may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false)
      ->group("Transport");
}

void finish(Options& o, const CLI::App& app, const std::string& sizes,
            const std::string& iterations) {
  o.sizes = parse_sizes(sizes);
  o.parameters.largest = *std::max_element(o.sizes.begin(), o.sizes.end());
  if (!iterations.empty()) {
    const auto value = parse_count(iterations);
    if (!value || *value < 1)
      throw CLI::ValidationError(
          fmt::format("--iters {}: must be a number from 1 on (K, M, G allowed)", iterations));
    if (app.count("--duration") > 0)
      throw CLI::ValidationError("--iters and --duration: give one of them");
    o.iterations = *value;
  }
  if (o.duration.count() == 0) o.duration = std::chrono::seconds(o.sizes.size() == 1 ? 5 : 1);
  // Live lines would break up a table with several rows.
  o.live = !o.quiet && (o.sizes.size() == 1 || app.count("--interval") > 0);
  const Parameters& p = o.parameters;
  if (p.one_by_one() && p.qps != 1)
    throw CLI::ValidationError(
        fmt::format("--qps {}: must be 1 with --test {}", p.qps, to_string(p.test)));
  if (p.rate > 0 && p.one_by_one())
    throw CLI::ValidationError(fmt::format(
        "--rate: not with --test {}, which sends one message at a time", to_string(p.test)));
  if (p.rate > 0 && p.rate < 8 * p.largest)
    throw CLI::ValidationError(
        fmt::format("--rate: less than one message of {} per second: use shorter messages (--size) "
                    "or a higher rate",
                    size_text(p.largest)));
  if (p.rate > 0 && p.give_up > Duration{} && p.give_up <= 2 * p.interval(p.largest))
    throw CLI::ValidationError(fmt::format(
        "--give-up: with --rate it must be longer than two messages of {} take, {:.3f} s",
        size_text(p.largest), 2 * seconds(p.interval(p.largest))));
  if (p.test == Test::latency && p.bidirectional)
    throw CLI::ValidationError(
        "--bidirectional: not with --test latency, which always uses both directions");
  if (p.test == Test::completion && (p.bidirectional || p.check))
    throw CLI::ValidationError(fmt::format("--{}: not with --test completion, whose server sleeps",
                                           p.check ? "check" : "bidirectional"));
  try {
    (void)port::FaultSchedule::parse(o.parameters.faults);
  } catch (const Error& error) {
    throw CLI::ValidationError(fmt::format("--fault: {}", error.what()));
  }
  std::random_device random;
  o.parameters.seed = (std::uint64_t{random()} << 32) | random();
}

bool in_environment(const std::string& option) {
  std::string name = "MRC_";
  for (const char c : option)
    name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return std::getenv(name.c_str()) != nullptr;
}

void apply(Config& config, const Options& options) {
  for (const auto& [name, value] : options.device) config.set(name, value);
  config.validate();
}

}  // namespace

const char* to_string(Test test) noexcept {
  switch (test) {
    case Test::write:
      return "write";
    case Test::write_imm:
      return "write_imm";
    case Test::latency:
      return "latency";
    case Test::completion:
      return "completion";
  }
  return "?";
}

Options parse_options(int argc, char** argv) {
  Options o;
  std::string sizes = "all";
  std::string iterations;
  CLI::App app(
      "Measures RDMA Writes over MRC. Start it without a host on one side, with that side's name "
      "on the other.",
      "mrc_perf");
  app.footer(kJsonSchema);
  add_connection_options(app, o);
  add_test_options(app, o, sizes, iterations);
  add_transport_options(app, o);
  add_output_options(app, o);
  tools::parse_command_line(app, argc, argv, [&] { finish(o, app, sizes, iterations); });
  return o;
}

Config client_config(const Options& options) {
  Config config = Config::from_environment();
  apply(config, options);
  // Injected damage is to be noticed.
  if (!options.parameters.faults.empty() && config.icrc == port::Offload::automatic)
    config.icrc = port::Offload::on;
  return config;
}

/// The options that a server takes from a client, whoever that is: those of the protocol, on which
/// both sides should agree. None names a file, an address other than the loopback's, or an amount
/// of memory, or belongs to one side (slot, faults, fabric).
bool may_be_wished(std::string_view name, std::string_view value) {
  static constexpr std::array<std::string_view, 31> kNames{"paths",
                                                           "active_paths",
                                                           "min_active_paths",
                                                           "loss_strikes",
                                                           "probe_successes",
                                                           "mtu",
                                                           "burst",
                                                           "icrc",
                                                           "gso",
                                                           "gro",
                                                           "cc",
                                                           "cc_link_speed",
                                                           "cc_base_rtt",
                                                           "cc_target_delay",
                                                           "cc_fixed_window",
                                                           "mpr",
                                                           "mpr_dest",
                                                           "max_wimm",
                                                           "max_wimm_dest",
                                                           "max_rd_atomic",
                                                           "max_rd_atomic_dest",
                                                           "rnr_retry",
                                                           "min_rnr_timer",
                                                           "strict",
                                                           "timeout",
                                                           "retry_linear",
                                                           "retry_exponential",
                                                           "dynamic_mpr",
                                                           "trim",
                                                           "sack_threshold",
                                                           "placement"};
  if (name == "planes") return value.rfind("loopback", 0) == 0;
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

nlohmann::json settings_for_server(const Options& options, const Config& config) {
  nlohmann::json j = nlohmann::json::object();
  for (const auto& [name, value] : options.device) {
    if (may_be_wished(name, value)) j[name] = value;
  }
  for (const auto name : {"mtu", "icrc"}) j[name] = config.get(name);
  return j;
}

Config server_config(const Options& options, const nlohmann::json& wishes) {
  Config config = Config::from_environment();
  if (wishes.is_object()) {
    for (const auto& [name, value] : wishes.items()) {
      if (!value.is_string()) continue;
      const auto& text = value.get_ref<const std::string&>();
      if (!may_be_wished(name, text))
        throw Error(Errc::invalid_argument,
                    fmt::format("option {}={} is not one that a server takes from its clients: set "
                                "it at the server",
                                printable(name), printable(text)));
      if (!in_environment(name)) config.set(name, text);
    }
  }
  apply(config, options);
  return config;
}

nlohmann::json to_json(const Parameters& p) {
  return {{"test", to_string(p.test)},
          {"qps", p.qps},
          {"depth", p.depth},
          {"bidirectional", p.bidirectional},
          {"check", p.check},
          {"largest", p.largest},
          {"inline_bytes", p.inline_bytes},
          {"signal_every", p.signal_every},
          {"rate", p.rate},
          {"seed", p.seed},
          {"give_up_ms", std::chrono::duration_cast<std::chrono::milliseconds>(p.give_up).count()},
          {"faults", p.faults}};
}

Parameters parameters_from_json(const nlohmann::json& j) {
  const auto number = [&j](const char* name, std::uint64_t least, std::uint64_t most) {
    const auto at = j.find(name);
    if (at == j.end() || !at->is_number_unsigned() || at->get<std::uint64_t>() < least ||
        at->get<std::uint64_t>() > most)
      throw Error(Errc::bad_message,
                  fmt::format("client's parameter {}: must be {} .. {}", name, least, most));
    return at->get<std::uint64_t>();
  };
  Parameters p;
  const auto test = j.value("test", "");
  if (!parse_test(test, p.test))
    throw Error(Errc::bad_message, fmt::format("client's parameter test: unknown test '{}'", test));
  p.qps = static_cast<std::uint32_t>(number("qps", 1, kMaxQps));
  p.depth = static_cast<std::uint32_t>(number("depth", 1, kMaxDepth));
  p.bidirectional = j.value("bidirectional", false);
  p.check = j.value("check", false);
  p.largest = number("largest", 1, kMaxSize);
  p.inline_bytes = static_cast<std::uint32_t>(number("inline_bytes", 0, 1024));
  p.signal_every = static_cast<std::uint32_t>(number("signal_every", 0, kMaxDepth));
  if (j.contains("rate")) p.rate = number("rate", 0, kMaxRate);  // older clients have none
  p.seed = number("seed", 0, UINT64_MAX);
  constexpr std::uint64_t kYear = std::uint64_t{1000} * 86400 * 365;
  p.give_up = std::chrono::milliseconds(number("give_up_ms", 0, kYear));
  p.faults = j.value("faults", "");
  return p;
}

}  // namespace mrc::perf
