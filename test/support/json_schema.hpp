// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "support/own_folder.hpp"

namespace mrc::test {

/// A JSON schema of docs/: what it says of fields, and, by json_schema.py, of documents.
class JsonSchema {
 public:
  using Json = nlohmann::json;

  explicit JsonSchema(std::filesystem::path file)
      : file_(std::move(file)), root_(Json::parse(std::ifstream(file_))) {}

  [[nodiscard]] const Json& root() const { return root_; }

  /// The schema itself, or what its "$ref" names.
  [[nodiscard]] const Json& target(const Json& schema) const {
    const std::string ref = schema.at("$ref");
    return root_.at(Json::json_pointer(ref.substr(1)));
  }

  /// The properties of an object that has no others, those behind "$ref" included.
  [[nodiscard]] std::map<std::string, Json> properties(const Json& schema) const {
    std::map<std::string, Json> all;
    if (schema.contains("$ref")) all = properties(target(schema));
    if (schema.contains("properties"))
      for (const auto& [name, field] : schema.at("properties").items()) all[name] = field;
    return all;
  }

  /// Documents that it has to accept or to refuse: asked for all of a test at its end.
  class Documents {
   public:
    explicit Documents(const JsonSchema& schema) : schema_(schema.file_) {}
    Documents(const Documents&) = delete;
    Documents& operator=(const Documents&) = delete;
    ~Documents() {
      const OwnFolder folder;
      const std::string asked = folder.path + "/asked.json";
      std::ofstream(asked) << asked_;
      const auto script = std::filesystem::absolute(__FILE__).replace_filename("json_schema.py");
      // Debian's modules are those of Debian's Python.
      const std::string command =
          "/usr/bin/python3 '" + script.string() + "' '" + schema_.string() + "' '" + asked + "'";
      CHECK_MESSAGE(std::system(command.c_str()) == 0, schema_.string(), ": see above");
    }
    void accepts(Json document) { asked_.push_back({std::move(document), true}); }
    void refuses(Json document) { asked_.push_back({std::move(document), false}); }

   private:
    std::filesystem::path schema_;
    Json asked_ = Json::array();
  };

 private:
  std::filesystem::path file_;
  Json root_;
};

}  // namespace mrc::test
