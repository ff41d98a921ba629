// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "common/table.hpp"
#include "common/terminal.hpp"

namespace mrc::check_tool {

bool Report::fits() const noexcept {
  return problem.empty() && std::none_of(rows.begin(), rows.end(), [](const Row& row) {
           return row.verdict == Verdict::failed;
         });
}

const char* to_string(Verdict verdict) noexcept {
  switch (verdict) {
    case Verdict::ok:
      return "ok";
    case Verdict::warning:
      return "warning";
    case Verdict::failed:
      return "FAILED";
  }
  return "?";
}

std::string report_text(const Report& report) {
  if (!report.problem.empty()) return report.problem + "\n";
  std::vector<tools::TableColumn> c{{"", true, {}},
                                    {"here: " + report.here, true, {}},
                                    {"there: " + report.there, true, {}},
                                    {"verdict", true, {}}};
  std::string remedies;
  for (const Row& row : report.rows) {
    c[0].cells.push_back(row.what);
    c[1].cells.push_back(row.here);
    c[2].cells.push_back(row.there);
    c[3].cells.emplace_back(to_string(row.verdict));
    if (row.verdict == Verdict::ok) continue;
    std::string text = row.remedy;
    for (std::size_t at = 0; (at = text.find('\n', at)) != text.npos; at += 3)
      text.replace(at, 1, "\n* ");
    remedies += "* " + text + "\n";
  }
  const std::size_t width = tools::output_width(tools::kUnlimitedWidth);
  return tools::table_text(c, width) + (remedies.empty() ? "" : "\n" + remedies);
}

Json report_json(const Report& report) {
  Json rows = Json::array();
  for (const Row& row : report.rows)
    rows.push_back({{"what", row.what},
                    {"here", row.here},
                    {"there", row.there},
                    {"verdict", to_string(row.verdict)},
                    {"remedy", row.remedy}});
  Json json{{"at", report.at},
            {"here", report.here},
            {"there", report.there},
            {"fits", report.fits()},
            {"rows", std::move(rows)}};
  if (!report.problem.empty()) json["problem"] = report.problem;
  return json;
}

}  // namespace mrc::check_tool
