// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace mrc::inline v0_1::detail {

/// The newest events of a device, numbered from 1 on. Those of paths, which may come in floods, do
/// not displace others: each of the two sorts has `most`. One thread at a time.
class RecentEvents {
 public:
  explicit RecentEvents(std::size_t most) : most_(most) {}

  /// Keeps an event with field `event`, and returns it with its number.
  const nlohmann::json& add(nlohmann::json event) {
    event["number"] = next_++;
    auto& kept = kept_[event["event"].get_ref<const std::string&>().starts_with("path_") ? 1 : 0];
    if (kept.size() == most_) kept.pop_front();
    return kept.emplace_back(std::move(event));
  }
  /// Those that are kept with greater numbers, in order.
  [[nodiscard]] nlohmann::json since(std::uint64_t number) const {
    const auto number_of = [](const nlohmann::json& event) {
      return event["number"].get<std::uint64_t>();
    };
    std::vector<const nlohmann::json*> found;
    for (const auto& kept : kept_)
      for (const nlohmann::json& event : kept)
        if (number_of(event) > number) found.push_back(&event);
    std::sort(found.begin(), found.end(),
              [&](const auto* a, const auto* b) { return number_of(*a) < number_of(*b); });
    nlohmann::json events = nlohmann::json::array();
    for (const nlohmann::json* event : found) events.push_back(*event);
    return events;
  }
  /// The number of the newest one; 0: there has been none.
  [[nodiscard]] std::uint64_t newest() const noexcept { return next_ - 1; }

 private:
  const std::size_t most_;
  std::uint64_t next_ = 1;
  std::array<std::deque<nlohmann::json>, 2> kept_;  ///< those of paths are the second
};

}  // namespace mrc::inline v0_1::detail
