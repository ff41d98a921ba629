// SPDX-License-Identifier: Apache-2.0
#include "monitor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "common/terminal.hpp"
#include "live_line.hpp"
#include "units.hpp"

namespace mrc::perf {
namespace {

bool utf8_terminal() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == '\0') continue;
    const std::string_view text(value);
    return text.find("UTF-8") != text.npos || text.find("utf8") != text.npos;
  }
  return false;
}

std::string joined(const std::vector<std::string>& texts) {
  return fmt::format("{}", fmt::join(texts, "; "));
}

/// A CSV field, quoted if necessary.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace

Monitor::Monitor(Session& session, const Options& options)
    : options_(options),
      session_(session),
      whole_(session, options.parameters.bidirectional),
      live_(session, options.parameters.bidirectional),
      fine_(session, options.parameters.bidirectional),
      unicode_(utf8_terminal()) {
  csv_ = "time_s,total_gbps";
  for (unsigned i = 0; i < session.device().plane_count(); ++i)
    csv_ += fmt::format(",plane{}_gbps", i);
  csv_ += ",retransmits,event\n";
}

void Monitor::start(Time now, std::uint64_t size, std::uint64_t payload) {
  if (origin_ == kNever) origin_ = now;
  start_ = now;
  start_clock_ = std::chrono::system_clock::now();
  live_faults_ = fine_faults_ = FaultNotes(options_.parameters.faults + ";" + options_.marks);
  up_.assign(session_.device().plane_count(), true);
  live_notes_.clear();
  fine_notes_.clear();
  if (options_.sizes.size() > 1) fine_notes_.push_back(fmt::format("size {}", size_text(size)));
  whole_.start(now, payload);
  if (options_.live) {
    live_.start(now, payload);
    next_live_ = now + options_.interval;
  }
  if (!options_.timeline_file.empty()) {
    fine_.start(now, payload);
    next_fine_ = now + options_.timeline_interval;
  }
  next_ = std::min(next_live_, next_fine_);
}

void Monitor::tick(Time now, std::uint64_t payload) {
  for (auto& text : news()) {
    live_notes_.push_back(text);
    fine_notes_.push_back(std::move(text));
  }
  if (now >= next_fine_) {
    add_row(now, fine_.take(now, payload));
    // Intervals missed by a long stall of this process become one.
    while (next_fine_ <= now) next_fine_ += options_.timeline_interval;
  }
  if (now >= next_live_) {
    print_line(now, live_.take(now, payload));
    while (next_live_ <= now) next_live_ += options_.interval;
  }
  next_ = std::min(next_live_, next_fine_);
}

std::vector<std::string> Monitor::news() {
  // Report planes that go down unexpectedly; FaultNotes reports the schedule's.
  std::vector<std::string> texts;
  if (!options_.parameters.faults.empty()) return texts;
  const DeviceStats stats = session_.device().stats();
  for (std::size_t i = 0; i < up_.size() && i < stats.planes.size(); ++i) {
    if (up_[i] == stats.planes[i].up) continue;
    up_[i] = stats.planes[i].up;
    texts.push_back(fmt::format("{}: plane {} down", up_[i] ? "off" : "on", i));
  }
  return texts;
}

void Monitor::print_line(Time now, const Sample& sample) {
  const LiveLine line{seconds(now - start_), sample.gbps, sample.mpps, sample.retransmits,
                      sample.plane_gbps};
  fmt::print("{}\n", live_line(line, tools::output_width(), unicode_));
  // A fault that starts in the second half of an interval is shown in the next one.
  for (auto& text : live_faults_.take(now - start_ - options_.interval / 2))
    live_notes_.push_back(std::move(text));
  for (const std::string& note : live_notes_) fmt::print("        {}\n", note);
  live_notes_.clear();
  std::fflush(stdout);
}

void Monitor::add_row(Time now, const Sample& sample) {
  for (auto& text : fine_faults_.take(now - start_ - options_.timeline_interval / 2))
    fine_notes_.push_back(std::move(text));
  csv_ += fmt::format("{:.3f},{:.4f}", seconds(now - origin_), sample.gbps);
  for (const double plane : sample.plane_gbps) csv_ += fmt::format(",{:.4f}", plane);
  csv_ += fmt::format(",{},{}\n", sample.retransmits, field(joined(fine_notes_)));
  fine_notes_.clear();
}

void Monitor::finish(Time now, std::uint64_t payload, Result& result) {
  const Sample sample = whole_.take(now, payload);
  result.start = std::chrono::duration<double>(start_clock_.time_since_epoch()).count();
  result.seconds = seconds(sample.length);
  result.gbps = sample.gbps;
  result.mpps = sample.mpps;
  result.retransmits = sample.retransmits;
  for (std::size_t i = 0; i < sample.plane_gbps.size(); ++i) {
    const std::uint64_t lost = i < sample.plane_lost.size() ? sample.plane_lost[i] : 0;
    result.planes.push_back({sample.plane_gbps[i], sample.plane_packets[i], lost});
  }
  if (next_fine_ != kNever) {
    // Skip a row for a tiny rest of an interval, unless it is the only one.
    const Time last = next_fine_ - options_.timeline_interval;
    if (last == start_ || now - last > options_.timeline_interval / 4)
      add_row(now, fine_.take(now, payload));
  }
  next_ = next_live_ = next_fine_ = kNever;
}

}  // namespace mrc::perf
