// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/sim/faults.hpp"

#include <array>
#include <charconv>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>

#include "mrc/core/random.hpp"
#include "mrc/core/value_text.hpp"

namespace mrc::inline v0_1::sim {

namespace detail {

inline constexpr std::array kFaultKinds{FaultKind::down, FaultKind::up,   FaultKind::black_hole,
                                        FaultKind::heal, FaultKind::loss, FaultKind::corruption,
                                        FaultKind::slow, FaultKind::kill};

struct TimeUnit {
  std::string_view name;
  std::int64_t ns;
};
inline constexpr std::array<TimeUnit, 4> kTimeUnits{
    {{"s", 1'000'000'000}, {"ms", 1'000'000}, {"us", 1'000}, {"ns", 1}}};

/// The end of a fault; empty for kinds that have none.
[[nodiscard]] inline std::optional<Fault> end_of(const Fault& fault, Duration span) {
  switch (fault.kind) {
    case FaultKind::down:
      return Fault{fault.at + span, FaultKind::up, fault.target, 0};
    case FaultKind::black_hole:
      return Fault{fault.at + span, FaultKind::heal, fault.target, 0};
    case FaultKind::loss:
    case FaultKind::corruption:
      return Fault{fault.at + span, fault.kind, fault.target, 0};
    case FaultKind::slow:
      return Fault{fault.at + span, fault.kind, fault.target, 1};
    default:
      return std::nullopt;
  }
}

[[noreturn]] inline void bad_fault(const std::string& what) {
  throw Error(Errc::invalid_argument, "faults: " + what);
}

/// The words of one entry; errors name the wrong word.
class FaultEntry {
 public:
  FaultEntry(std::string_view entry, unsigned number) : number_(number) {
    while (!entry.empty()) {
      const std::size_t begin = entry.find_first_not_of(kSpace);
      if (begin == std::string_view::npos) break;
      entry.remove_prefix(begin);
      const std::size_t end = std::min(entry.find_first_of(kSpace), entry.size());
      words_.push_back(entry.substr(0, end));
      entry.remove_prefix(end);
    }
  }
  [[nodiscard]] bool more() const noexcept { return next_ < words_.size(); }

  std::string_view word(const char* wanted) {
    if (!more()) bad_fault(where() + "ends where " + wanted + " should follow");
    return words_[next_++];
  }
  Duration span(const char* wanted) {
    const std::string_view text = word(wanted);
    double v = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const TimeUnit& u : kTimeUnits) {
      const double ns = v * static_cast<double>(u.ns) + 0.5;
      if (error == std::errc{} && unit == u.name && v >= 0 && ns < 1e18)
        return Duration{static_cast<std::int64_t>(ns)};
    }
    fail(text, std::string(wanted) + ", such as 20us (units ns, us, ms, s)");
  }
  double number(const char* wanted) {
    const std::string_view text = word(wanted);
    double v = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc{} || end != text.data() + text.size()) fail(text, wanted);
    return v;
  }
  [[noreturn]] void fail(std::string_view word, const std::string& wanted) const {
    bad_fault(where() + "'" + std::string(word) + "' should be " + wanted);
  }
  [[nodiscard]] std::string where() const { return "entry " + std::to_string(number_) + " "; }

 private:
  static constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> words_;
  std::size_t next_ = 0;
  unsigned number_;
};

inline void parse_fault(FaultEntry& e, FaultSchedule& schedule) {
  const Time at{e.span("a time")};
  const std::string_view word = e.word("a kind of fault");
  if (word == "flap") {
    const std::string target{e.word("a target")};
    const Time until{e.span("the time when it ends")};
    const Duration period = e.span("its period");
    return schedule.flap(target, at, until, period, e.span("the span that it is down"));
  }
  const auto kind = std::find_if(kFaultKinds.begin(), kFaultKinds.end(),
                                 [word](FaultKind k) { return word == to_string(k); });
  if (kind == kFaultKinds.end()) {
    std::string all = "flap";
    for (const FaultKind k : kFaultKinds) all += std::string(", ") + to_string(k);
    e.fail(word, "one of " + all);
  }
  Fault fault{at, *kind, std::string(e.word("a target")), 0};
  if (has_value(fault.kind)) fault.value = e.number("a number");
  if (!e.more()) return schedule.add(std::move(fault));
  if (const std::string_view extra = e.word("for"); extra != "for")
    e.fail(extra, "'for' and a span, or the entry's end");
  schedule.add_for(fault, e.span("a span"));
}

}  // namespace detail

std::string time_text(Duration t) {
  for (const detail::TimeUnit& u : detail::kTimeUnits)
    if (t.count() % u.ns == 0 && t.count() != 0)
      return std::to_string(t.count() / u.ns) + std::string(u.name);
  return "0ns";
}

std::string to_string(const Fault& f) {
  std::string text = time_text(f.at.time_since_epoch()) + " " + to_string(f.kind) + " " + f.target;
  if (has_value(f.kind)) text += " " + format_real(f.value);
  return text;
}

void FaultSchedule::add(Fault fault) {
  fault.target = canonical_name(fault.target);  // both names of a switch are one target
  const double v = fault.value;
  const bool rate = fault.kind == FaultKind::loss || fault.kind == FaultKind::corruption;
  if (rate && !(v >= 0 && v <= 1))
    detail::bad_fault("'" + to_string(fault) + "': the probability must be 0 to 1");
  if (fault.kind == FaultKind::slow && !(v >= 1 && v <= 1e6))
    detail::bad_fault("'" + to_string(fault) + "': the factor must be 1 to 1000000");
  const auto later = std::upper_bound(faults_.begin(), faults_.end(), fault.at,
                                      [](Time at, const Fault& f) { return at < f.at; });
  faults_.insert(later, std::move(fault));
}

void FaultSchedule::add_for(const Fault& fault, Duration span) {
  const auto end = detail::end_of(fault, span);
  if (!end) detail::bad_fault("'" + to_string(fault) + "' can't be for a span: it has no end");
  if (span <= Duration::zero()) detail::bad_fault("'" + to_string(fault) + "' is for no time");
  add(fault);
  add(*end);
}

void FaultSchedule::flap(const std::string& target, Time from, Time until, Duration period,
                         Duration down_time) {
  if (!(down_time > Duration::zero() && down_time < period && from < until))
    detail::bad_fault("flap of '" + target + "' from " + time_text(from.time_since_epoch()) +
                      " until " + time_text(until.time_since_epoch()) + ", every " +
                      time_text(period) + " for " + time_text(down_time) +
                      ": it must be down for less than its period, and end after its begin");
  for (Time at = from; at < until; at += period)
    add_for({at, FaultKind::down, target, 0}, std::min(down_time, until - at));
}

FaultSchedule FaultSchedule::parse(std::string_view text) {
  FaultSchedule schedule;
  unsigned number = 0;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    while (!line.empty()) {
      const std::string_view part = line.substr(0, line.find(';'));
      line.remove_prefix(std::min(part.size() + 1, line.size()));
      detail::FaultEntry entry(part, number + 1);
      if (!entry.more()) continue;
      ++number;
      detail::parse_fault(entry, schedule);
      if (entry.more()) entry.fail(entry.word(""), "the entry's end");
    }
  }
  return schedule;
}

std::string FaultSchedule::text() const {
  std::string text;
  for (const Fault& f : faults_) text += (text.empty() ? "" : "; ") + to_string(f);
  return text;
}

namespace detail {

/// A validated fault, with its targets resolved.
struct PlannedFault {
  FaultKind kind;
  double value;
  std::uint32_t cause;
  unsigned host;
  std::vector<LinkId> links;
};

inline void strike(FaultState& state, const PlannedFault& f) {
  for (const LinkId link : f.links) {
    switch (f.kind) {
      case FaultKind::down:
      case FaultKind::up:
        state.hold_down(link, f.kind == FaultKind::down);
        break;
      case FaultKind::black_hole:
      case FaultKind::heal:
        state.hold_hole(link, f.kind == FaultKind::black_hole);
        break;
      case FaultKind::loss:
        state.loss(link, f.cause, f.value);
        break;
      case FaultKind::corruption:
        state.corruption(link, f.cause, f.value);
        break;
      case FaultKind::slow:
        state.slow(link, f.cause, f.value);
        break;
      case FaultKind::kill:
        break;
    }
  }
}

}  // namespace detail

void FaultSchedule::apply(Network& network, const Fabric& fabric,
                          const std::function<void(unsigned host)>& kill) const {
  struct Target {
    std::uint32_t cause = 0;
    int down = 0, holes = 0;
  };
  std::map<std::string, Target> targets;
  std::vector<detail::PlannedFault> plan;  // everything is validated before anything is scheduled
  for (const Fault& f : faults_) {
    const auto next = static_cast<std::uint32_t>(targets.size());
    Target& target = targets.try_emplace(f.target, Target{next, 0, 0}).first->second;
    target.down += (f.kind == FaultKind::down) - (f.kind == FaultKind::up);
    target.holes += (f.kind == FaultKind::black_hole) - (f.kind == FaultKind::heal);
    if (target.down < 0 || target.holes < 0)
      detail::bad_fault("'" + to_string(f) + "' ends what has not begun");
    detail::PlannedFault p{f.kind, f.value, target.cause, 0, fabric.find(f.target)};
    if (f.kind == FaultKind::kill) {
      const int host = fabric.host_of(f.target);
      if (host < 0) detail::bad_fault("'" + to_string(f) + "': only hosts can be killed");
      if (!kill) detail::bad_fault("'" + to_string(f) + "': these hosts can't be killed");
      p.host = static_cast<unsigned>(host);
      p.links.clear();
    }
    plan.push_back(std::move(p));
  }
  const auto state = std::make_shared<FaultState>(network);
  for (std::size_t i = 0; i < plan.size(); ++i)
    network.call_at(faults_[i].at, [state, kill, p = std::move(plan[i])] {
      if (p.kind == FaultKind::kill)
        kill(p.host);
      else
        detail::strike(*state, p);
    });
}

namespace detail {

/// Draws the schedule of a seed for a fabric, which must outlive it.
class FaultSwarm {
 public:
  FaultSwarm(const Fabric& fabric, const SwarmOptions& options, std::uint64_t seed)
      : fabric_(fabric), settings_(fabric.settings()), options_(options), random_(seed) {}

  [[nodiscard]] FaultSchedule draw();

 private:
  enum class Kind : std::uint8_t { down, flap, black_hole, loss, corruption, slow };
  enum class Place : std::uint8_t { port, host, t0, t1, plane, cable };

  /// Keeps each of `all` with probability 1/2.
  template <class T>
  void pick(std::vector<T>& out, std::initializer_list<T> all) {
    for (const T one : all)
      if (random_.chance(0.5)) out.push_back(one);
  }
  template <class T>
  [[nodiscard]] T one_of(const std::vector<T>& all) {
    return all[random_.below(static_cast<std::uint32_t>(all.size()))];
  }
  /// Logarithmically uniform in [most / 1024, most].
  [[nodiscard]] double magnitude(double most) {
    const auto halvings = random_.below(10);
    const double share = 0.5 + static_cast<double>(random_.below(512)) / 1024;
    return most * share / static_cast<double>(1u << halvings);
  }

  void add_fault(FaultSchedule& schedule);
  void add_flap(FaultSchedule& schedule, const std::string& target, Time from, Duration span);
  void add_kills(FaultSchedule& schedule);
  [[nodiscard]] std::string name(Place place);
  [[nodiscard]] std::string one_way(const std::string& a, const std::string& b) {
    return random_.chance(0.5) ? a + ">" + b : b + ">" + a;
  }
  [[nodiscard]] std::string cable(const std::string& a, const std::string& b) {
    return one_way_ ? one_way(a, b) : a + "-" + b;
  }

  const Fabric& fabric_;
  const FabricSettings& settings_;
  SwarmOptions options_;
  Random random_;
  std::vector<Kind> kinds_;
  std::vector<Place> places_;
  bool one_way_ = false;
};

FaultSchedule FaultSwarm::draw() {
  pick(kinds_,
       {Kind::down, Kind::flap, Kind::black_hole, Kind::loss, Kind::corruption, Kind::slow});
  pick(places_, {Place::port, Place::host, Place::t0, Place::plane});
  if (settings_.topology != Topology::single_switch) pick(places_, {Place::cable});
  if (settings_.t1_count() > 0) pick(places_, {Place::t1});
  if (places_.empty()) places_.push_back(Place::port);
  one_way_ = random_.chance(0.5);
  FaultSchedule schedule;
  const unsigned count = kinds_.empty() ? 0 : random_.below(options_.max_faults + 1);
  for (unsigned i = 0; i < count; ++i) add_fault(schedule);
  if (options_.kills && random_.chance(0.5)) add_kills(schedule);
  return schedule;
}

void FaultSwarm::add_fault(FaultSchedule& schedule) {
  const Kind kind = one_of(kinds_);
  const std::string target = name(one_of(places_));
  const double all = static_cast<double>((options_.end - options_.begin).count());
  const Time from =
      options_.begin + Duration{static_cast<std::int64_t>(all * random_.below(1000) / 1000)};
  const auto most = static_cast<double>((options_.end - from).count());
  const Duration span{std::max<std::int64_t>(1, static_cast<std::int64_t>(magnitude(most)))};
  switch (kind) {
    case Kind::down:
      return schedule.add_for({from, FaultKind::down, target, 0}, span);
    case Kind::flap:
      return add_flap(schedule, target, from, span);
    case Kind::black_hole:
      return schedule.add_for({from, FaultKind::black_hole, target, 0}, span);
    case Kind::loss:
      return schedule.add_for({from, FaultKind::loss, target, magnitude(options_.max_loss)}, span);
    case Kind::corruption:
      return schedule.add_for(
          {from, FaultKind::corruption, target, magnitude(options_.max_corruption)}, span);
    case Kind::slow:
      return schedule.add_for({from, FaultKind::slow, target, 1 + magnitude(options_.max_slow)},
                              span);
  }
}

void FaultSwarm::add_flap(FaultSchedule& schedule, const std::string& target, Time from,
                          Duration span) {
  const unsigned times = 2 + random_.below(6);
  const Duration period = span / times;
  if (period.count() < 2) return;
  const Duration down{1 + random_.below(static_cast<std::uint32_t>(
                              std::min<std::int64_t>(period.count() - 1, 1'000'000'000)))};
  schedule.flap(target, from, from + span, period, down);
}

void FaultSwarm::add_kills(FaultSchedule& schedule) {
  if (settings_.hosts < 2) return;
  std::vector<unsigned> hosts(settings_.hosts);
  for (unsigned h = 0; h < settings_.hosts; ++h) hosts[h] = h;
  random_.shuffle(std::span<unsigned>(hosts));
  const unsigned victims = 1 + random_.below(std::min(2u, settings_.hosts - 1));
  const auto all = static_cast<double>((options_.end - options_.begin).count());
  for (unsigned i = 0; i < victims; ++i) {
    const Duration after{static_cast<std::int64_t>(all * random_.below(1000) / 1000)};
    schedule.add({options_.begin + after, FaultKind::kill, "h" + std::to_string(hosts[i]), 0});
  }
}

std::string FaultSwarm::name(Place place) {
  const unsigned plane = random_.below(settings_.planes);
  const unsigned host = random_.below(settings_.hosts);
  std::string t0 = switch_name(0, plane, random_.below(settings_.t0s()));
  const std::string port = "h" + std::to_string(host) + ".p" + std::to_string(plane);
  switch (place) {
    case Place::port:
      return one_way_ ? one_way(port, switch_name(0, plane, fabric_.t0_of(host))) : port;
    case Place::host:
      return "h" + std::to_string(host);
    case Place::t0:
      return t0;
    case Place::t1:
      return switch_name(1, plane, random_.below(settings_.t1s));
    case Place::plane:
      return "p" + std::to_string(plane);
    case Place::cable:
      break;
  }
  if (settings_.topology == Topology::dumbbell)
    return cable(switch_name(0, plane, 0), switch_name(0, plane, 1));
  return cable(t0, switch_name(1, plane, random_.below(settings_.t1s)));
}

}  // namespace detail

FaultSchedule random_faults(const Fabric& fabric, const SwarmOptions& options, std::uint64_t seed) {
  return detail::FaultSwarm(fabric, options, seed).draw();
}

}  // namespace mrc::inline v0_1::sim
