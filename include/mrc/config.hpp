// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/cc/congestion_control.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"
#include "mrc/stats.hpp"

namespace mrc::inline v0_1 {

/// How much a device says, on standard error or to Config::log_sink. Each level includes those
/// before it.
enum class LogLevel : std::uint8_t { off, warn, info };

/// What the devices may be that queue pairs are connected to by GID and QPN.
enum class PeerKind : std::uint8_t {
  any,      ///< asked; taken for another implementation of MRC if they do not answer
  openmrc,  ///< asked; an error if they do not answer
  mrc,      ///< not asked: other implementations, with MRC's defaults
};

/// Which planes a device has if nothing says so.
enum class DefaultPlanes : std::uint8_t {
  loopback,       ///< one on the loopback interface
  default_route,  ///< one on the interface of the default route; loopback without a default route
};

/// Settings of a device that seldom need another value: what is known of hosts and networks gives
/// the defaults, and a fabric description its traffic classes. Otherwise as Config.
struct ExpertConfig {
  // Paths and packets
  std::uint8_t loss_strikes = 3;
  std::uint8_t probe_successes = 3;
  std::uint16_t burst = 0;
  std::uint16_t rx_batch = 16;
  std::uint16_t receive_shares = 1;
  std::uint32_t sack_threshold = 16 << 10;
  bool cc_receiver_penalty = true;
  std::uint32_t max_outstanding = 65536;

  // Progress
  Duration helper_takeover = std::chrono::microseconds(500);
  Duration spin = std::chrono::microseconds(20);
  Duration poll_ahead{0};

  // Traffic classes
  std::uint8_t dscp_no_trim = 0;
  std::uint8_t dscp_trimmable = 4;
  std::uint8_t dscp_trimmable_retx = 8;
  std::uint8_t dscp_trimmed = 12;
  std::uint8_t dscp_trimmed_last_hop = 16;
  std::uint8_t dscp_control = 46;
};

/// The settings of a device: one plain member per option, with its default. docs/configuration.md
/// has their variables, ranges and documentation, made from options(). A value: copy it, change it,
/// give it to a Device, which validates it and keeps its own copy. Not synchronized.
struct MRC_API Config {
  /// Element of `planes`: the address of the interface of the default route.
  static constexpr std::string_view kDefaultRoute = "default-route";

  // Planes and paths
  std::vector<std::string> planes{"loopback:1"};
  std::string fabric;
  std::string host;
  std::string verbs;
  bool placement = true;
  std::uint16_t paths = 16;
  std::uint16_t udp_port = 4791;
  std::string peer_ports;
  std::string peers_allowed;
  int slot = -1;
  std::string lock_folder = "/run/openmrc-locks";
  std::uint16_t active_paths = 0;
  std::uint16_t min_active_paths = 1;

  // Packets and sockets
  std::uint32_t mtu = 0;  ///< 0: auto
  port::Offload icrc = port::Offload::automatic;
  std::uint32_t receive_buffer = 8 << 20;
  std::uint32_t send_buffer = 1 << 20;
  port::Offload gso = port::Offload::automatic;
  port::Offload gro = port::Offload::automatic;

  // Congestion control
  cc::Algorithm cc = cc::Algorithm::nscc;
  double cc_link_speed = 100.0;
  Duration cc_base_rtt = std::chrono::microseconds(200);
  Duration cc_target_delay{0};
  std::uint64_t cc_fixed_window = std::uint64_t{1} << 20;

  // Reliability
  std::uint8_t mpr = 32;
  std::uint8_t mpr_dest = 32;
  std::uint16_t max_wimm = 128;
  std::uint16_t max_wimm_dest = 128;
  std::uint8_t max_rd_atomic = 16;
  std::uint8_t max_rd_atomic_dest = 16;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 12;
  std::uint8_t timeout = 12;
  std::uint8_t retry_linear = 7;
  std::uint8_t retry_exponential = 10;
  bool dynamic_mpr = true;
  port::Offload trim = port::Offload::automatic;
  PeerKind peer = PeerKind::any;
  Duration connect_timeout = std::chrono::seconds(10);
  bool strict = false;

  // Limits, allocated when the device opens
  std::uint32_t max_qps = 1024;
  std::uint32_t max_cqs = 1024;
  std::uint32_t max_srqs = 1024;
  std::uint32_t max_mrs = 4096;
  std::uint32_t max_pds = 256;
  std::uint32_t max_peers = 1024;

  // Progress
  std::uint16_t lanes = 1;  ///< 0: auto
  bool helper = true;
  std::string helper_cpus;

  /// What seldom needs another value.
  ExpertConfig expert;

  // Diagnosis
  std::string faults;
  std::uint64_t seed = 0;
  LogLevel log = LogLevel::warn;
  std::string keylog;
  std::string control = "auto";
  Duration stall_warning = std::chrono::seconds(5);
  std::string dump;

  /// Takes the device's messages in place of standard error, if it is not empty: those up to level
  /// `log`, one line per call, without the "openmrc: " in front and without a line end; the text
  /// ends with the call. No option: only a program can set it. Any thread calls it, several at
  /// once, while the device opens and until its last handle is gone; a lock of the device may be
  /// held. So it must not throw, wait for long, or call anything of the device.
  std::function<void(LogLevel level, std::string_view line)> log_sink;

  /// Defaults, changed by the MRC_* variables that are set (empty: not set), and validated. Throws
  /// mrc::Error (invalid_argument) naming variable, value and what is allowed. The environment must
  /// not change meanwhile. Programs whose peers know them by their GID only want
  /// DefaultPlanes::default_route: two hosts without configuration must not both be 127.0.0.1.
  [[nodiscard]] static Config from_environment(DefaultPlanes planes = DefaultPlanes::loopback);
  /// The same for a program with defaults of its own.
  [[nodiscard]] static Config from_environment(const Config& defaults);

  /// Sets an option from text, as written in its variable; '-' in `name` is read as '_'. Throws
  /// mrc::Error (invalid_argument) naming option, value and what is allowed; *this is unchanged
  /// then.
  void set(std::string_view name, std::string_view value);

  /// The option's value as text that set() takes. Throws like set() when there is no such option.
  [[nodiscard]] std::string get(std::string_view name) const;

  /// Checks each member against its range and the members against each other, as a Device does when
  /// it opens, which also checks whether `faults` names existing planes and paths. Throws
  /// mrc::Error (invalid_argument) naming the options, and their MRC_* variables if these have set
  /// the values.
  void validate() const;

  /// `planes` with "loopback:N" and "loopback6:N" written out: one address or interface name per
  /// plane. Planes on one address (loopback6) differ by UDP port: the k-th, from 0, uses
  /// udp_port + 256 * k. Throws like validate().
  [[nodiscard]] std::vector<std::string> plane_list() const;
};

/// Sets an option from "name=value", as `--option` of programs takes it. Throws like Config::set.
MRC_API void set_option(Config& config, std::string_view assignment);

namespace detail {

/// Writes a device's messages to Config::log_sink, or standard error without one: those up to the
/// level of option log. Not for the data path. Any thread.
class Log {
 public:
  /// What takes a line; empty: standard error.
  using Sink = std::function<void(LogLevel, std::string_view)>;

  explicit Log(LogLevel level, Sink sink = {}) : level_(level), sink_(std::move(sink)) {}

  Log(const Log& other) : level_(other.level()), sink_(other.sink_) {}
  Log& operator=(const Log&) = delete;

  /// Lines up to this level are written from now on.
  void set_level(LogLevel level) noexcept { level_.store(level, std::memory_order_relaxed); }
  [[nodiscard]] LogLevel level() const noexcept { return level_.load(std::memory_order_relaxed); }

  void info(const std::string& line) const { write(LogLevel::info, line); }
  void warn(const std::string& line) const { write(LogLevel::warn, line); }

 private:
  void write(LogLevel level, const std::string& line) const {
    if (static_cast<int>(level) > static_cast<int>(this->level())) return;
    const Uncancelled writing;
    if (sink_)
      sink_(level, line);
    else
      std::fprintf(stderr, "openmrc: %s\n", line.c_str());
  }

  std::atomic<LogLevel> level_;
  Sink sink_;
};

}  // namespace detail

/// Option peers_allowed: who may connect. A plain value.
class MRC_API AllowedPeers {
 public:
  AllowedPeers() = default;
  /// The option's value: networks separated by commas; empty: everybody. Throws mrc::Error.
  explicit AllowedPeers(std::string_view text) : networks_(port::parse_networks(text)) {}

  /// No network was named: nobody is refused.
  [[nodiscard]] bool everybody() const noexcept { return networks_.empty(); }
  /// May the host with that address connect?
  [[nodiscard]] bool contains(const port::IpAddress& ip) const noexcept {
    for (const port::Network& network : networks_)
      if (network.contains(ip)) return true;
    return everybody();
  }

 private:
  std::vector<port::Network> networks_;
};

/// Option peer_ports: UDP ports of peers that are known by GID. A plain value.
class MRC_API PeerPorts {
 public:
  PeerPorts() = default;
  /// The option's value: NETWORK=PORT, separated by commas. Throws mrc::Error.
  explicit PeerPorts(std::string_view text);

  /// The port of the first network that contains the address, if there is one.
  [[nodiscard]] std::optional<std::uint16_t> find(const port::IpAddress& ip) const noexcept {
    for (const auto& [network, port] : ports_)
      if (network.contains(ip)) return port;
    return std::nullopt;
  }

 private:
  std::vector<std::pair<port::Network, std::uint16_t>> ports_;
};

/// The options of a device by name. Variables, command-line options, range checks and
/// docs/configuration.md are made from this table; defaults are in Config itself. Options are
/// constants, so any thread may use them.

namespace detail {
struct OptionKind;  // the member of Config, its type and its range (config.inl)
}

/// One row of the option table. The default is the member's in a fresh Config.
struct Option {
  std::string_view name;           ///< as in Config::set()
  const detail::OptionKind* kind;  ///< type and range
  std::string_view unit;           ///< empty when the value includes it, or has none
  std::string_view group;          ///< heading in the documentation
  std::string_view doc;            ///< one line
};

/// All options, in the order of the documentation.
[[nodiscard]] MRC_API std::span<const Option> options() noexcept;

/// The option of that name ('-' is read as '_'), or nullptr.
[[nodiscard]] MRC_API const Option* find_option(std::string_view name) noexcept;

/// The same, but throws mrc::Error (invalid_argument) that proposes a similar name.
[[nodiscard]] MRC_API const Option& require_option(std::string_view name);

/// The option's environment variable: "MRC_" and the name in capitals.
[[nodiscard]] MRC_API std::string variable_name(const Option& option);

/// What the option may be, in words: "1 .. 1024", "nscc, fixed, none".
[[nodiscard]] MRC_API std::string allowed_text(const Option& option);

/// The option's value in `config`, as text that assign_option() reads back.
[[nodiscard]] MRC_API std::string value_text(const Option& option, const Config& config);

/// Whether the option's value in `config` is inside its range.
[[nodiscard]] MRC_API bool value_allowed(const Option& option, const Config& config);

/// The error for a value that is not allowed. `what` is "option 'paths'" or the variable.
[[nodiscard]] Error not_allowed(const std::string& what, std::string_view value,
                                const std::string& allowed);

/// Sets the option from text. Throws not_allowed() and leaves `config` unchanged when it is
/// malformed or out of range; where the value has a syntax of its own (faults, fabric, host), the
/// error names the exact mistake.
void assign_option(const Option& option, Config& config, std::string_view text,
                   const std::string& what);

/// MRC_* variables that are not options. Set-up only; the environment must not change meanwhile.

/// A warning that names the MRC_* variables that no option reads, such as misspelt ones; empty if
/// there are none.
[[nodiscard]] std::string unknown_variables();

/// unknown_variables() on the first call in this process that finds any, afterwards empty. Any
/// thread.
[[nodiscard]] std::string unknown_variables_once();

namespace detail {

/// True for the MRC_* variables of the project's own scripts, tests and fuzzers, which programs
/// under test inherit, and for those of the NCCL plugin and the verbs shim: they are not options,
/// and not reported as unknown.
[[nodiscard]] bool reserved_variable(std::string_view name) noexcept;

/// "option 'paths'", or "option 'paths' (environment variable MRC_PATHS)" if the value comes from
/// there. A Config does not record that, so the environment is read again when a message is made.
[[nodiscard]] std::string setting_name(std::string_view name, const Config& config);

/// Inside a handler of `error`: throws it again. For each of the options `names` that the
/// environment has set, the text gets the variable, its value and what is allowed; not where the
/// process lacks files or memory.
[[noreturn]] void throw_naming_variables(const Config& config,
                                         std::initializer_list<std::string_view> names,
                                         const Error& error);

/// Runs `open`, which depends on the options `names`. Extends an Error that it throws, as
/// throw_naming_variables() does.
template <class Open>
void naming_variables(const Config& config, std::initializer_list<std::string_view> names,
                      Open&& open) {
  try {
    open();
  } catch (const Error& error) {
    throw_naming_variables(config, names, error);
  }
}

/// What is wrong with the text of option faults, or nothing: the module's check, null without it
/// (host/modules.inl).
using MistakeIn = std::string (*)(std::string_view text);
extern std::atomic<MistakeIn> mistake_in_faults;

}  // namespace detail

}  // namespace mrc::inline v0_1
