// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/control/administration.hpp"
#include "mrc/control/dumps.hpp"
#include "mrc/control/host_store.hpp"
#include "mrc/control/line_server.hpp"
#include "mrc/control/profiles.hpp"
#include "mrc/core/types.hpp"
#include "mrc/host/cq_events.hpp"
#include "mrc/stats.hpp"

namespace mrc::inline v0_1::detail {

class DeviceCore;

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

/// A device as others see and steer it (docs/control.md): answers the requests that come through
/// its control socket, keeps the newest events, and says which queue pairs make no progress.
///
/// A thread of its own serves the clients. It takes the locks of lanes for moments, as an
/// application thread does, so that clients cost the data path nothing.
class DeviceControl final : public control::LineHandler, public DumpSource {
 public:
  /// Opens the socket that option control asks for, and leaves the dumps that option dump asks for.
  /// Where a file system is full it warns, and does without the socket. Throws mrc::Error. `core`
  /// and `administration` must outlive it.
  DeviceControl(DeviceCore& core, DeviceAdministration& administration);
  ~DeviceControl() override;

  /// Of the socket; empty if there is none.
  [[nodiscard]] std::string path() const { return server_ ? server_->path() : std::string(); }
  /// What is to hold in all devices of the host.
  [[nodiscard]] std::shared_ptr<HostRules> host_rules() noexcept { return store_; }
  /// In a forked child: whether nothing was being changed, so that it can be destroyed.
  [[nodiscard]] bool at_rest() noexcept {
    return (!server_ || server_->at_rest()) && store_->at_rest();
  }

 private:
  // As LineHandler
  [[nodiscard]] std::string greeting() override;
  [[nodiscard]] std::string refusal(std::string_view why) override;
  [[nodiscard]] std::string answer(std::string_view line, bool& follows) override;
  [[nodiscard]] std::vector<int> watched() const override;
  [[nodiscard]] std::vector<std::string> news() override;
  Time tick(Time now) override;

  // As DumpSource
  [[nodiscard]] const std::string& dump_file() const noexcept override { return dump_file_; }
  [[nodiscard]] std::string dump(std::string_view why) override;
  void look() noexcept override;
  [[nodiscard]] bool lanes_answer() const;

  struct Requests;
  friend struct Requests;

  void open_socket(const std::string& setting);
  void keep(const char* kind, nlohmann::json line, std::vector<std::string>& lines);
  void follow_store();
  void watch_progress(Time now);

  /// A queue pair that has something to do.
  struct Watched {
    std::uint64_t progress = 0;  ///< grows with each sign of progress
    Time since{};                ///< since when it has not
    std::uint64_t refused = 0;   ///< QpStats::refused then
    bool told = false;
  };

  DeviceCore& core_;
  DeviceAdministration& administration_;
  const std::shared_ptr<HostStore> store_;
  std::uint64_t told_ = store_->rules().rules->serial;  ///< of the rules that the log knows of
  const std::string network_ = host_key();
  const double opened_;          ///< seconds since 1970
  const std::string dump_file_;  ///< empty: none
  std::mutex recent_mutex_;      ///< of what follows, up to lost_
  EventQueue<DeviceEvent> events_;
  std::shared_ptr<EvEventQueue> ev_events_;
  RecentEvents recent_;     ///< as they were told
  std::uint64_t lost_ = 0;  ///< events that events_ had no room for, as far as told
  std::map<std::pair<unsigned, std::uint32_t>, Watched> watched_;  ///< by lane and QPN
  std::unique_ptr<control::LineServer> server_;
};

}  // namespace mrc::inline v0_1::detail
