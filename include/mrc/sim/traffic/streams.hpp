// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/sim/traffic/workload.hpp"

namespace mrc::inline v0_1::sim {

/// A stream of equal messages, of which a fixed number is kept in flight.
struct StreamSettings {
  std::uint64_t bytes = 1024 * 1024;  ///< per message
  unsigned depth = 2;                 ///< messages posted but not acknowledged
  std::uint64_t count = 0;            ///< messages per stream; 0: no limit
  Duration duration{};                ///< from the start on; 0: until stop_at() or the count
  unsigned queue_pairs = 1;           ///< per stream
};

/// Independent streams between hosts, each a flow of its own. Base of the patterns that differ only
/// in the pairs of hosts; used directly, streams are added by add(). A stream ends by its count, at
/// the time to stop or when its flow fails. See Workload for threads and lifetimes.
class Streams : public Workload {
 public:
  /// The same settings for all streams.
  explicit Streams(const StreamSettings& settings) : settings_(settings) {}

  /// Adds a stream that begins `delay` after the start. Only before start().
  void add(HostPair hosts, Duration delay = {}) { streams_.push_back({hosts, delay}); }

  /// State of a stream.
  struct Stream {
    HostPair hosts;            ///< from, to
    Duration delay{};          ///< after the start
    FlowId flow{};             ///< valid from the start on
    std::uint64_t posted = 0;  ///< messages
    unsigned under_way = 0;    ///< messages not yet acknowledged
    bool ended = false;        ///< posts no more messages
  };
  /// All streams.
  [[nodiscard]] const std::vector<Stream>& streams() const noexcept { return streams_; }
  /// The settings of all streams.
  [[nodiscard]] const StreamSettings& settings() const noexcept { return settings_; }

 protected:
  /// Adds the pattern's streams; the number of hosts is known.
  virtual void plan() {}

  void begin() final {
    require(settings_.bytes > 0, "stream: bytes is 0, must be at least 1");
    require(settings_.depth > 0, "stream: depth is 0, must be at least 1");
    plan();
    for (std::uint32_t i = 0; i < streams_.size(); ++i)
      streams_[i].flow = open(streams_[i].hosts, settings_.queue_pairs, i);
    live_ = streams_.size();
    if (settings_.duration > Duration{}) stop_at(now() + settings_.duration);
    for (std::uint32_t i = 0; i < streams_.size(); ++i) {
      if (streams_[i].delay <= Duration{})
        fill(streams_[i]);
      else
        call_after(streams_[i].delay, [this, i] { fill(streams_[i]); });
    }
  }
  [[nodiscard]] bool exhausted() const final { return live_ == 0; }
  void message_sent(std::uint32_t tag, std::uint64_t) final {
    --streams_[tag].under_way;
    fill(streams_[tag]);
  }
  /// See Workload.
  void flow_failed(std::uint32_t tag) final { end(streams_[tag]); }

 private:
  void fill(Stream& s) {
    if (stopped()) end(s);
    while (!s.ended && s.under_way < settings_.depth) {
      ++s.under_way;
      if (++s.posted == settings_.count) end(s);
      post(s.flow, settings_.bytes);
    }
  }
  void end(Stream& s) noexcept {
    if (!s.ended) --live_;
    s.ended = true;
  }

  StreamSettings settings_;
  std::vector<Stream> streams_;
  std::size_t live_ = 0;
};

}  // namespace mrc::inline v0_1::sim
