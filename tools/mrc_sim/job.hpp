// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/fabric/json.hpp"
#include "mrc/sim/simulation.hpp"

namespace mrc::tools {

/// A plot that a scenario asks for; scripts/plot draws it from the JSON report.
struct PlotRequest {
  std::string show;  ///< a series of the recorder, "completion_times", or "summary"
  std::string title, x_label;
  std::string metric;  ///< of "summary": y axis (metrics.hpp)
  std::optional<double> reference;
  std::string reference_label;
  std::vector<std::string> variants;  ///< names of those that are drawn; empty: all
  bool log_x = false;
  double height = 220;
};

/// One run of a scenario.
struct Variant {
  std::string name;         ///< empty if it is the only one
  std::string line;         ///< of summary plots: variants of one line are joined
  std::optional<double> x;  ///< of summary plots: position on the x axis
  sim::Scenario scenario;
};

/// A parsed and validated scenario file.
struct Job {
  std::string file, title, about;
  std::uint64_t seed = 1;
  std::vector<PlotRequest> plots;
  std::vector<Variant> variants;
};

/// "path=value" of the command line.
struct Override {
  std::string path, value;
  /// Throws json_file::FileError.
  [[nodiscard]] static Override parse(const std::string& text);
};

/// Reads a file. `overrides` apply to all variants and take precedence over their settings. Throws
/// json_file::FileError.
[[nodiscard]] Job read_job(const std::string& file, const std::vector<Override>& overrides,
                           std::optional<std::uint64_t> seed);

/// Reads only the title of a scenario file.
[[nodiscard]] std::string title_of(const std::string& file);

// --- parts of a file, each with its own source file ---------------------------------------------

/// Longest time in a scenario, so also of a run: an hour, virtual.
inline constexpr Duration kLongest = std::chrono::hours(1);

/// Transport settings that the readers of other parts need to know.
struct TransportFacts {
  bool roce = false;
  bool dcqcn = false;
  unsigned queue_pairs = 1;  ///< default of all traffic
};

[[nodiscard]] TransportFacts read_transport_facts(const json_file::Object& transport);
[[nodiscard]] sim::FabricSettings read_topology(const json_file::Object& topology,
                                                const TransportFacts& facts);
void read_transport(const json_file::Object& transport, sim::Scenario& scenario);
void read_faults(const json_file::Object& root, sim::Scenario& scenario);
void read_traffic(const json_file::Object& root, unsigned queue_pairs, sim::Scenario& scenario);

}  // namespace mrc::tools
