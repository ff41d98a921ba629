// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <system_error>
#include <type_traits>
#include <variant>

#include "mrc/core/value_text.hpp"
#include "mrc/version.hpp"

namespace mrc::inline v0_1 {

namespace detail {

/// The kinds of options: where in a Config the value is, its range, and its form as text.

/// Where an option's value is: a member of Config, or of Config::expert. Implicit from both.
template <class T>
struct ConfigMember {
  constexpr ConfigMember(T Config::*member) : plain(member) {}
  constexpr ConfigMember(T ExpertConfig::*member) : expert(member) {}
  [[nodiscard]] const T& of(const Config& c) const {
    return plain != nullptr ? c.*plain : c.expert.*expert;
  }
  [[nodiscard]] T& of(Config& c) const { return plain != nullptr ? c.*plain : c.expert.*expert; }

  T Config::*plain = nullptr;
  T ExpertConfig::*expert = nullptr;
};

/// on or off.
struct BoolOption {
  ConfigMember<bool> member;
};

/// How a number is written in messages and documents.
enum class NumberStyle : std::uint8_t { plain, size, mtu, zero_is_auto };

/// A number or a duration between two limits, both included.
template <class T>
struct NumberOption {
  ConfigMember<T> member;
  T min;
  T max;
  NumberStyle style = NumberStyle::plain;
};

/// A value of an enumeration and its name.
template <class E>
struct Choice {
  std::string_view name;
  E value;
};
inline constexpr std::array<Choice<cc::Algorithm>, 3> kCcChoices{{{"nscc", cc::Algorithm::nscc},
                                                                  {"fixed", cc::Algorithm::fixed},
                                                                  {"none", cc::Algorithm::none}}};
inline constexpr std::array<Choice<port::Offload>, 3> kOffloadChoices{
    {{"auto", port::Offload::automatic}, {"on", port::Offload::on}, {"off", port::Offload::off}}};
inline constexpr std::array<Choice<LogLevel>, 3> kLogChoices{
    {{"off", LogLevel::off}, {"warn", LogLevel::warn}, {"info", LogLevel::info}}};
inline constexpr std::array<Choice<PeerKind>, 3> kPeerChoices{
    {{"any", PeerKind::any}, {"openmrc", PeerKind::openmrc}, {"mrc", PeerKind::mrc}}};

/// One of a few names.
template <class E>
struct ChoiceOption {
  ConfigMember<E> member;
  const std::array<Choice<E>, 3>* choices;
};

/// A text with a syntax of its own. `mistake_in` returns what is wrong with a text and what is
/// allowed instead, or an empty string; `allowed` is for the documentation.
struct TextOption {
  ConfigMember<std::string> member;
  std::string (*mistake_in)(std::string_view text);
  std::string_view allowed;
};

/// Several texts, separated by commas; `allowed` says in words what they may be.
struct ListOption {
  ConfigMember<std::vector<std::string>> member;
  std::string_view allowed;
};

using OptionVariant =
    std::variant<BoolOption, NumberOption<int>, NumberOption<std::uint8_t>,
                 NumberOption<std::uint16_t>, NumberOption<std::uint32_t>,
                 NumberOption<std::uint64_t>, NumberOption<double>, NumberOption<Duration>,
                 ChoiceOption<cc::Algorithm>, ChoiceOption<port::Offload>, ChoiceOption<LogLevel>,
                 TextOption, ListOption, ChoiceOption<PeerKind>>;

/// std::visit() of a kind, which compiles in a fraction of the time.
template <std::size_t I = 0, class F>
decltype(auto) visit_kind(const F& f, const OptionVariant& kind) {
  if constexpr (I + 1 < std::variant_size_v<OptionVariant>)
    if (kind.index() != I) return visit_kind<I + 1>(f, kind);
  return f(*std::get_if<I>(&kind));
}

/// What an Option points at.
struct MRC_LOCAL OptionKind {
  template <class Kind>
  constexpr OptionKind(Kind kind) : value(kind) {}  // NOLINT(google-explicit-constructor)
  OptionVariant value;
};

template <class T>
[[nodiscard]] std::string number_text(T value, NumberStyle style) {
  if constexpr (std::is_same_v<T, Duration>) return format_duration(value);
  if constexpr (std::is_same_v<T, double>) return format_real(value);
  if constexpr (std::is_unsigned_v<T>) {
    if (style == NumberStyle::size) return format_size(value);
    if (style != NumberStyle::plain && value == 0) return "auto";
  }
  if constexpr (std::is_integral_v<T>) return std::to_string(value);
}

template <class T>
[[nodiscard]] std::optional<T> parse_number(std::string_view text) {
  if constexpr (std::is_same_v<T, Duration>)
    return parse_duration(text);
  else if constexpr (std::is_same_v<T, double>)
    return parse_real(text);
  else
    return parse_integer<T>(text);
}

template <class T>
[[nodiscard]] bool in_range(const NumberOption<T>& option, T value) {
  if (option.style == NumberStyle::mtu && value == T{}) return true;
  // In this form the test rejects NaN.
  if (!(value >= option.min && value <= option.max)) return false;
  if constexpr (std::is_unsigned_v<T>)
    if (option.style == NumberStyle::mtu) return value % kMtuUnit == 0;
  return true;
}

// The operations on an option, overloaded by its kind:
//   holds       whether the member's value is allowed
//   text_of     the member as text
//   allowed_by  the allowed values in words
//   assign      sets the member from text; false and no change if it is not allowed

[[nodiscard]] inline bool holds(const auto&, const Config&) {
  return true;
}
template <class T>
[[nodiscard]] bool holds(const NumberOption<T>& o, const Config& c) {
  return in_range(o, o.member.of(c));
}
template <class E>
[[nodiscard]] bool holds(const ChoiceOption<E>& o, const Config& c) {
  return std::ranges::find(*o.choices, o.member.of(c), &Choice<E>::value) != o.choices->end();
}

[[nodiscard]] bool holds(const TextOption& o, const Config& c) {
  return o.mistake_in(o.member.of(c)).empty();
}

[[nodiscard]] std::string text_of(const BoolOption& o, const Config& c) {
  return o.member.of(c) ? "on" : "off";
}
template <class T>
[[nodiscard]] std::string text_of(const NumberOption<T>& o, const Config& c) {
  return number_text(o.member.of(c), o.style);
}
template <class E>
[[nodiscard]] std::string text_of(const ChoiceOption<E>& o, const Config& c) {
  for (const auto& choice : *o.choices)
    if (choice.value == o.member.of(c)) return std::string(choice.name);
  return std::to_string(static_cast<unsigned>(o.member.of(c)));
}
[[nodiscard]] std::string text_of(const TextOption& o, const Config& c) {
  return o.member.of(c);
}
[[nodiscard]] std::string text_of(const ListOption& o, const Config& c) {
  std::string text;
  for (const auto& element : o.member.of(c)) text += (text.empty() ? "" : ",") + element;
  return text;
}

[[nodiscard]] std::string allowed_by(const BoolOption&) {
  return "on, off (or true, false, 1, 0)";
}
template <class T>
[[nodiscard]] std::string allowed_by(const NumberOption<T>& o) {
  const std::string max = number_text(o.max, o.style);
  if (o.style == NumberStyle::zero_is_auto) return "1 .. " + max + ", or auto";
  const std::string text = number_text(o.min, o.style) + " .. " + max;
  if (o.style != NumberStyle::mtu) return text;
  return text + ", a multiple of " + std::to_string(kMtuUnit) + ", or auto";
}
template <class E>
[[nodiscard]] std::string allowed_by(const ChoiceOption<E>& o) {
  std::string text;
  for (const auto& choice : *o.choices) text.append(text.empty() ? "" : ", ").append(choice.name);
  return text;
}
[[nodiscard]] inline std::string allowed_by(const auto& o) {  // of a text or a list
  return std::string(o.allowed);
}

[[nodiscard]] bool assign(const BoolOption& o, Config& c, std::string_view text) {
  const auto value = parse_bool(text);
  if (value) o.member.of(c) = *value;
  return value.has_value();
}
template <class T>
[[nodiscard]] bool assign(const NumberOption<T>& o, Config& c, std::string_view text) {
  const bool has_auto = o.style == NumberStyle::zero_is_auto || o.style == NumberStyle::mtu;
  const bool automatic = has_auto && text == "auto";
  const auto value = automatic ? T{} : parse_number<T>(text);
  if (!value || !in_range(o, *value)) return false;
  o.member.of(c) = *value;
  return true;
}
template <class E>
[[nodiscard]] bool assign(const ChoiceOption<E>& o, Config& c, std::string_view text) {
  if constexpr (std::is_same_v<E, port::Offload>)  // true, false, 1 and 0, too
    if (const auto value = parse_bool(text)) text = *value ? "on" : "off";
  const auto choice = std::ranges::find(*o.choices, text, &Choice<E>::name);
  if (choice == o.choices->end()) return false;
  o.member.of(c) = choice->value;
  return true;
}
[[nodiscard]] bool assign(const TextOption& o, Config& c, std::string_view text) {
  if (!o.mistake_in(text).empty()) return false;
  o.member.of(c) = text;
  return true;
}
[[nodiscard]] bool assign(const ListOption& o, Config& c, std::string_view text) {
  auto value = parse_list(text);
  if (value) o.member.of(c) = std::move(*value);
  return value.has_value();
}

template <class T>
using Num = NumberOption<T>;
using U8 = NumberOption<std::uint8_t>;
using U16 = NumberOption<std::uint16_t>;
using U32 = NumberOption<std::uint32_t>;
using U64 = NumberOption<std::uint64_t>;

inline constexpr NumberStyle kSize = NumberStyle::size;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
inline constexpr Duration kSecond = std::chrono::seconds(1);

inline constexpr std::string_view kPlanes = "Planes and paths";
inline constexpr std::string_view kPackets = "Packets and sockets";
inline constexpr std::string_view kCongestion = "Congestion control";
inline constexpr std::string_view kReliability = "Reliability";
inline constexpr std::string_view kLimits = "Limits";
inline constexpr std::string_view kProgress = "Progress";
inline constexpr std::string_view kDiagnosis = "Diagnosis";
inline constexpr std::string_view kExpert = "For experts";

/// What is wrong with a value. Whether what it names exists and may be used, the device finds out.
[[nodiscard]] std::string mistake_in_fabric(std::string_view path) {
  const std::string name(path);
  if (name.empty() || ::access(name.c_str(), R_OK) == 0) return {};
  return "can't be read (" + std::generic_category().message(errno) +
         "), must be the path of a fabric description (docs/fabric.md)";
}
[[nodiscard]] std::string mistake_in_host(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_';
  };
  if (name.size() <= 32 && std::all_of(name.begin(), name.end(), fits)) return {};
  return "must be the name of a host: up to 32 letters, digits, '-' or '_'";
}
[[nodiscard]] std::string mistake_in_folder(std::string_view path) {
  return path.starts_with('/') ? std::string() : "must be the full path of a folder: /run/NAME";
}
[[nodiscard]] std::string mistake_in_control(std::string_view text) {
  if (text == "auto" || text == "off" || text.starts_with('/')) return {};
  return "must be auto, off, or the full path of a folder: /run/NAME";
}
[[nodiscard]] std::string mistake_in_cpus(std::string_view text) {
  if (text.empty() || parse_cpu_list(text)) return {};
  return "must be processor numbers and ranges below " + std::to_string(kMaxCpus) +
         ", separated by commas: 0,2,8-11";
}

[[nodiscard]] std::string mistake_in_verbs(std::string_view text) {
  const bool good = text.find_first_of(" \t/") == text.npos && !text.starts_with(',') &&
                    !text.ends_with(',') && text.find(",,") == text.npos;
  return good ? std::string() : "must be `all`, or devices separated by commas: mlx5_0,mlx5_1:1";
}

/// Nothing is known of it without the module: the device that is to inject them says so.
[[nodiscard]] std::string mistake_in_schedule(std::string_view text) {
  const auto check = detail::mistake_in_faults.load();
  return check == nullptr ? std::string() : check(text);
}
[[nodiscard]] std::string mistake_in_path(std::string_view text) {
  if (text.empty() || text.front() == '/') return {};
  return "must be an absolute path, such as /tmp/mrc_keys";
}

/// What parse(text) complains of, and what is allowed.
template <class Parse>
[[nodiscard]] std::string mistake_in_list(std::string_view text, std::string_view allowed,
                                          Parse&& parse) {
  try {
    parse(text);
    return {};
  } catch (const Error& error) {
    const std::string what = error.what();  // ends with the text of its code
    return "must be " + std::string(allowed) + " (" + what.substr(0, what.rfind(": ")) + ")";
  }
}

[[nodiscard]] std::string mistake_in_peers_allowed(std::string_view text) {
  return mistake_in_list(text, "networks separated by commas: 10.0.0.0/8,fd00::/16",
                         [](std::string_view t) { (void)AllowedPeers(t); });
}

[[nodiscard]] std::string mistake_in_peer_ports(std::string_view text) {
  return mistake_in_list(text, "NETWORK=PORT, separated by commas: 10.0.0.7=4971,fd00::/16=4971",
                         [](std::string_view t) { (void)PeerPorts(t); });
}

/// An option and what it points at.
struct OptionRow {
  std::string_view name;
  std::string_view group, unit;
  OptionKind kind;
  std::string_view doc;
};

inline constexpr auto kOptionRows = std::to_array<OptionRow>({
    {"planes", kPlanes, "",
     ListOption{&Config::planes,
                "1 .. 32 local IPv4 or IPv6 addresses or interface names, separated by commas; or "
                "loopback:N, loopback6:N or default-route"},
     "One plane per local address or interface. Packets leave by the interface that has the "
     "address, also if several are in one subnet; an address on `lo` or a dummy is reached, and "
     "left, over all links as routes say. `loopback:N` is 127.0.0.1 .. 127.0.0.N, `loopback6:N` is "
     "N planes on ::1, `default-route` is the address of the default route's interface, or "
     "127.0.0.1 without a default route. Programs that connect by GID have `default-route` as "
     "their default."},
    {"fabric", kPlanes, "",
     TextOption{&Config::fabric, &mistake_in_fabric,
                "the path of a fabric description (docs/fabric.md)"},
     "Packet ports in place of UDP sockets: planes, addresses and source routes are those of this "
     "description. Needs CAP_NET_RAW. Its traffic classes, link speed and base round trip become "
     "the defaults of those options."},
    {"host", kPlanes, "",
     TextOption{&Config::host, &mistake_in_host, "the name of a host in the description"},
     "Which host of the fabric this is. Empty: the one whose addresses this machine has."},
    {"verbs", kPlanes, "",
     TextOption{&Config::verbs, &mistake_in_verbs,
                "`all`, or RDMA devices separated by commas (docs/verbs_port.md)"},
     "Ports of RDMA devices (RoCE v2) in place of UDP sockets, one plane each, through libibverbs. "
     "`all` takes every active port that has a routable address. Both sides need it. Together with "
     "option fabric: the fabric's packets go through raw-packet queue pairs of these devices, one "
     "for each plane; `all` takes those of the planes' interfaces."},
    {"placement", kPlanes, "", BoolOption{&Config::placement},
     "On RDMA devices, let the receiver's device place the payload of writes by itself (UC), where "
     "both sides allow it and the memory's rights allow any order. It relies on a network that "
     "neither duplicates nor reorders the packets of a path; a peer whose paths do is moved to "
     "UD."},
    {"paths", kPlanes, "per plane", U16{&Config::paths, 1, 1024},
     "Paths over which packets are sprayed. Each has its own UDP source port and, on IPv6, flow "
     "label. In a source-routed fabric, its uplinks are the paths."},
    {"udp_port", kPlanes, "", U16{&Config::udp_port, 1, 65535},
     "UDP port that data and control packets are sent to. The process's slot is added to it, "
     "except with packet ports."},
    {"peer_ports", kPlanes, "",
     TextOption{
         &Config::peer_ports, &mistake_in_peer_ports,
         "NETWORK=PORT, separated by commas; a network is an address or one with a prefix length"},
     "UDP ports of peers that are known by GID and have another than udp_port, such as "
     "`10.0.0.7=4971,fd00::/16=4971`. The first network that contains the GID counts. The slot in "
     "a QPN is added only for OpenMRC peers."},
    {"peers_allowed", kPlanes, "",
     TextOption{&Config::peers_allowed, &mistake_in_peers_allowed,
                "networks separated by commas: 10.0.0.0/8,fd00::/16"},
     "Hosts that may connect, by the addresses of all their planes; empty: all. Others are not "
     "connected to, get no answer, and their datagrams are dropped and counted (peers_refused). In "
     "the NCCL plugin the addresses of its TCP connections count, too."},
    {"slot", kPlanes, "", Num<int>{&Config::slot, -1, 255},
     "Which of the processes of this host this is: the top 8 bits of its QPNs. -1 takes the first "
     "free one. Further lanes take the ones after it."},
    {"lock_folder", kPlanes, "",
     TextOption{&Config::lock_folder, &mistake_in_folder, "the full path of a folder"},
     "Where processes with packet ports, and mrc_probe, share out the slots of a host by locks. "
     "Alike for all of them; root's, or this user's."},
    {"active_paths", kPlanes, "per peer", U16{&Config::active_paths, 0, 32768},
     "Paths in use at a time; the rest are backups for paths that fail. 0 uses all, except the "
     "second EV that each route has in a fabric."},
    {"min_active_paths", kPlanes, "per peer", U16{&Config::min_active_paths, 1, 32768},
     "Paths that are never taken out of use together: a path that looks bad is only skipped once "
     "then."},

    {"mtu", kPackets, "bytes", U32{&Config::mtu, kSmallestMtu, kLargestMtu, NumberStyle::mtu},
     "Payload of a packet; of two sides that differ the smaller counts. Lowered when the "
     "interfaces can't carry it. MRC defines powers of two up to 4096; others are an extension "
     "between OpenMRC peers. With a peer that takes powers of two only, the one below counts. "
     "`auto`: on UDP planes what the interfaces carry, up to 32640 (8832 with an interface MTU of "
     "9000), but 4096 with other implementations and with `strict`; on other planes 4096."},
    {"icrc", kPackets, "", ChoiceOption<port::Offload>{&Config::icrc, &kOffloadChoices},
     "The invariant CRC. `on`: over header and payload of each packet. `auto`: as `on`, but "
     "between OpenMRC processes of one host, both with `auto`, data packets that stay on its "
     "loopback interface leave the payload out: their bytes never leave memory. Not with `strict`, "
     "`faults`, packet ports or RDMA devices. `off`: neither sent nor checked; both sides must "
     "agree. See docs/security.md."},
    {"receive_buffer", kPackets, "bytes per plane",
     U32{&Config::receive_buffer, 64 << 10, 1 << 30, kSize},
     "Socket buffer wanted for received packets. The kernel may grant less; what it grants bounds "
     "the peers' windows. Packet ports have a ring instead, of twice as much, at most 64 MiB, "
     "which each lane takes when the device opens and which can't be swapped out; each packet "
     "takes a slot of the size of the MTU."},
    {"send_buffer", kPackets, "bytes per path", U32{&Config::send_buffer, 64 << 10, 1 << 30, kSize},
     "Socket buffer wanted for sending; of packet ports, per plane."},
    {"gso", kPackets, "", ChoiceOption<port::Offload>{&Config::gso, &kOffloadChoices},
     "Let the kernel cut a burst into packets (UDP segmentation offload). `auto` uses it where it "
     "works."},
    {"gro", kPackets, "", ChoiceOption<port::Offload>{&Config::gro, &kOffloadChoices},
     "Let the kernel join received packets of a path (UDP receive offload). `auto` uses it where "
     "it works."},

    {"cc", kCongestion, "", ChoiceOption<cc::Algorithm>{&Config::cc, &kCcChoices},
     "Congestion control: `nscc` as in MRC, `fixed` for a window of cc_fixed_window, `none` for no "
     "limit but the peer's buffers."},
    {"cc_link_speed", kCongestion, "Gb/s", Num<double>{&Config::cc_link_speed, 0.001, 100000.0},
     "Speed of all planes together, from which nscc takes its largest window and its steps."},
    {"cc_base_rtt", kCongestion, "",
     Num<Duration>{&Config::cc_base_rtt, std::chrono::microseconds(1), kSecond},
     "Round trip of an idle network, hosts included. nscc takes no delay below it for congestion."},
    {"cc_target_delay", kCongestion, "",
     Num<Duration>{&Config::cc_target_delay, Duration{0}, kSecond},
     "Queueing delay that nscc aims at. 0 derives it from cc_base_rtt."},
    {"cc_fixed_window", kCongestion, "bytes per peer",
     U64{&Config::cc_fixed_window, 0, 4 * kGiB, kSize},
     "Window of `cc=fixed`. 0 takes 1.5 times cc_link_speed x cc_base_rtt."},

    {"mpr", kReliability, "128 packets", U8{&Config::mpr, 1, 255},
     "Packets in flight per queue pair as requester, in units of 128. The smaller of this and the "
     "peer's mpr_dest counts."},
    {"mpr_dest", kReliability, "128 packets", U8{&Config::mpr_dest, 1, 255},
     "Packets tracked per queue pair as responder, in units of 128."},
    {"max_wimm", kReliability, "messages", U16{&Config::max_wimm, 1, 32768},
     "Writes with immediate in flight per queue pair as requester. The smaller of this and the "
     "peer's max_wimm_dest counts."},
    {"max_wimm_dest", kReliability, "messages", U16{&Config::max_wimm_dest, 1, 32768},
     "Writes with immediate tracked per queue pair as responder."},
    {"max_rd_atomic", kReliability, "messages", U8{&Config::max_rd_atomic, 0, 128},
     "READs and atomics in flight per queue pair as requester. The smaller of this and the peer's "
     "max_rd_atomic_dest counts; 0 forbids them."},
    {"max_rd_atomic_dest", kReliability, "messages", U8{&Config::max_rd_atomic_dest, 0, 128},
     "READs and atomics tracked per queue pair as responder; 0 forbids them."},
    {"rnr_retry", kReliability, "waits", U8{&Config::rnr_retry, 0, 7},
     "How often a SEND or write with immediate waits for the peer to post a receive, before the "
     "queue pair fails. 7 waits for ever."},
    {"min_rnr_timer", kReliability, "", U8{&Config::min_rnr_timer, 0, 31},
     "How long a peer waits, each time, for a receive that is not posted here: 1 is 10 us, 8 is "
     "160 us, 12 is 640 us, 20 is 10.24 ms, 31 is 491.52 ms, 0 is 655.36 ms."},
    {"timeout", kReliability, "", U8{&Config::timeout, 0, 24},
     "Retransmission timeout T = 1.024 us x 2^timeout: 8 is 0.26 ms, 12 is 4.2 ms, 20 is 1.07 s."},
    {"retry_linear", kReliability, "timeouts", U8{&Config::retry_linear, 0, 7},
     "Timeouts of T without progress before the waits start to double."},
    {"retry_exponential", kReliability, "timeouts", U8{&Config::retry_exponential, 0, 25},
     "Doubling timeouts after that, before the queue pair fails. 25 retries for ever."},
    {"dynamic_mpr", kReliability, "", BoolOption{&Config::dynamic_mpr},
     "Let the responder change its window while it runs. Takes effect when both sides have it on."},
    {"trim", kReliability, "", ChoiceOption<port::Offload>{&Config::trim, &kOffloadChoices},
     "Ask for trimmed packets at once instead of waiting for the loss to be inferred, and tell "
     "peers so, who let switches trim then. `auto`: where ports see trimmed packets, which UDP "
     "sockets do not; `on`: everywhere, for injected faults."},
    {"peer", kReliability, "", ChoiceOption<PeerKind>{&Config::peer, &kPeerChoices},
     "What peers are that are known by GID and QPN only. `any`: asked in band, and after 2 s "
     "without an answer (or a fifth of connect_timeout) taken for another implementation of MRC "
     "until they do. `openmrc`: an error if they do not answer within connect_timeout. `mrc`: not "
     "asked."},
    {"connect_timeout", kReliability, "",
     Num<Duration>{&Config::connect_timeout, std::chrono::milliseconds(10), 3600 * kSecond},
     "How long what is posted waits for a peer that is known by GID and QPN only, and does not "
     "answer or is not connected to this side, before the queue pair fails. For as long again "
     "after it is found, timeouts use up no retries until its queue pair is heard."},
    {"strict", kReliability, "", BoolOption{&Config::strict},
     "Exactly MRC 1.0: this side neither offers nor uses OpenMRC's extensions, so peers see what "
     "another implementation sends. No SEND, READ, atomics and RNR, no verification tags, no "
     "solicited events, no messages to find a peer by GID, and an MTU that is a power of two up to "
     "4096. See docs/extensions.md."},

    {"max_qps", kLimits, "", U32{&Config::max_qps, 1, 65000}, "Queue pairs of a lane."},
    {"max_cqs", kLimits, "", U32{&Config::max_cqs, 1, 65000}, "Completion queues of the device."},
    {"max_srqs", kLimits, "", U32{&Config::max_srqs, 1, 65000},
     "Shared receive queues of each lane."},
    {"max_mrs", kLimits, "", U32{&Config::max_mrs, 1, 65536}, "Memory regions of the device."},
    {"max_pds", kLimits, "", U32{&Config::max_pds, 1, 65000}, "Protection domains of the device."},
    {"max_peers", kLimits, "", U32{&Config::max_peers, 1, 65000},
     "Remote devices of a lane. Queue pairs to the same one share paths and congestion control."},

    {"lanes", kProgress, "", U16{&Config::lanes, 0, kMaxLanes, NumberStyle::zero_is_auto},
     "Engines that work side by side, each with its own ports, lock, helper thread and slot; queue "
     "pairs are spread over them. More than one lets several threads of the application work at "
     "full speed. `auto`: as many as there are processors that the thread which opens the device "
     "may use."},
    {"helper", kProgress, "", BoolOption{&Config::helper},
     "Run a thread that makes progress while the application does not poll. Without it nothing "
     "moves between polls."},
    {"helper_cpus", kProgress, "",
     TextOption{&Config::helper_cpus, &mistake_in_cpus,
                "processor numbers and ranges, separated by commas, or empty"},
     "Processors on which the helper threads run: that of lane 0 on the first, and so on; from the "
     "start again if there are more lanes. Empty: wherever the thread that opens the device may."},

    {"faults", kDiagnosis, "",
     TextOption{&Config::faults, &mistake_in_schedule, "a schedule of faults"},
     "Faults to inject, such as `loss=0.001` or `plane=1,down@2s-4s`; several are separated by "
     "`;`."},
    {"seed", kDiagnosis, "", U64{&Config::seed, 0, ~std::uint64_t{0}},
     "Start of the random numbers for path choice and injected faults. 0 takes one from the "
     "system."},
    {"keylog", kDiagnosis, "",
     TextOption{&Config::keylog, &mistake_in_path, "an absolute path, or empty"},
     "File to which the verification tags of all connections are appended, so that the Wireshark "
     "dissector can check tagged packets. Who can read it can forge packets. Programs with special "
     "rights (capabilities, set-user-ID) ignore the variable."},
    {"log", kDiagnosis, "", ChoiceOption<LogLevel>{&Config::log, &kLogChoices},
     "Messages on standard error: none, warnings, or also what was found out when the device "
     "opened."},

    {"control", kDiagnosis, "",
     TextOption{&Config::control, &mistake_in_control, "auto, off or a folder's path"},
     "Folder of the control socket, through which mrc_ctl shows and steers the device; it is made "
     "if it does not exist. `auto`: `/run/openmrc`, which root makes; where that can't be used "
     "`$XDG_RUNTIME_DIR/openmrc`, or `/tmp/openmrc-UID`. Root and this user can connect. `off`: no "
     "socket, and no warnings of `stall_warning`. Programs with special rights ignore the "
     "variable. See docs/control.md."},
    {"stall_warning", kDiagnosis, "",
     Num<Duration>{&Config::stall_warning, Duration(0), 3600 * kSecond},
     "A queue pair with unfinished requests that has made no progress for that long is logged, "
     "with what it waits for. 0: never."},
    {"dump", kDiagnosis, "",
     TextOption{&Config::dump, &mistake_in_path, "an absolute path, or empty"},
     "File to which all that is known of the device is appended, a line of JSON, when it closes, "
     "when the process exits or dies by a signal, and when it gets SIGUSR2. `%h` and `%p` stand "
     "for host name and process id. Programs with special rights ignore the variable. See "
     "docs/control.md."},

    {"loss_strikes", kExpert, "packets", U8{&ExpertConfig::loss_strikes, 1, 255},
     "Inferred losses in a row, with no delivery between, after which a path is assumed bad."},
    {"probe_successes", kExpert, "probes", U8{&ExpertConfig::probe_successes, 1, 255},
     "Answered probes in a row after which a bad path is used again."},
    {"burst", kExpert, "packets", U16{&ExpertConfig::burst, 0, 64},
     "Packets sent on one path before the next is chosen. 0: as many as one system call can send. "
     "1: every packet on a new path."},
    {"receive_shares", kExpert, "peers", U16{&ExpertConfig::receive_shares, 1, 4096},
     "Peers that may send to this device at full speed at once: each is told that it may fill this "
     "part of the receive buffers."},
    {"rx_batch", kExpert, "datagrams", U16{&ExpertConfig::rx_batch, 1, 256},
     "Datagrams taken with one system call. Each needs a buffer of 64 KiB; with GRO each can bring "
     "up to 64 packets. Packet ports take four times as many."},
    {"sack_threshold", kExpert, "bytes", U32{&ExpertConfig::sack_threshold, 0, 16 << 20, kSize},
     "Received bytes after which a SACK is due; as many times more as packets are larger than "
     "4096. 0 answers every packet."},
    {"cc_receiver_penalty", kExpert, "", BoolOption{&ExpertConfig::cc_receiver_penalty},
     "Ask senders for smaller windows while more than three quarters of a plane's receive buffer "
     "are in use, up to half a window per round trip when it is full, and give the windows back "
     "afterwards. Where Dynamic MPR is on, it shrinks with it."},
    {"max_outstanding", kExpert, "packets", U32{&ExpertConfig::max_outstanding, 64, 16 << 20},
     "Packets in flight of all queue pairs of a lane together. Sending pauses when it is reached."},
    {"helper_takeover", kExpert, "",
     Num<Duration>{&ExpertConfig::helper_takeover, std::chrono::microseconds(1), 10 * kSecond},
     "How long the application must not have polled before the helper takes over; up to nine times "
     "that, or 1 ms more, after it has polled for long without a pause."},
    {"spin", kExpert, "", Num<Duration>{&ExpertConfig::spin, Duration{0}, kSecond},
     "How long wait() polls before it sleeps. 0 sleeps at once."},
    {"poll_ahead", kExpert, "",
     Num<Duration>{&ExpertConfig::poll_ahead, Duration{0}, std::chrono::milliseconds(1)},
     "How long a poll that found completions may stay to receive data, for programs that then "
     "watch memory and call nothing until it has come. It stays only while that paid off lately. "
     "0: never; the verbs shim's default is 50us."},
    {"dscp_no_trim", kExpert, "DSCP", U8{&ExpertConfig::dscp_no_trim, 0, 63},
     "Data that switches must not trim: the peer can't answer trimmed packets."},
    {"dscp_trimmable", kExpert, "DSCP", U8{&ExpertConfig::dscp_trimmable, 0, 63},
     "Data that switches may trim."},
    {"dscp_trimmable_retx", kExpert, "DSCP", U8{&ExpertConfig::dscp_trimmable_retx, 0, 63},
     "Retransmissions that switches may trim."},
    {"dscp_trimmed", kExpert, "DSCP", U8{&ExpertConfig::dscp_trimmed, 0, 63},
     "Set by a switch that has trimmed a packet."},
    {"dscp_trimmed_last_hop", kExpert, "DSCP", U8{&ExpertConfig::dscp_trimmed_last_hop, 0, 63},
     "Set by the switch before the destination when it has trimmed a packet."},
    {"dscp_control", kExpert, "DSCP", U8{&ExpertConfig::dscp_control, 0, 63},
     "SACKs, NACKs, ACKs and answers to probes."},
});

inline constexpr auto kOptions = [] {
  std::array<Option, kOptionRows.size()> options{};
  for (std::size_t i = 0; i < options.size(); ++i) {
    const OptionRow& row = kOptionRows[i];
    options[i] = {row.name, &row.kind, row.unit, row.group, row.doc};
  }
  return options;
}();

}  // namespace detail

std::span<const Option> options() noexcept {
  return detail::kOptions;
}

const Option* find_option(std::string_view name) noexcept {
  for (const Option& option : options()) {
    const auto same = [](char own, char given) { return own == (given == '-' ? '_' : given); };
    if (std::ranges::equal(option.name, name, same)) return &option;
  }
  return nullptr;
}

namespace detail {

/// Letters to insert, remove or replace to make `b` of `a` (Levenshtein).
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

/// The option whose name is closest to `name`, or nullptr when none is close.
[[nodiscard]] const Option* similar_option(std::string_view name) {
  const Option* best = nullptr;
  std::size_t best_distance = std::min<std::size_t>(3, name.size() / 2 + 1);
  for (const Option& option : options()) {
    const std::size_t distance = edit_distance(name.substr(0, 64), option.name);
    if (distance >= best_distance) continue;
    best = &option;
    best_distance = distance;
  }
  return best;
}

}  // namespace detail

const Option& require_option(std::string_view name) {
  if (const Option* option = find_option(name)) return *option;
  std::string text = "no option '" + std::string(name) + "'";
  if (const Option* similar = detail::similar_option(name))
    text += "; did you mean '" + std::string(similar->name) + "'?";
  else
    text += "; docs/configuration.md lists them";
  throw Error(Errc::invalid_argument, text);
}

std::string variable_name(const Option& option) {
  std::string name = "MRC_";
  for (const char c : option.name)
    name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::string allowed_text(const Option& option) {
  std::string text =
      detail::visit_kind([](const auto& o) { return detail::allowed_by(o); }, option.kind->value);
  if (!option.unit.empty()) text.append(" (").append(option.unit).append(")");
  return text;
}

std::string value_text(const Option& option, const Config& config) {
  return detail::visit_kind([&](const auto& o) { return detail::text_of(o, config); },
                            option.kind->value);
}

bool value_allowed(const Option& option, const Config& config) {
  return detail::visit_kind([&](const auto& o) { return detail::holds(o, config); },
                            option.kind->value);
}

Error not_allowed(const std::string& what, std::string_view value, const std::string& allowed) {
  return {Errc::invalid_argument,
          what + ": value '" + std::string(value) + "' is not allowed; allowed: " + allowed};
}

/// The error for a value that is not allowed for the option.
[[nodiscard]] Error value_error(const Option& option, std::string_view value,
                                const std::string& what) {
  if (const auto* text = std::get_if<detail::TextOption>(&option.kind->value))
    return {Errc::invalid_argument, what + ": value '" + std::string(value) + "' is not allowed; " +
                                        text->mistake_in(value)};
  return not_allowed(what, value, allowed_text(option));
}

/// Sets the option from text; false and no change when that is malformed or out of range.
[[nodiscard]] bool try_assign(const Option& option, Config& config, std::string_view text) {
  return detail::visit_kind([&](const auto& o) { return detail::assign(o, config, text); },
                            option.kind->value);
}

void assign_option(const Option& option, Config& config, std::string_view text,
                   const std::string& what) {
  if (!try_assign(option, config, text)) throw value_error(option, text, what);
}

namespace detail {

/// "MRC_CC_BASE_RTT" becomes "cc_base_rtt".
[[nodiscard]] std::string option_name(std::string_view variable) {
  std::string name;
  for (const char c : variable.substr(4))
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

bool reserved_variable(std::string_view name) noexcept {
  // The NCCL plugin reports those that it does not know itself. The last nine are of programs for
  // libMRC, the vendors' C API.
  constexpr std::array<std::string_view, 3> kPrefixes{"MRC_TEST_", "MRC_NCCL_", "MRC_VERBS_"};
  constexpr std::array<std::string_view, 13> kNames{
      "MRC_BUILD_DIR",       "MRC_FUZZ_SECONDS", "MRC_SOURCE_DIR", "MRC_UPDATE_DOCS",
      "MRC_LOG_LEVEL",       "MRC_H_PATH",       "MRC_LIB_DIR",    "MRC_LIB_PATH",
      "MRC_LIB_SO",          "MRC_HOME",         "MRC_LIBDIR",     "MRC_QP_EV_PROFILE_ID",
      "MRC_QP_CC_PROFILE_ID"};
  return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); }) ||
         std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

}  // namespace detail

std::string unknown_variables() {
  std::vector<std::string> names;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view name = *entry;
    name = name.substr(0, name.find('='));
    if (!name.starts_with("MRC_") || detail::reserved_variable(name)) continue;
    const bool known = std::any_of(options().begin(), options().end(), [&](const Option& option) {
      return variable_name(option) == name;
    });
    if (!known) names.insert(std::upper_bound(names.begin(), names.end(), name), std::string(name));
  }
  std::string text;
  for (const auto& name : names) {
    text += (text.empty() ? "unknown environment variables, ignored: " : ", ") + name;
    if (const Option* similar = detail::similar_option(detail::option_name(name)))
      text += " (did you mean " + variable_name(*similar) + "?)";
  }
  return text;
}

std::string unknown_variables_once() {
  static std::atomic<bool> reported{false};
  std::string text = unknown_variables();
  if (!text.empty() && reported.exchange(true)) text.clear();
  return text;
}

namespace detail {

/// True if the option's variable is set and gives the value that the option has in `config`.
[[nodiscard]] bool set_by_environment(const Option& option, const Config& config) {
  const char* text = std::getenv(variable_name(option).c_str());
  if (text == nullptr || *text == '\0') return false;
  Config same;
  return try_assign(option, same, text) && value_text(option, same) == value_text(option, config);
}

std::string setting_name(std::string_view name, const Config& config) {
  const Option& option = *find_option(name);
  std::string text = "option '" + std::string(name) + "'";
  if (!set_by_environment(option, config)) return text;
  return text + " (environment variable " + variable_name(option) + ")";
}

void throw_naming_variables(const Config& config, std::initializer_list<std::string_view> names,
                            const Error& error) {
  for (const std::errc lacks : {std::errc::too_many_files_open, std::errc::not_enough_memory,
                                std::errc::too_many_files_open_in_system})
    if (error.code() == lacks) throw;
  std::string note;
  for (const std::string_view name : names) {
    const Option& option = *find_option(name);
    if (set_by_environment(option, config))
      note += "; environment variable " + variable_name(option) + ": value '" +
              value_text(option, config) + "', allowed: " + allowed_text(option);
  }
  if (note.empty()) throw;
  std::string text = error.what();
  const std::string reason = ": " + error.code().message();  // std::system_error adds it again
  if (text.ends_with(reason)) text.resize(text.size() - reason.size());
  throw Error(error.code(), text + note);
}

/// The count of "loopback:N" (`prefix` "loopback:"), or nothing when `text` starts otherwise.
/// Throws when N is not 1 .. kMaxPlanes.
[[nodiscard]] std::optional<unsigned> loopback_count(const Config& c, std::string_view text,
                                                     std::string_view prefix) {
  if (!text.starts_with(prefix)) return std::nullopt;
  const auto count = parse_integer<unsigned>(text.substr(prefix.size()));
  if (!count || *count < 1 || *count > kMaxPlanes)
    throw not_allowed(setting_name("planes", c), text,
                      std::string(prefix) + "N with N from 1 to " + std::to_string(kMaxPlanes));
  return count;
}

void check_ports(const Config& c, const std::vector<std::string>& planes) {
  // Planes on one address use UDP ports 256 apart, which leaves room for the slots.
  std::size_t repeats = 0;
  for (const auto& plane : planes)
    repeats = std::max(
        repeats, static_cast<std::size_t>(std::count(planes.begin(), planes.end(), plane)) - 1);
  const std::size_t last =
      c.udp_port + static_cast<std::size_t>(std::max(c.slot, 0)) + repeats * 256;
  if (last <= 65535) return;
  const std::size_t added = last - c.udp_port;
  throw not_allowed(setting_name("udp_port", c), std::to_string(c.udp_port),
                    "up to " + std::to_string(65535 - added) + ", since " +
                        setting_name("slot", c) + " " + std::to_string(c.slot) + " and " +
                        setting_name("planes", c) + " add " + std::to_string(added) +
                        ", which leads to UDP port " + std::to_string(last));
}

void check_paths(const Config& c, std::size_t plane_count) {
  const std::size_t all = plane_count * c.paths;
  if (c.active_paths > all)
    throw not_allowed(setting_name("active_paths", c), std::to_string(c.active_paths),
                      "up to 'planes' x 'paths' = " + std::to_string(all));
  const std::size_t active = c.active_paths == 0 ? all : c.active_paths;
  if (c.min_active_paths > active)
    throw not_allowed(setting_name("min_active_paths", c), std::to_string(c.min_active_paths),
                      "up to the active paths, " + std::to_string(active));
}

/// A receiver recognises trimmed packets by their DSCP alone (mrc-1.0 §1.12), so no other class may
/// have the same value. The two trimmed classes may be equal: then every trim counts as made by a
/// switch before the last hop.
void check_classes(const Config& c) {
  using Class = std::pair<std::string_view, std::uint8_t>;
  for (const auto& [mark, mark_value] :
       {Class{"dscp_trimmed", c.expert.dscp_trimmed},
        Class{"dscp_trimmed_last_hop", c.expert.dscp_trimmed_last_hop}})
    for (const auto& [name, value] : {Class{"dscp_no_trim", c.expert.dscp_no_trim},
                                      Class{"dscp_trimmable", c.expert.dscp_trimmable},
                                      Class{"dscp_trimmable_retx", c.expert.dscp_trimmable_retx},
                                      Class{"dscp_control", c.expert.dscp_control}})
      if (mark_value == value)
        throw not_allowed(setting_name(mark, c), std::to_string(mark_value),
                          "another value than that of " + setting_name(name, c) +
                              ", or such packets would be taken for trimmed ones");
}

}  // namespace detail

std::vector<std::string> Config::plane_list() const {
  std::vector<std::string> list;
  for (const auto& text : planes) {
    if (const auto count = detail::loopback_count(*this, text, "loopback:")) {
      for (unsigned i = 1; i <= *count; ++i) list.push_back("127.0.0." + std::to_string(i));
    } else if (const auto count6 = detail::loopback_count(*this, text, "loopback6:")) {
      list.insert(list.end(), *count6, "::1");
    } else {
      if (text.empty() || std::count(planes.begin(), planes.end(), text) != 1)
        throw not_allowed(detail::setting_name("planes", *this), text,
                          "elements that are not empty and none more than once");
      list.push_back(text);
    }
  }
  if (list.empty() || list.size() > kMaxPlanes)
    throw not_allowed(detail::setting_name("planes", *this),
                      value_text(*find_option("planes"), *this),
                      "1 .. 32 planes, these are " + std::to_string(list.size()));
  return list;
}

void Config::validate() const {
  for (const Option& option : options())
    if (!value_allowed(option, *this))
      throw value_error(option, value_text(option, *this),
                        detail::setting_name(option.name, *this));
  if (strict && peer == PeerKind::openmrc)
    throw not_allowed(detail::setting_name("peer", *this), "openmrc",
                      "any or mrc, since " + detail::setting_name("strict", *this) +
                          " is on: OpenMRC's extensions, by which such a peer is known, are off");
  const auto list = plane_list();
  detail::check_ports(*this, list);
  detail::check_paths(*this, list.size());
  detail::check_classes(*this);
}

Config Config::from_environment(DefaultPlanes planes) {
  Config defaults;
  if (planes == DefaultPlanes::default_route) defaults.planes = {std::string(kDefaultRoute)};
  return from_environment(defaults);
}

Config Config::from_environment(const Config& defaults) {
  Config config = defaults;
  for (const Option& option : options()) {
    const std::string variable = variable_name(option);
    // What names a file or folder to write is not taken from users who lend this program their
    // environment and not their rights.
    const bool trusted =
        option.name == "keylog" || option.name == "control" || option.name == "dump";
    const char* value = trusted ? ::secure_getenv(variable.c_str()) : std::getenv(variable.c_str());
    if (value != nullptr && *value != '\0')
      assign_option(option, config, value, "environment variable " + variable);
  }
  config.validate();
  return config;
}

void Config::set(std::string_view name, std::string_view value) {
  const Option& option = require_option(name);
  assign_option(option, *this, value, "option '" + std::string(option.name) + "'");
}

std::string Config::get(std::string_view name) const {
  return value_text(require_option(name), *this);
}

void set_option(Config& config, std::string_view assignment) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos)
    throw Error(Errc::invalid_argument, "option '" + std::string(assignment) +
                                            "': no value; write " + std::string(assignment) +
                                            "=VALUE");
  config.set(assignment.substr(0, equals), assignment.substr(equals + 1));
}

PeerPorts::PeerPorts(std::string_view text) {
  if (text.empty()) return;
  for (std::size_t comma = 0; comma != std::string_view::npos;) {
    comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::size_t equals = item.find('=');
    std::uint16_t port = 0;
    const std::string_view digits =
        equals == std::string_view::npos ? std::string_view() : item.substr(equals + 1);
    const auto [end, failed] = std::from_chars(digits.begin(), digits.end(), port);
    if (failed != std::errc{} || end != digits.end() || port == 0)
      throw Error(Errc::invalid_argument,
                  "'" + std::string(item) + "': a UDP port, 1 to 65535, belongs behind '='");
    ports_.emplace_back(port::parse_network(item.substr(0, equals)), port);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
  }
}

int version() noexcept {
  return MRC_VERSION;
}
const char* version_string() noexcept {
  return MRC_VERSION_STRING;
}

}  // namespace mrc::inline v0_1
