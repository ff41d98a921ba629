// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "mrc_sim/job.hpp"
#include "support/errors.hpp"
#include "support/own_folder.hpp"

/// Shared by the tests of scenario files.
namespace mrc::tools::testing {

using Json = nlohmann::json;

/// Four hosts, two per T0, that send to each other for a short time; `more` replaces its fields.
inline Json small_scenario(const Json& more = Json::object()) {
  Json scenario = {{"title", "small"},
                   {"topology", {{"planes", 2}, {"hosts", 4}, {"hosts_per_t0", 2}, {"t1s", 2}}},
                   {"run", {{"time", "20us"}}},
                   {"traffic", {{{"kind", "permutation"}, {"bytes", "64KiB"}}}}};
  if (more.is_object()) scenario.update(more);
  return scenario;
}

/// Reads scenarios as mrc_sim does, from a file.
class ScenarioReader {
 public:
  [[nodiscard]] Job read(const Json& scenario) const {
    const std::string file = folder_.path + "/s.json";
    std::ofstream(file) << scenario.dump(1) << '\n';
    return read_job(file, {}, {});
  }
  /// The message about it, from the field on; "no error" if there is none.
  [[nodiscard]] std::string error(const Json& scenario) const {
    const std::string text = test::error_of<json_file::FileError>([&] { (void)read(scenario); });
    const auto line = text.find("s.json:");
    const auto field = line == std::string::npos ? line : text.find(": ", line);
    return field == std::string::npos ? text : text.substr(field + 2);
  }
  /// A file with this text.
  [[nodiscard]] std::string file(const std::string& name, const std::string& text) const {
    const std::string path = folder_.path + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

 private:
  test::OwnFolder folder_;
};

/// A file of this repository.
inline std::filesystem::path source_file(const std::string& name) {
  return std::filesystem::absolute(__FILE__).parent_path().parent_path().parent_path() / name;
}

}  // namespace mrc::tools::testing
