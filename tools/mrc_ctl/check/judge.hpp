// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc_ctl/check/facts.hpp"
#include "mrc_ctl/check/results.hpp"

namespace mrc::check_tool {

enum class Verdict { ok, warning, failed };

/// One thing that was checked.
struct Row {
  std::string what, here, there;
  Verdict verdict = Verdict::ok;
  std::string remedy;  ///< what is wrong and what to do; empty if it is ok
};

/// What fits between two hosts, and what to do about the rest. Pure.
[[nodiscard]] std::vector<Row> judge(const HostFacts& here, const HostFacts& there,
                                     const Results& results);

// Its parts.
void judge_software(const HostFacts& here, const HostFacts& there, const Results& results,
                    std::vector<Row>& rows);
void judge_buffers(const HostFacts& here, const HostFacts& there, std::vector<Row>& rows);
void judge_planes(const HostFacts& here, const HostFacts& there, std::vector<Row>& rows);
void judge_packets(const HostFacts& here, const HostFacts& there, const Results& results,
                   std::vector<Row>& rows);
void judge_fabric(const HostFacts& here, const HostFacts& there, const Results& results,
                  std::vector<Row>& rows);

/// The plane here with which plane N of the other host belongs, by routes and interfaces, if that
/// is not plane N; else -1.
[[nodiscard]] int belongs_to(const HostFacts& own, std::size_t plane);

}  // namespace mrc::check_tool
