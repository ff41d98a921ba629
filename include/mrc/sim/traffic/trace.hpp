// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/sim/traffic/workload.hpp"

namespace mrc::inline v0_1::sim {

/// A message of a trace.
struct TraceEntry {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};  ///< no dependency

  Duration delay{};         ///< after the start, or after the delivery of the message it depends on
  unsigned from = 0;        ///< host
  unsigned to = 0;          ///< host
  std::uint64_t bytes = 0;  ///< size of the message
  std::uint32_t depends_on = kNone;  ///< index of an earlier entry
  unsigned line = 0;                 ///< line in the file, from 1
};

/// The messages of a trace file. One line per message:
///
///     time_us,from,to,bytes[,depends_on]
///
/// `time_us` counts from the start of the run, in microseconds, fractions allowed. `depends_on` is
/// the number of an earlier line of the file (from 1): the message waits for the delivery of that
/// line's message, and time_us counts from then. `from` and `to` are hosts, such as h3; their
/// numbers alone are accepted, too. Blank lines, lines that begin with '#' and a heading in the
/// first non-empty line are ignored. Lines need not be ordered by time.
struct TraceFile {
  std::string name;                 ///< for error messages
  std::vector<TraceEntry> entries;  ///< in file order

  /// Parses text. Throws mrc::Error that names file, line, field and value.
  [[nodiscard]] static TraceFile parse(std::string name, std::string_view text);
  /// Reads and parses a file. Also throws when the file can't be read.
  [[nodiscard]] static TraceFile read(const std::string& path);

  /// Throws an mrc::Error that names file and line.
  [[noreturn]] void fail(unsigned line, const std::string& what) const {
    throw Error(Errc::invalid_argument, name + ":" + std::to_string(line) + ": " + what);
  }

 private:
  using Fields = std::vector<std::string_view>;
  /// Longest time: about 11 days; sums of a few million such times don't overflow.
  static constexpr double kLargestTime = 1e12;

  [[nodiscard]] static std::string_view trim(std::string_view text) noexcept {
    const auto begin = text.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
  }
  [[nodiscard]] static Fields split(std::string_view line) {
    Fields fields;
    for (;;) {
      const auto comma = line.find(',');
      fields.push_back(trim(line.substr(0, comma)));
      if (comma == std::string_view::npos) return fields;
      line.remove_prefix(comma + 1);
    }
  }
  template <class T>
  [[nodiscard]] T number(unsigned line, const char* field, std::string_view text, T least, T most,
                         const char* wanted) const {
    T v{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc{} || end != text.data() + text.size() || !(v >= least && v <= most))
      fail(line, std::string(field) + ": is \"" + std::string(text) + "\", must be " + wanted);
    return v;
  }
  [[nodiscard]] unsigned host(unsigned line, const char* field, std::string_view text) const {
    const std::string_view digits = text.substr(text.starts_with('h') ? 1 : 0);
    if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos)
      fail(line,
           std::string(field) + ": is \"" + std::string(text) + "\", must be a host: h0, h1 ..");
    return number(line, field, digits, 0u, ~0u, "a host: h0, h1 ..");
  }
  [[nodiscard]] TraceEntry entry(unsigned line, const Fields& fields,
                                 const std::vector<std::uint32_t>& entry_of_line) const;
};

/// Replays a trace. All messages from one host to another share a flow. A message is skipped if its
/// flow has failed, if it depends on one that was never delivered, or if it is due after the time
/// to stop.
class Trace final : public Workload {
 public:
  /// `queue_pairs`: per flow.
  explicit Trace(TraceFile file, unsigned queue_pairs = 1)
      : file_(std::move(file)), queue_pairs_(queue_pairs) {}

  /// Number of messages skipped.
  [[nodiscard]] std::uint64_t skipped() const noexcept { return skipped_; }
  /// The trace.
  [[nodiscard]] const TraceFile& file() const noexcept { return file_; }

 private:
  static constexpr std::uint32_t kNone = TraceEntry::kNone;
  /// A message; `next` links the messages that depend on the same one.
  struct Node {
    std::uint32_t flow = 0;
    std::uint32_t first = kNone, next = kNone;
    bool gone = false;  // posted or skipped
  };
  struct Flow {
    FlowId id{};
    std::vector<std::uint32_t> posted;  // entries, by the message's number in the flow
    std::vector<bool> delivered;
  };

  void begin() override {
    open_flows();
    const auto& entries = file_.entries;
    nodes_left_ = entries.size();
    // In reverse, so that the lists are in file order.
    for (auto i = static_cast<std::uint32_t>(entries.size()); i-- > 0;) {
      if (entries[i].depends_on == kNone)
        roots_.push_back(i);
      else
        nodes_[i].next = std::exchange(nodes_[entries[i].depends_on].first, i);
    }
    std::reverse(roots_.begin(), roots_.end());
    std::stable_sort(roots_.begin(), roots_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return entries[a].delay < entries[b].delay;
    });
    post_roots();
  }

  void open_flows() {
    std::map<std::pair<unsigned, unsigned>, std::uint32_t> known;
    nodes_.resize(file_.entries.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const TraceEntry& e = file_.entries[i];
      for (const auto& [field, host] : {std::pair{"from", e.from}, std::pair{"to", e.to}})
        if (host >= hosts())
          file_.fail(e.line, std::string(field) + ": is " + std::to_string(host) +
                                 ", must be 0 to " + std::to_string(hosts() - 1));
      const auto next = static_cast<std::uint32_t>(flows_.size());
      const auto [at, added] = known.try_emplace({e.from, e.to}, next);
      if (added) flows_.push_back({open({e.from, e.to}, queue_pairs_, next), {}, {}});
      nodes_[i].flow = at->second;
    }
  }

  /// Posts the messages that are due, and schedules a call for the next one.
  void post_roots() {
    while (next_root_ < roots_.size()) {
      const Duration due = file_.entries[roots_[next_root_]].delay - (now() - started());
      if (due > Duration{} && !stopped()) return call_after(due, [this] { post_roots(); });
      go(roots_[next_root_++]);
    }
  }
  void go(std::uint32_t i) {
    Flow& flow = flows_[nodes_[i].flow];
    if (stopped() || has_failed(flow.id)) return skip(i);
    if (std::exchange(nodes_[i].gone, true)) return;
    --nodes_left_;
    flow.posted.push_back(i);
    flow.delivered.push_back(false);
    post(flow.id, file_.entries[i].bytes);
  }
  /// Skips this message and all that depend on it.
  void skip(std::uint32_t i) {
    std::vector<std::uint32_t> rest{i};
    while (!rest.empty()) {
      Node& node = nodes_[rest.back()];
      rest.pop_back();
      if (!std::exchange(node.gone, true)) {
        --nodes_left_;
        ++skipped_;
      }
      for (std::uint32_t c = node.first; c != kNone; c = nodes_[c].next) rest.push_back(c);
      node.first = kNone;
    }
  }

  [[nodiscard]] bool exhausted() const override { return nodes_left_ == 0; }
  void message_delivered(std::uint32_t tag, std::uint64_t message) override {
    flows_[tag].delivered[message] = true;
    Node& node = nodes_[flows_[tag].posted[message]];
    for (std::uint32_t c = std::exchange(node.first, kNone); c != kNone; c = nodes_[c].next) {
      const Duration delay = file_.entries[c].delay;
      if (delay <= Duration{})
        go(c);
      else
        call_after(delay, [this, c] { go(c); });
    }
  }
  void flow_failed(std::uint32_t tag) override {
    const Flow& flow = flows_[tag];
    for (std::size_t m = 0; m < flow.posted.size(); ++m)
      if (!flow.delivered[m]) skip(flow.posted[m]);
  }
  /// Messages that are not yet due would not be sent any more: do not wait for them.
  void on_stop() override {
    for (std::uint32_t i = 0; i < nodes_.size(); ++i)
      if (!nodes_[i].gone) skip(i);
  }

  TraceFile file_;
  unsigned queue_pairs_;
  std::vector<Node> nodes_;  // by entry
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> roots_;  // without dependency; ordered by time
  std::size_t next_root_ = 0;
  std::uint64_t nodes_left_ = 0;
  std::uint64_t skipped_ = 0;
};

}  // namespace mrc::inline v0_1::sim
