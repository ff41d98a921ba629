// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/top.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "common/interrupt.hpp"
#include "common/terminal.hpp"
#include "mrc/core/error.hpp"
#include "mrc_ctl/devices.hpp"
#include "mrc_ctl/screen.hpp"
#include "mrc_ctl/top_pictures.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

class Top {
 public:
  explicit Top(const Options& o) : options_(o) {}

  /// Asks the devices. What they say is shown until the next time.
  void look() {
    if (++looks_ % kMuteLooks == 0) mute_.clear();
    found_ = find_devices(options_, mute_, kLate);
    const std::size_t count = found_.devices.size();
    std::vector<std::optional<Row>> rows(count);
    std::vector<Counters> counters(count);
    std::vector<char> late(count);
    const Time limit = monotonic_now() + kLate;
    const auto problems = ask_all(options_, found_, [&](RemoteDevice& device, std::size_t i) {
      const auto known = before_.find(device.id());
      rows[i] = row_of(device, known == before_.end() ? nullptr : &known->second, counters[i]);
      late[i] = monotonic_now() > limit;
    });
    rows_.clear();
    std::map<std::string, Counters> now;
    silent_ = mute_.size() + found_.silent.size();
    for (const control::Silent& one : found_.silent)
      if (!control::is_trusted_user(one.user)) mute_.push_back(one.name);
    for (std::size_t i = 0; i < count; ++i) {
      const RemoteDevice& device = *found_.devices[i];
      const bool failed = !problems[i].empty();  // it has just gone, or is stopped
      if ((failed || late[i] != 0) && !control::is_trusted_user(device.user()))
        mute_.push_back(device.name());
      if (failed) continue;
      rows_.push_back(std::move(*rows[i]));
      now[device.id()] = std::move(counters[i]);
    }
    before_ = std::move(now);
    sort(rows_, sort_by_);
  }

  [[nodiscard]] std::string picture(const Screen& screen) {
    const std::string last =
        !message_.empty() ? message_
        : !screen.has_keys()
            ? std::string()
            : std::string(drains_    ? "take which plane out of use, or use it again? 0-9"
                          : details_ ? "Esc: all devices  d: drain a plane  q: end"
                                     : "Enter: details  d: drain  sort by t: rate, n: name, a: "
                                       "again, r: RTT  q: end");
    const std::size_t lines = std::max<std::size_t>(screen.lines(), 6) - (last.empty() ? 0 : 2);
    const std::size_t width = tools::output_width(tools::kUnlimitedWidth);
    RemoteDevice* device = selected_device();
    std::string text;
    if (details_ && device != nullptr) try {
        text = detail_text(rows_[selected()], *device, lines, width);
      } catch (const std::exception& error) {  // it has just gone
        text = printable(control::problem_with(*device, error));
      }
    else
      text = overview_text(rows_, selected(), silent_, lines, width);
    return last.empty() ? text : text + "\n" + last + "\n";
  }

  /// False: the end is wanted.
  [[nodiscard]] bool press(int key) {
    message_.clear();
    if (std::exchange(drains_, false) && key >= '0' && key <= '9') {
      toggle(static_cast<unsigned>(key - '0'));
      return true;
    }
    if (key == 'q') return false;
    if ((key == kUp || key == 'k') && selected() > 0) selected_ = rows_[selected() - 1].id;
    if ((key == kDown || key == 'j') && selected() + 1 < rows_.size())
      selected_ = rows_[selected() + 1].id;
    if (key == kEnter && !rows_.empty()) {
      selected_ = rows_[selected()].id;
      details_ = true;
    }
    if (key == kEscape) details_ = false;
    drains_ = key == 'd' && !rows_.empty();
    if (drains_) selected_ = rows_[selected()].id;
    const std::map<int, SortBy> sorts{
        {'t', SortBy::throughput}, {'n', SortBy::name}, {'a', SortBy::again}, {'r', SortBy::rtt}};
    if (const auto by = sorts.find(key); by != sorts.end()) {
      sort_by_ = by->second;
      sort(rows_, sort_by_);
    }
    return true;
  }

 private:
  /// The row of the selected device, or the first one.
  [[nodiscard]] std::size_t selected() const {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      if (rows_[i].id == selected_) return i;
    return 0;
  }
  [[nodiscard]] RemoteDevice* selected_device() const {
    for (const auto& device : found_.devices)
      if (!rows_.empty() && device->id() == rows_[selected()].id) return device.get();
    return nullptr;
  }
  /// Takes a plane of the device that d was pressed for out of use, or lets it be used again.
  void toggle(unsigned plane) {
    RemoteDevice* device = selected_device();
    if (device == nullptr || device->id() != selected_) {
      message_ = "that device has gone";
      return;
    }
    try {
      toggle(*device, plane);
    } catch (const std::exception& error) {
      message_ = printable(control::problem_with(*device, error));
    }
  }
  void toggle(RemoteDevice& device, unsigned plane) {
    Row& row = rows_[selected()];
    const bool enable = plane < row.states.size() && row.states[plane] == "disabled";
    const Json planes =
        device.request({{"request", "plane"}, {"plane", plane}, {"enabled", enable}})["planes"];
    const std::string state = enabled_text(planes, plane);
    if (plane < row.states.size()) row.states[plane] = state;
    message_ = fmt::format("plane {} of {} is {}{}", plane, row.title, state,
                           enable && state == "disabled"
                               ? ": it is down for the host (mrc_ctl plane N up --all)"
                               : "");
  }

  /// Looks until other users' devices that did not answer, or not within kLate, are asked again.
  static constexpr unsigned kMuteLooks = 10;
  static constexpr Duration kLate = std::chrono::milliseconds(500);

  const Options& options_;
  Found found_;
  unsigned looks_ = 0;
  std::size_t silent_ = 0;                 ///< sockets that do not answer, or too slowly
  std::vector<control::SocketName> mute_;  ///< those of other users, which delay no look again
  std::vector<Row> rows_;
  std::map<std::string, Counters> before_;  ///< by id
  std::string selected_;                    ///< id; empty: the first one
  std::string message_;                     ///< until the next key
  SortBy sort_by_ = SortBy::throughput;
  bool details_ = false;  ///< of the selected device
  bool drains_ = false;   ///< the next key names a plane
};

}  // namespace

int run_top(const Options& o) {
  const tools::HeldSignals signals;
  Screen screen;
  Top top(o);
  top.look();  // what throughput is counted from
  unsigned shown = 0;
  Time next = monotonic_now() + std::min<Duration>(o.interval, std::chrono::milliseconds(500));
  while (!tools::g_interrupted) {
    const Duration left = next - monotonic_now();
    if (left > Duration(0)) {
      const int key = screen.wait(signals, left);
      if (key == kNoKey) continue;
      if (!top.press(key)) return 0;
      screen.show(top.picture(screen));
      continue;
    }
    next = monotonic_now() + o.interval;
    top.look();
    screen.show(top.picture(screen));
    if (o.rounds && ++shown >= *o.rounds) return 0;
  }
  return tools::kInterruptedStatus;
}

}  // namespace mrc::ctl_tool
