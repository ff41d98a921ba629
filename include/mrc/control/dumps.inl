// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/dumps.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"

namespace mrc::inline v0_1::detail {

/// The signals of which dumps are left.
inline constexpr std::array kDumpSignals{
    std::pair(SIGUSR2, "SIGUSR2"), std::pair(SIGSEGV, "SIGSEGV"), std::pair(SIGBUS, "SIGBUS"),
    std::pair(SIGFPE, "SIGFPE"),   std::pair(SIGILL, "SIGILL"),   std::pair(SIGABRT, "SIGABRT"),
    std::pair(SIGTERM, "SIGTERM")};
/// Dumps of one signal that should end the process: a handler may survive it, again and again.
inline constexpr std::uint32_t kMostFatal = 3;

/// Of a process. It lives as long: a handler may be running in any thread.
struct DumpState {
  const ForkMark fork;
  const ::pid_t pid = ::getpid();
  std::mutex mutex;  ///< of sources and exited; held while dumps are made
  std::vector<DumpSource*> sources;
  bool exited = false;
  UniqueFd asked, ask;  ///< a pipe: numbers of signals
  std::atomic<::pid_t> thread{0};
  std::atomic<std::uint32_t> wanted{0}, made{0};  ///< signals that were noted, and served
  // By signal:
  std::array<struct sigaction, NSIG> earlier{};
  std::array<std::atomic<std::uint32_t>, NSIG> seen{};
  /// Ours is installed, or is called by one that was installed later: it must not be its own
  /// earlier one.
  std::array<bool, NSIG> installed{};
};
inline constinit std::atomic<DumpState*> dump_state{nullptr};

/// Wakes the thread; and waits for it, if the process is to end. Async-signal-safe.
inline void ask_for_dump(DumpState& state, int signal) noexcept {
  const auto number = static_cast<unsigned char>(signal);
  const bool fatal = signal != SIGUSR2;
  if (fatal && state.seen[number].fetch_add(1) >= kMostFatal) return;
  const std::uint32_t mine = state.wanted.fetch_add(1) + 1;
  if (::write(state.ask.fd(), &number, 1) != 1 || !fatal) return;
  const Time end = monotonic_now() + std::chrono::milliseconds(dump_patience.load());
  while (static_cast<std::int32_t>(state.made.load() - mine) < 0 && monotonic_now() < end)
    (void)::poll(nullptr, 0, 5);
}

/// Only what is async-signal-safe: a dump, and what would have been done without it.
extern "C" inline void openmrc_on_dump_signal(int signal, ::siginfo_t* info, void* context) {
  const int error = errno;
  DumpState& state = *dump_state.load(std::memory_order_acquire);
  const auto thread = static_cast<::pid_t>(::syscall(SYS_gettid));
  if (state.pid == ::getpid() && state.thread.load() != thread) ask_for_dump(state, signal);
  struct sigaction& kept = state.earlier[static_cast<std::size_t>(signal)];
  const struct sigaction earlier = kept;
  const auto flags = static_cast<unsigned>(earlier.sa_flags);
  if ((flags & SA_RESETHAND) != 0) {
    kept = {};
    kept.sa_handler = SIG_DFL;
  }
  if ((flags & SA_SIGINFO) != 0 && earlier.sa_sigaction != nullptr) {
    earlier.sa_sigaction(signal, info, context);
  } else if (earlier.sa_handler != SIG_DFL && earlier.sa_handler != SIG_IGN) {
    earlier.sa_handler(signal);
  } else if (earlier.sa_handler == SIG_DFL && signal != SIGUSR2) {
    (void)::sigaction(signal, &earlier, nullptr);
    (void)::syscall(SYS_tgkill, ::getpid(), thread, signal);  // once this handler returns
  }
  errno = error;
}

/// This process's; a forked child has one of its own, since locks may be held in its parent's.
[[nodiscard]] DumpState& state_of_dumps() {
  DumpState* state = dump_state.load(std::memory_order_acquire);
  if (state != nullptr && !state->fork.forked()) return *state;
  auto* fresh = new DumpState;
  if (state != nullptr) {
    fresh->earlier = state->earlier;
    fresh->installed = state->installed;
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) throw_errno("option dump: can't make a pipe");
  fresh->asked = UniqueFd(ends[0]);
  fresh->ask = UniqueFd(ends[1]);
  dump_state.store(fresh, std::memory_order_release);
  return *fresh;
}

void leave_dump(DumpSource& source, std::string_view why) noexcept try {
  const std::string text = source.dump(why) + "\n";
  const UniqueFd file =
      open_own_file(source.dump_file().c_str(), O_WRONLY | O_APPEND | O_CREAT, 0600);
  std::size_t written = 0;
  while (file.open() && written < text.size()) {
    const ::ssize_t n = ::write(file.fd(), text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    written += static_cast<std::size_t>(n);
  }
} catch (const std::exception&) {  // out of memory: there is nothing to be done about it
}

void serve_dumps(DumpState& state) noexcept {
  state.thread = static_cast<::pid_t>(::syscall(SYS_gettid));
  while (true) {
    ::pollfd asked{state.asked.fd(), POLLIN, 0};
    (void)::poll(&asked, 1, 2000);
    unsigned char number = 0;
    const bool told = ::read(state.asked.fd(), &number, 1) == 1;
    const auto signal = std::find_if(kDumpSignals.begin(), kDumpSignals.end(),
                                     [&](const auto& entry) { return entry.first == number; });
    const std::lock_guard lock(state.mutex);
    if (signal != kDumpSignals.end())
      for (DumpSource* source : state.sources) leave_dump(*source, signal->second);
    if (told) ++state.made;  // before locks are waited for that a thread may have died with
    for (DumpSource* source : state.sources) source->look();
  }
}

/// Not std::timed_mutex, whose calls thread sanitizers do not know.
[[nodiscard]] std::unique_lock<std::mutex> lock_within(std::mutex& mutex, Duration patience) {
  std::unique_lock lock(mutex, std::try_to_lock);
  for (const Time end = monotonic_now() + patience; !lock.owns_lock() && monotonic_now() < end;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    (void)lock.try_lock();
  }
  return lock;
}

void leave_dumps_at_exit() {
  DumpState* state = dump_state.load(std::memory_order_acquire);
  if (state == nullptr || state->fork.forked()) return;
  // The thread may be held up by one that has died.
  const std::unique_lock lock =
      lock_within(state->mutex, std::chrono::milliseconds(dump_patience.load()));
  if (!lock.owns_lock()) return;
  for (DumpSource* source : state->sources) leave_dump(*source, "exit");
  state->exited = true;
}

void install_dump_handlers(DumpState& state) {
  for (const auto& [signal, name] : kDumpSignals) {
    bool& installed = state.installed[static_cast<std::size_t>(signal)];
    struct sigaction earlier {};
    (void)::sigaction(signal, nullptr, &earlier);
    if (installed || (earlier.sa_handler == SIG_IGN && signal != SIGUSR2)) continue;
    state.earlier[static_cast<std::size_t>(signal)] = earlier;
    struct sigaction own {};
    own.sa_sigaction = &openmrc_on_dump_signal;
    own.sa_mask = earlier.sa_mask;
    own.sa_flags = SA_SIGINFO | SA_ONSTACK | (earlier.sa_flags & SA_NODEFER);
    if (earlier.sa_handler == SIG_DFL || (earlier.sa_flags & SA_RESTART) != 0)
      own.sa_flags |= SA_RESTART;
    installed = ::sigaction(signal, &own, nullptr) == 0;
  }
}

/// Those that the program has replaced stay: they may be called by what has replaced them.
void remove_dump_handlers(DumpState& state) noexcept {
  for (const auto& [signal, name] : kDumpSignals) {
    bool& installed = state.installed[static_cast<std::size_t>(signal)];
    struct sigaction now {};
    (void)::sigaction(signal, nullptr, &now);
    if (installed && now.sa_sigaction == &openmrc_on_dump_signal)
      installed =
          ::sigaction(signal, &state.earlier[static_cast<std::size_t>(signal)], nullptr) != 0;
  }
}

void add_dump_source(DumpSource& source) {
  static std::mutex adding;  // of threads that open the first device at the same time
  const std::unique_lock one = lock_within(adding, std::chrono::seconds(1));  // or of a parent
  DumpState& state = state_of_dumps();
  if (state.thread == 0) {
    const BlockedSignals inherited;  // the program's handlers run in threads of the program
    std::thread([&state] { serve_dumps(state); }).detach();
    while (state.thread == 0) std::this_thread::yield();
  }
  static const int at_exit = std::atexit(&leave_dumps_at_exit);
  (void)at_exit;
  const std::lock_guard lock(state.mutex);
  state.sources.push_back(&source);
  if (state.sources.size() == 1) install_dump_handlers(state);
}

bool remove_dump_source(DumpSource& source) noexcept {
  DumpState& state = *dump_state.load(std::memory_order_acquire);
  const std::lock_guard lock(state.mutex);
  std::erase(state.sources, &source);
  if (state.sources.empty()) remove_dump_handlers(state);
  return !state.exited;
}

void check_dump_file(const std::string& file) {
  constexpr int kHow = O_WRONLY | O_APPEND;
  UniqueFd there = open_own_file(file.c_str(), kHow, 0);
  if (there.open() || errno == ENXIO) return;  // a pipe may have no reader
  const bool missing = errno == ENOENT;
  if (missing) there = open_own_file(file.c_str(), kHow | O_CREAT | O_EXCL, 0600);
  if (!there.open()) throw_errno("option dump: cannot append to " + file + kOwnFileRemedy);
  (void)::unlink(file.c_str());
}

namespace profile_text {

using Json = nlohmann::json;

inline constexpr const char* kStates[] = {"INIT", "OFFLINE", "ONLINE"};
inline constexpr std::pair<EvProfileMode, const char*> kModes[] = {
    {EvProfileMode::automatic, "AUTO"},
    {EvProfileMode::explicit_, "EXPLICIT"},
    {EvProfileMode::generated, "GENERATED"}};
inline constexpr std::pair<path::EvMode, const char*> kFormats[] = {
    {path::EvMode::stev, "STEV"}, {path::EvMode::srv6, "SRV6"}, {path::EvMode::udp, "UDP"}};
/// Elements of one list.
inline constexpr std::size_t kMost = 1 << 16;

/// The members of a CC profile's configuration, each with f(name, member).
template <class Config, class F>
void each_parameter(Config& c, F&& f) {
  f("disable_qa", c.disable_qa);
  f("adjust_bytes_threshold", c.adjust_bytes_threshold);
  f("adjust_period_threshold_ns", c.adjust_period_threshold);
  f("base_rtt_ns", c.base_rtt);
  f("eta", c.eta);
  f("fi", c.fi);
  f("fi_scale", c.fi_scale);
  f("gamma", c.gamma);
  f("max_md_jump", c.max_md_jump);
  f("max_cwnd", c.max_cwnd);
  f("qa_gate", c.qa_gate);
  f("qa_threshold_ns", c.qa_threshold);
  f("target_delay_ns", c.target_delay);
}

template <class Value, std::size_t N>
[[nodiscard]] const char* name_of(const std::pair<Value, const char*> (&names)[N], Value value) {
  for (const auto& [known, name] : names)
    if (known == value) return name;
  return "unknown";
}

/// A profile, or a part of one, that is read.
class Reader {
 public:
  Reader(const Json& json, std::string of) : json_(json), of_(std::move(of)) {
    if (!json_.is_object()) fail("it must be an object");
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Errc::invalid_argument, of_ + ": " + what);
  }
  void only(std::initializer_list<std::string_view> known) const {
    for (const auto& [name, value] : json_.items())
      if (std::find(known.begin(), known.end(), name) == known.end())
        fail("there is no field '" + name.substr(0, 64) + "'");
  }
  [[nodiscard]] const Json* find(const char* name) const {
    const auto at = json_.find(name);
    return at == json_.end() ? nullptr : &*at;
  }
  [[nodiscard]] std::optional<std::uint64_t> number(
      const char* name, std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) const {
    const Json* field = find(name);
    if (field == nullptr) return std::nullopt;
    if (!field->is_number_unsigned() || field->get<std::uint64_t>() > most)
      fail(std::string("field ") + name + " must be a whole number up to " + std::to_string(most));
    return field->get<std::uint64_t>();
  }
  [[nodiscard]] bool yes_or_no(const char* name) const {
    const Json* field = find(name);
    if (field == nullptr) return false;
    if (!field->is_boolean()) fail(std::string("field ") + name + " must be true or false");
    return field->get<bool>();
  }
  /// One of some words: its position.
  [[nodiscard]] std::optional<std::size_t> word(const char* name,
                                                std::initializer_list<const char*> words) const {
    const Json* field = find(name);
    if (field == nullptr) return std::nullopt;
    std::string known;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (*field == words.begin()[i]) return i;
      known += (i == 0 ? "" : ", ") + std::string(words.begin()[i]);
    }
    fail(std::string("field ") + name + " must be one of " + known);
  }
  /// Calls f(element) for each of a list, which may be missing.
  template <class F>
  void each(const char* name, F&& f) const {
    const Json* field = find(name);
    if (field == nullptr) return;
    if (!field->is_array() || field->size() > kMost)
      fail(std::string("field ") + name + " must be a list of up to " + std::to_string(kMost) +
           " elements");
    for (const Json& element : *field) f(element);
  }
  [[nodiscard]] std::string text(const char* name) const {
    const Json* field = find(name);
    if (field == nullptr || !field->is_string())
      fail(std::string("field ") + name + " must be text");
    return field->get<std::string>();
  }
  [[nodiscard]] const std::string& of() const noexcept { return of_; }

 private:
  const Json& json_;
  std::string of_;
};

template <class Value, std::size_t N>
[[nodiscard]] std::optional<Value> named(const Reader& r, const char* field,
                                         const std::pair<Value, const char*> (&names)[N]) {
  static_assert(N == 3);
  const auto at = r.word(field, {names[0].second, names[1].second, names[2].second});
  return at ? std::optional(names[*at].first) : std::nullopt;
}

[[nodiscard]] ProfileState state_of(const Reader& r) {
  const auto at = r.word("state", {kStates[1], kStates[2]});
  if (!at) r.fail("field state is missing");
  return static_cast<ProfileState>(*at + 1);
}

template <class T>
[[nodiscard]] std::optional<T> narrow(const std::optional<std::uint64_t>& number) {
  return number ? std::optional(static_cast<T>(*number)) : std::nullopt;
}

[[nodiscard]] ProfileSet::Format format_from(const Reader& r) {
  r.only({"id", "state", "mode", "fields"});
  ProfileSet::Format profile;
  profile.state = state_of(r);
  profile.mode = named(r, "mode", kFormats);
  if (r.find("fields") == nullptr) return profile;
  profile.fields.emplace();
  r.each("fields", [&](const Json& width) {
    if (!width.is_number_unsigned() || width.get<std::uint64_t>() > path::kEvBits)
      r.fail("field fields must be a list of widths, each up to 256 bits");
    profile.fields->push_back({width.get<std::uint16_t>()});
  });
  return profile;
}

[[nodiscard]] ProfileSet::Evs evs_from(const Reader& r) {
  r.only(
      {"id", "state", "mode", "format", "ev_count", "min_active", "event_mask", "fields", "evs"});
  constexpr std::uint64_t k32 = std::numeric_limits<std::uint32_t>::max();
  ProfileSet::Evs profile;
  profile.state = state_of(r);
  profile.mode = named(r, "mode", kModes);
  profile.format = r.number("format");
  profile.ev_count = narrow<std::uint32_t>(r.number("ev_count", k32));
  profile.min_active = narrow<std::uint32_t>(r.number("min_active", k32));
  profile.event_mask = narrow<std::uint32_t>(r.number("event_mask", k32));
  r.each("fields", [&](const Json& element) {
    const Reader f(element, r.of() + ", an element of fields");
    f.only({"width", "init", "min", "max", "mask"});
    profile.fields.push_back({static_cast<std::uint16_t>(f.number("width", 64).value_or(0)),
                              f.number("init").value_or(0), f.number("min").value_or(0),
                              f.number("max").value_or(0), f.number("mask").value_or(0)});
  });
  r.each("evs", [&](const Json& element) {
    const Reader e(element, r.of() + ", an element of evs");
    e.only({"ev", "port", "denied", "writes"});
    ProfileSet::Entry entry;
    try {
      entry.ev.value = ev_from_text(e.text("ev"));
    } catch (const Error& error) {
      r.fail(words_of(error));
    }
    entry.ev.port = static_cast<std::uint8_t>(e.number("port", kMaxPlanes).value_or(0));
    entry.denied = e.yes_or_no("denied");
    entry.writes = narrow<std::uint32_t>(e.number("writes", k32)).value_or(0);
    profile.entries.push_back(entry);
  });
  return profile;
}

inline void put(const Reader& r, const char* name, std::optional<bool>& to) {
  if (r.find(name) != nullptr) to = r.yes_or_no(name);
}
template <class T>
void put(const Reader& r, const char* name, std::optional<T>& to) {
  to = narrow<T>(r.number(name, std::numeric_limits<T>::max()));
}
inline void put(const Reader& r, const char* name, std::optional<Duration>& to) {
  constexpr auto kMostNs = static_cast<std::uint64_t>(Duration::max().count());
  if (const auto ns = r.number(name, kMostNs)) to = Duration(static_cast<Duration::rep>(*ns));
}
inline void put(const Reader& r, const char* name, std::optional<double>& to) {
  const Json* field = r.find(name);
  if (field == nullptr) return;
  if (!field->is_number()) r.fail(std::string("field ") + name + " must be a number");
  to = field->get<double>();
}

[[nodiscard]] ProfileSet::Cc cc_from(const Reader& r) {
  r.only({"id", "state", "algorithm", "config"});
  ProfileSet::Cc profile;
  profile.state = state_of(r);
  if (r.find("algorithm") != nullptr) {
    profile.algorithm = cc::parse_algorithm(r.text("algorithm"));
    if (!profile.algorithm) r.fail("field algorithm must be one of none, fixed, uet-1.0-nscc");
  }
  if (const Json* given = r.find("config")) {
    const Reader c(*given, r.of() + ", config");
    c.only({"disable_qa", "adjust_bytes_threshold", "adjust_period_threshold_ns", "base_rtt_ns",
            "eta", "fi", "fi_scale", "gamma", "max_md_jump", "max_cwnd", "qa_gate",
            "qa_threshold_ns", "target_delay_ns"});
    profile.config.emplace();
    each_parameter(*profile.config, [&](const char* name, auto& member) { put(c, name, member); });
  }
  return profile;
}

/// The profiles of a list, by number.
template <class Profile>
[[nodiscard]] std::map<ProfileId, Profile> read_all(const Reader& set, const char* list,
                                                    const char* kind,
                                                    Profile (*read)(const Reader&)) {
  std::map<ProfileId, Profile> all;
  set.each(list, [&](const Json& element) {
    const auto id = Reader(element, std::string("an element of ") + list).number("id");
    if (!id || *id == 0) set.fail(std::string("an element of ") + list + " has no id from 1 on");
    const Reader r(element, std::string(kind) + " profile " + std::to_string(*id));
    if (!all.emplace(*id, read(r)).second) r.fail("it is there twice");
  });
  return all;
}

template <class Profile>
[[nodiscard]] Json start_of(ProfileId id, const Profile& profile) {
  return {{"id", id}, {"state", kStates[static_cast<unsigned>(profile.state) % 3]}};
}
template <class T>
void set_field(Json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}
inline void set_field(Json& json, const char* name, const std::optional<Duration>& value) {
  if (value) json[name] = value->count();
}

}  // namespace profile_text

std::string to_text(const path::EvValue& value) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : value) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  const std::size_t last = text.find_last_not_of('0');
  return last == std::string::npos ? "0" : text.substr(0, last + 1);
}

path::EvValue ev_from_text(std::string_view text) {
  path::EvValue value{};
  if (text.empty() || text.size() > 2 * value.size())
    throw Error(Errc::invalid_argument, "an EV has 1 to 64 hexadecimal digits");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) throw Error(Errc::invalid_argument, "an EV has 1 to 64 hexadecimal digits");
    value[i / 2] = static_cast<std::uint8_t>(value[i / 2] | digit << (i % 2 == 0 ? 4 : 0));
  }
  return value;
}

nlohmann::json to_json(const ProfileSet& set) {
  using namespace profile_text;
  Json formats = Json::array(), evs = Json::array(), ccs = Json::array();
  for (const auto& [id, profile] : set.formats) {
    Json json = start_of(id, profile);
    if (profile.mode) json["mode"] = name_of(kFormats, *profile.mode);
    if (profile.fields) {
      json["fields"] = Json::array();
      for (const path::FormatField& field : *profile.fields) json["fields"].push_back(field.width);
    }
    formats.push_back(std::move(json));
  }
  for (const auto& [id, profile] : set.evs) {
    Json json = start_of(id, profile);
    if (profile.mode) json["mode"] = name_of(kModes, *profile.mode);
    set_field(json, "format", profile.format);
    set_field(json, "ev_count", profile.ev_count);
    set_field(json, "min_active", profile.min_active);
    set_field(json, "event_mask", profile.event_mask);
    for (const path::EvField& f : profile.fields)
      json["fields"].push_back({{"width", f.width},
                                {"init", f.init_val},
                                {"min", f.min_val},
                                {"max", f.max_val},
                                {"mask", f.mask}});
    for (const ProfileSet::Entry& entry : profile.entries) {
      Json one{{"ev", to_text(entry.ev.value)}, {"port", entry.ev.port}};
      if (entry.denied) one["denied"] = true;
      if (entry.writes != 0) one["writes"] = entry.writes;
      json["evs"].push_back(std::move(one));
    }
    evs.push_back(std::move(json));
  }
  for (const auto& [id, profile] : set.ccs) {
    Json json = start_of(id, profile);
    if (profile.algorithm) json["algorithm"] = cc::to_string(*profile.algorithm);
    if (profile.config) {
      json["config"] = Json::object();
      each_parameter(*profile.config, [&](const char* name, const auto& member) {
        set_field(json["config"], name, member);
      });
    }
    ccs.push_back(std::move(json));
  }
  return {{"format_profiles", std::move(formats)},
          {"ev_profiles", std::move(evs)},
          {"cc_profiles", std::move(ccs)}};
}

ProfileSet profiles_from_json(const nlohmann::json& json) {
  using namespace profile_text;
  const Reader r(json, "profiles");
  r.only({"format_profiles", "ev_profiles", "cc_profiles"});
  ProfileSet set;
  set.formats = read_all(r, "format_profiles", "format", &format_from);
  set.evs = read_all(r, "ev_profiles", "EV", &evs_from);
  set.ccs = read_all(r, "cc_profiles", "CC", &cc_from);
  return set;
}

/// A whole number up to `most`; nothing if the field is missing.
[[nodiscard]] std::optional<std::uint32_t> whole_number(const nlohmann::json& json,
                                                        const char* name, std::uint32_t most) {
  const auto field = json.find(name);
  if (field == json.end()) return std::nullopt;
  if (!field->is_number_unsigned() || field->get<std::uint64_t>() > most)
    throw Error(
        Errc::invalid_argument,
        std::string("field ") + name + " must be a whole number up to " + std::to_string(most));
  return field->get<std::uint32_t>();
}

/// An array of up to kMostDenied elements; null if the field is missing.
[[nodiscard]] const nlohmann::json* array_of(const nlohmann::json& json, const char* name) {
  const auto field = json.find(name);
  if (field == json.end()) return nullptr;
  if (!field->is_array() || field->size() > kMostDenied)
    throw Error(Errc::invalid_argument, std::string("field ") + name + " must be a list of up to " +
                                            std::to_string(kMostDenied) + " elements");
  return &*field;
}

nlohmann::json to_json(const DeniedPaths& denied) {
  nlohmann::json json{{"plane", denied.plane}};
  if (denied.ev) json["ev"] = value(*denied.ev);
  if (denied.t0) json["t0"] = *denied.t0;
  if (denied.t1) json["t1"] = *denied.t1;
  if (!denied.host.empty()) json["host"] = denied.host;
  return json;
}

DeniedPaths denied_from_json(const nlohmann::json& json) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::uint16_t>::max();
  if (!json.is_object())
    throw Error(Errc::invalid_argument, "denied paths are an object with the field plane");
  DeniedPaths denied;
  const auto plane = whole_number(json, "plane", kMaxPlanes - 1);
  if (!plane) throw Error(Errc::invalid_argument, "field plane is missing");
  denied.plane = static_cast<Plane>(*plane);
  if (const auto ev = whole_number(json, "ev", UINT32_MAX)) denied.ev = Ev{*ev};
  if (const auto t0 = whole_number(json, "t0", kMost)) denied.t0 = *t0;
  if (const auto t1 = whole_number(json, "t1", kMost)) denied.t1 = *t1;
  if (const auto host = json.find("host"); host != json.end()) {
    if (!host->is_string() || host->get_ref<const std::string&>().empty() ||
        host->get_ref<const std::string&>().size() > 64)
      throw Error(Errc::invalid_argument, "field host must be the name of a host");
    denied.host = host->get<std::string>();
  }
  const bool part = denied.t0 || denied.t1 || !denied.host.empty();
  if ((denied.ev && part) || (denied.t1 && !denied.host.empty()))
    throw Error(Errc::invalid_argument,
                "field ev stands alone, and field host alone or with t0, the switch it is at");
  return denied;
}

std::vector<DeniedPaths> denied_list(const nlohmann::json& json, const char* field) {
  std::vector<DeniedPaths> denied;
  if (const nlohmann::json* list = array_of(json, field))
    for (const nlohmann::json& one : *list) denied.push_back(denied_from_json(one));
  return denied;
}

nlohmann::json to_json(const SteeringRules& rules) {
  nlohmann::json planes = nlohmann::json::array(), denied = nlohmann::json::array();
  for (unsigned i = 0; i < kMaxPlanes; ++i)
    if ((rules.planes_down >> i & 1) != 0) planes.push_back(i);
  for (const DeniedPaths& one : rules.denied) denied.push_back(to_json(one));
  return {{"planes_down", std::move(planes)}, {"denied", std::move(denied)}};
}

SteeringRules rules_from_json(const nlohmann::json& json) {
  if (!json.is_object()) throw Error(Errc::invalid_argument, "rules are an object");
  SteeringRules rules;
  if (const nlohmann::json* planes = array_of(json, "planes_down"))
    for (const nlohmann::json& plane : *planes) {
      if (!plane.is_number_unsigned() || plane.get<std::uint64_t>() >= kMaxPlanes)
        throw Error(Errc::invalid_argument, "field planes_down must be a list of planes");
      rules.planes_down |= plane_bit(plane.get<Plane>());
    }
  rules.denied = denied_list(json, "denied");
  return rules;
}

}  // namespace mrc::inline v0_1::detail
