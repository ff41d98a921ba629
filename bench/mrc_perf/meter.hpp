// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "session.hpp"

/// Traffic of a run between two points in time.
namespace mrc::perf {

/// One interval.
struct Sample {
  Duration length{};
  double gbps = 0;  ///< payload, both directions if both carry data
  double mpps = 0;  ///< data packets
  std::uint64_t retransmits = 0;
  std::vector<double> plane_gbps;  ///< parts of gbps, by bytes on the wire
  std::vector<std::uint64_t> plane_packets;
  std::vector<std::uint64_t> plane_lost;  ///< packets lost or trimmed on the plane's paths
};

/// Measures the difference since the last call. One thread.
class Meter {
 public:
  Meter(Session& session, bool both_directions) : session_(session), both_(both_directions) {}

  /// Starts; `payload` is the number of bytes moved so far.
  void start(Time now, std::uint64_t payload) { last_ = read(now, payload); }
  /// The interval since start() or the last take().
  Sample take(Time now, std::uint64_t payload);

 private:
  struct Reading {
    Time time{};
    std::uint64_t payload = 0, packets = 0, retransmits = 0;
    std::vector<std::uint64_t> plane_bytes, plane_packets, plane_lost;
  };
  [[nodiscard]] Reading read(Time now, std::uint64_t payload) const;

  Session& session_;
  bool both_;
  Reading last_;
};

/// The starts and ends of the faults of a schedule, as text.
class FaultNotes {
 public:
  FaultNotes() = default;
  explicit FaultNotes(const std::string& schedule);
  /// Faults started or ended since the last call, such as "on: plane 1 down"; `since_start` is the
  /// schedule's time.
  [[nodiscard]] std::vector<std::string> take(Duration since_start);

 private:
  struct Note {
    Duration at;
    std::string text;
  };
  std::vector<Note> notes_;
  std::size_t next_ = 0;
};

}  // namespace mrc::perf
