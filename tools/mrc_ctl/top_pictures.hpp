// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "mrc_ctl/devices.hpp"

/// What `mrc_ctl top` shows.
namespace mrc::ctl_tool {

/// What grows, at one moment.
struct Counters {
  Time at{};
  double sent = 0, received = 0, packets = 0, again = 0;  ///< bytes, bytes, packets, packets
  std::vector<std::array<double, 2>> planes;              ///< bytes sent and received
};

/// A device in a picture.
struct Row {
  std::string id, title;
  double tx = 0, rx = 0;            ///< bits per second
  double packets = 0, again = 0;    ///< per second
  double rtt_us = 0, window_k = 0;  ///< mean of the first queue pairs; kilobytes
  std::uint64_t queue_pairs = 0, peers = 0, paths = 0, paths_up = 0;
  std::vector<std::array<double, 2>> planes;  ///< bits per second
  std::vector<std::string> states;            ///< of planes
};

/// By what rows are sorted.
enum class SortBy { throughput, name, again, rtt };

/// A row for a device: rates since `before`, if that is known. `now` gets its counters.
[[nodiscard]] Row row_of(RemoteDevice& device, const Counters* before, Counters& now);
void sort(std::vector<Row>& rows, SortBy by);

/// All devices, and the planes of the selected one below. `lines`, `width`: how many lines and
/// columns there is room for; `silent`: devices that are not asked now, or have not answered.
[[nodiscard]] std::string overview_text(const std::vector<Row>& rows, std::size_t selected,
                                        std::size_t silent, std::size_t lines, std::size_t width);
/// One device: its queue pairs, and a map of its paths.
[[nodiscard]] std::string detail_text(const Row& row, RemoteDevice& device, std::size_t lines,
                                      std::size_t width);

}  // namespace mrc::ctl_tool
