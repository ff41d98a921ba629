// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/conditions.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"

namespace mrc::tools {
namespace {

constexpr double kWholeChance = 4294967296.0;  // 2^32, see port_config
constexpr std::uint32_t kDefaultLimit = 256 << 10, kDefaultControlLimit = 1 << 20;
constexpr double kMinRate = 1e5, kMaxRate = 1e11;  // bit/s
constexpr Duration kMinDelay = std::chrono::microseconds(1), kMaxDelay = std::chrono::seconds(10);
constexpr std::uint32_t kMinBytes = 1, kMaxBytes = 64 << 20;

[[noreturn]] void refuse(const std::string& word, const std::string& why) {
  throw Error(Errc::invalid_argument, fmt::format("'{}': {}", word, why));
}

/// A word split at its '='.
struct Word {
  std::string whole, key, value;

  explicit Word(const std::string& text) : whole(text) {
    const auto equals = text.find('=');
    key = text.substr(0, equals);
    if (equals != std::string::npos) value = text.substr(equals + 1);
  }

  [[nodiscard]] std::uint64_t chance() const {
    const auto p = parse_real(value);
    if (!p || *p < 0 || *p > 1) refuse(whole, "must be a probability from 0 to 1, such as 0.01");
    return static_cast<std::uint64_t>(std::llround(*p * kWholeChance));
  }
  [[nodiscard]] std::uint32_t bytes(const std::string& text) const {
    const auto n = parse_integer<std::uint32_t>(text);
    if (!n || *n < kMinBytes || *n > kMaxBytes)
      refuse(whole, "must be bytes, 1 to 64M, such as 65536 or 64K");
    return *n;
  }
  /// In bytes per second.
  [[nodiscard]] std::uint64_t rate() const {
    if (value == "off") return 0;
    const auto unit_at = std::min(value.find_first_of("kKMG"), value.size());
    const auto number = parse_real(value.substr(0, unit_at));
    const std::string unit = value.substr(unit_at);
    double factor = 0;
    if (unit == "kbit" || unit == "Kbit") factor = 1e3;
    if (unit == "Mbit") factor = 1e6;
    if (unit == "Gbit") factor = 1e9;
    if (!number || *number * factor < kMinRate || *number * factor > kMaxRate)
      refuse(whole, "must be 100kbit to 100Gbit, such as 2.5Gbit, or off");
    return static_cast<std::uint64_t>(std::llround(*number * factor / 8));
  }
  /// In nanoseconds.
  [[nodiscard]] std::uint64_t delay() const {
    if (value == "off") return 0;
    const auto time = parse_duration(value);
    if (!time || *time < kMinDelay || *time > kMaxDelay)
      refuse(whole, "must be 1us to 10s, such as 50us or 1.5ms, or off");
    return static_cast<std::uint64_t>(time->count());
  }
  [[nodiscard]] bool flag() const {
    const auto on = value.empty() ? std::optional<bool>(true) : parse_bool(value);
    if (!on) refuse(whole, "must be on or off");
    return *on;
  }
};

void set_flag(port_config& config, port_flag flag, bool on) {
  config.flags = on ? config.flags | flag : config.flags & ~static_cast<__u32>(flag);
}

void set_last_hop(port_config& config, bool on, const wire::DscpMap& dscp) {
  set_flag(config, PORT_LAST_HOP, on);
  config.trimmed_dscp = on ? dscp.trimmed_last_hop : dscp.trimmed;
}

void set_ecn(port_config& config, const Word& word) {
  config.ecn_min = config.ecn_max = 0;
  if (word.value == "off") return;
  const auto colon = word.value.find(':');
  if (colon == std::string::npos) refuse(word.whole, "must be MIN:MAX in bytes, such as 64K:192K");
  config.ecn_min = word.bytes(word.value.substr(0, colon));
  config.ecn_max = word.bytes(word.value.substr(colon + 1));
  if (config.ecn_min > config.ecn_max) refuse(word.whole, "the first must not be over the second");
}

void change(port_config& config, const Word& word, const wire::DscpMap& dscp) {
  if (word.key == "rate") {
    config.rate = word.rate();
  } else if (word.key == "loss") {
    config.loss = word.chance();
  } else if (word.key == "blackhole") {
    config.loss = word.flag() ? static_cast<std::uint64_t>(kWholeChance) : 0;
  } else if (word.key == "ce") {
    config.ce = word.chance();
  } else if (word.key == "ecn") {
    set_ecn(config, word);
  } else if (word.key == "trim" || word.key == "drop") {
    config.limit = word.bytes(word.value);
    set_flag(config, PORT_TRIM, word.key == "trim");
  } else if (word.key == "ctl") {
    config.control_limit = word.bytes(word.value);
  } else if (word.key == "lasthop") {
    set_last_hop(config, word.flag(), dscp);
  } else if (word.key == "delay") {
    config.delay = word.delay();
  } else {
    refuse(word.whole,
           "no such condition: there are rate, delay, loss, blackhole, ce, ecn, trim, "
           "drop, ctl, lasthop and clear");
  }
}

bool needs_queue(const Word& word) {
  return word.key == "ecn" || word.key == "trim" || word.key == "drop" || word.key == "ctl";
}

/// Whether the node is of the kind ("t0" and the like).
bool is_of_kind(const FabricNode& node, std::string_view side) {
  constexpr std::string_view kKinds[] = {"host", "t0", "t1"};
  return side == kKinds[static_cast<std::size_t>(node.kind)];
}

/// Whether the text "from-to" or "from>to" names the direction from a to b.
bool names(std::string_view from, char between, std::string_view to, const FabricNode& a,
           const FabricNode& b) {
  if (is_of_kind(a, from) && is_of_kind(b, to)) return true;
  return (a.name == from && b.name == to) || (between == '-' && a.name == to && b.name == from);
}

}  // namespace

std::vector<std::size_t> select_ports(const Plan& plan, const std::string& text) {
  std::vector<std::size_t> ports;
  const std::string_view all = text;
  // Names contain dashes too, so each dash may be the separator.
  for (std::size_t at = all.find_first_of("->"); at < all.size();
       at = all.find_first_of("->", at + 1))
    for (std::size_t port = 0; port < plan.ports.size(); ++port)
      if (names(all.substr(0, at), all[at], all.substr(at + 1), plan.node_of(port),
                plan.node_of(Plan::peer(port))))
        ports.push_back(port);
  if (text == "all")
    for (std::size_t port = 0; port < plan.ports.size(); ++port) ports.push_back(port);
  if (ports.empty())
    throw Error(
        Errc::invalid_argument,
        fmt::format("no link '{}' in {}: write 'A>B' for one direction, A-B for both (such as "
                    "{}), host-t0, t0-host, t0-t1 or t1-t0 for all ports of a kind, or all; "
                    "`mrc_fabric show` has all links",
                    text, plan.description->file, plan.link(0)));
  return ports;
}

port_config default_conditions(const Plan& plan, std::size_t port) {
  const wire::DscpMap& dscp = plan.description->dscp;
  const auto bit = [](std::uint8_t value) { return std::uint64_t{1} << value; };
  port_config config{};
  config.control_dscps = bit(dscp.control) | bit(dscp.trimmed) | bit(dscp.trimmed_last_hop);
  config.trim_dscps = bit(dscp.trimmable) | bit(dscp.trimmable_retx);
  config.limit = kDefaultLimit;
  config.control_limit = kDefaultControlLimit;
  set_last_hop(config, plan.node_of(Plan::peer(port)).kind == NodeKind::host, dscp);
  return config;
}

void change_conditions(port_config& config, const std::vector<std::string>& words, const Plan& plan,
                       std::size_t port) {
  for (const std::string& text : words) {
    if (text == "clear")
      config = default_conditions(plan, port);
    else
      change(config, Word(text), plan.description->dscp);
  }
  for (const std::string& text : words)
    if (needs_queue(Word(text)) && config.rate == 0)
      refuse(text, "needs a rate on " + plan.direction(port) +
                       ": without one nothing waits there; add rate=1Gbit, say");
  set_flag(config, PORT_ACTIVE, words.back() != "clear");
}

std::string conditions_text(const port_config& config) {
  if ((config.flags & PORT_ACTIVE) == 0) return {};
  std::string out;
  const auto add = [&](const std::string& word) { out += (out.empty() ? "" : " ") + word; };
  if (config.loss >= static_cast<std::uint64_t>(kWholeChance))
    add("blackhole");
  else if (config.loss != 0)
    add(fmt::format("loss={:.4g}", static_cast<double>(config.loss) / kWholeChance));
  if (config.ce != 0) add(fmt::format("ce={:.4g}", static_cast<double>(config.ce) / kWholeChance));
  if (config.delay != 0)
    add("delay=" + format_duration(Duration{static_cast<Duration::rep>(config.delay)}));
  if (config.rate == 0) return out;
  add("rate=" + rate_text(static_cast<double>(config.rate) * 8));
  if (config.ecn_max != 0)
    add(fmt::format("ecn={}:{}", format_size(config.ecn_min), format_size(config.ecn_max)));
  const bool trims = (config.flags & PORT_TRIM) != 0;
  add((trims ? "trim=" : "drop=") + format_size(config.limit));
  add("ctl=" + format_size(config.control_limit));
  if (trims) add((config.flags & PORT_LAST_HOP) != 0 ? "lasthop" : "lasthop=off");
  return out;
}

std::string rate_text(double bits_per_second) {
  if (bits_per_second >= 1e9) return fmt::format("{:.4g}Gbit", bits_per_second / 1e9);
  if (bits_per_second >= 1e6) return fmt::format("{:.4g}Mbit", bits_per_second / 1e6);
  if (bits_per_second > 0) return fmt::format("{:.4g}kbit", bits_per_second / 1e3);
  return "0";
}

}  // namespace mrc::tools
