// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/top.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "common/interrupt.hpp"
#include "common/table.hpp"
#include "common/terminal.hpp"
#include "mrc/core/error.hpp"
#include "mrc_ctl/devices.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

/// A terminal whose keys are read one by one, on a screen of its own; does nothing elsewhere.
class Screen {
 public:
  Screen() : terminal_(::isatty(STDOUT_FILENO) != 0 && ::isatty(STDIN_FILENO) != 0) {
    if (!terminal_ || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    (void)::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    fmt::print("\x1b[?1049h\x1b[?25l");
  }
  ~Screen() {
    if (!terminal_) return;
    fmt::print("\x1b[?25h\x1b[?1049l");
    std::fflush(stdout);
    (void)::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Shows as much of the text as there are lines.
  void show(const std::string& text) const {
    if (!terminal_) {
      fmt::print("{}\n", text);
    } else {
      std::string screen = "\x1b[H";
      std::size_t lines = 0;
      for (std::size_t at = 0; at < text.size() && lines + 1 < height(); ++lines) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        screen += text.substr(at, std::min(end - at, tools::output_width())) + "\x1b[K\n";
        at = end + 1;
      }
      fmt::print("{}\x1b[J", screen);
    }
    std::fflush(stdout);
  }
  /// Waits that long, or for a key, or a signal. 0: no key.
  [[nodiscard]] char wait(const tools::HeldSignals& signals, Duration time) const {
    pollfd key{terminal_ ? STDIN_FILENO : -1, POLLIN, 0};
    const timespec limit{time.count() / 1'000'000'000, time.count() % 1'000'000'000};
    signals.sleep({&key, 1}, &limit);
    char c = 0;
    return key.revents != 0 && ::read(STDIN_FILENO, &c, 1) == 1 ? c : '\0';
  }

 private:
  [[nodiscard]] static std::size_t height() {
    winsize window{};
    return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 ? window.ws_row
                                                                                 : 24;
  }

  const bool terminal_;
  termios before_{};
};

/// What grows, at one moment.
struct Counters {
  Time at{};
  double sent = 0, received = 0, packets = 0, again = 0;  ///< bytes, bytes, packets, packets
  std::vector<std::array<double, 2>> planes;              ///< bytes sent and received
};

/// A device in a picture.
struct Row {
  std::string title;
  double tx = 0, rx = 0;          ///< bits per second
  double packets = 0, again = 0;  ///< per second
  std::uint64_t queue_pairs = 0, peers = 0, paths = 0, paths_up = 0;
  std::vector<std::array<double, 2>> planes;  ///< bits per second
  std::vector<std::string> states;            ///< of planes
};

class Top {
 public:
  explicit Top(const Options& o) : options_(o) {}

  [[nodiscard]] std::string picture() {
    Found found = find_devices(options_);
    std::vector<Row> rows;
    std::map<std::string, Counters> now;
    for (auto& device : found.devices) try {
        Counters& counters = now[device->id()];
        rows.push_back(row_of(*device, counters));
      } catch (const std::exception&) {  // it has just gone
        now.erase(device->id());
      }
    before_ = std::move(now);
    std::sort(rows.begin(), rows.end(), [this](const Row& a, const Row& b) {
      return by_name_ ? a.title < b.title : a.tx + a.rx > b.tx + b.rx;
    });
    return text_of(rows, found.silent.size());
  }
  void sort_by_name(bool by_name) { by_name_ = by_name; }

 private:
  [[nodiscard]] Row row_of(RemoteDevice& device, Counters& c) {
    Row row;
    row.title = printable(device.title());
    const Json all = device.request({{"request", "counters"}})["counters"];
    c.at = monotonic_now();
    row.queue_pairs = all.at("qps").get<std::uint64_t>();
    row.peers = all.at("peers").get<std::uint64_t>();
    c.packets = all.at("engine").at("tx_data").get<double>();
    c.again = all.at("engine").at("tx_retransmits").get<double>();
    for (const Json& plane : all.at("planes")) {
      const Json& port = plane.at("port");
      c.planes.push_back({port.at("tx_bytes").get<double>(), port.at("rx_bytes").get<double>()});
      c.sent += c.planes.back()[0];
      c.received += c.planes.back()[1];
      row.states.push_back(!plane.at("enabled").get<bool>() ? "disabled"
                           : plane.at("up").get<bool>()     ? "up"
                                                            : "down");
    }
    for (const Json& peer : device.list({{"request", "peers"}}, "peers")) {
      row.paths += peer.at("paths").get<std::uint64_t>();
      row.paths_up += peer.at("paths_up").get<std::uint64_t>();
    }
    row.planes.resize(c.planes.size());
    const auto known = before_.find(device.id());
    if (known == before_.end()) return row;
    const Counters& b = known->second;
    const double seconds = std::chrono::duration<double>(c.at - b.at).count();
    row.tx = (c.sent - b.sent) * 8 / seconds;
    row.rx = (c.received - b.received) * 8 / seconds;
    row.packets = (c.packets - b.packets) / seconds;
    row.again = (c.again - b.again) / seconds;
    for (std::size_t i = 0; i < std::min(row.planes.size(), b.planes.size()); ++i)
      for (const std::size_t way : {0, 1})
        row.planes[i][way] = (c.planes[i][way] - b.planes[i][way]) * 8 / seconds;
    return row;
  }

  [[nodiscard]] static std::string text_of(const std::vector<Row>& rows, std::size_t silent) {
    using tools::TableColumn;
    const auto gigabits = [](double bits) { return fmt::format("{:.2f}", bits / 1e9); };
    std::vector<TableColumn> c{{"process", true, {}},    {"send Gb/s", false, {}},
                               {"recv Gb/s", false, {}}, {"packets/s", false, {}},
                               {"again/s", false, {}},   {"qps", false, {}},
                               {"peers", false, {}},     {"paths up", false, {}}};
    std::vector<TableColumn> p{{"process", true, {}},
                               {"plane", false, {}},
                               {"state", true, {}},
                               {"send Gb/s", false, {}},
                               {"recv Gb/s", false, {}}};
    double tx = 0, rx = 0;
    for (const Row& row : rows) {
      tx += row.tx;
      rx += row.rx;
      const std::string cells[] = {row.title,
                                   gigabits(row.tx),
                                   gigabits(row.rx),
                                   fmt::format("{:.0f}", row.packets),
                                   fmt::format("{:.0f}", row.again),
                                   std::to_string(row.queue_pairs),
                                   std::to_string(row.peers),
                                   fmt::format("{}/{}", row.paths_up, row.paths)};
      for (std::size_t i = 0; i < c.size(); ++i) c[i].cells.push_back(cells[i]);
      for (std::size_t i = 0; i < row.planes.size(); ++i) {
        const std::string plane[] = {i == 0 ? row.title : std::string(), std::to_string(i),
                                     row.states[i], gigabits(row.planes[i][0]),
                                     gigabits(row.planes[i][1])};
        for (std::size_t k = 0; k < p.size(); ++k) p[k].cells.push_back(plane[k]);
      }
    }
    std::string text =
        fmt::format("mrc_ctl top: {} devices, sending {} Gb/s, receiving {} Gb/s{}\n", rows.size(),
                    gigabits(tx), gigabits(rx),
                    silent > 0 ? fmt::format(", {} do not answer", silent) : std::string());
    text += "keys: q ends, t sorts by throughput, n by name\n\n";
    if (rows.empty()) return text;
    const std::size_t width = tools::output_width(tools::kUnlimitedWidth);
    return text + tools::table_text(std::move(c), width) + "\n" +
           tools::table_text(std::move(p), width);
  }

  const Options& options_;
  std::map<std::string, Counters> before_;  ///< by id
  bool by_name_ = false;
};

}  // namespace

int run_top(const Options& o) {
  const tools::HeldSignals signals;
  const Screen screen;
  Top top(o);
  (void)top.picture();  // what throughput is counted from
  unsigned shown = 0;
  Time next = monotonic_now() + std::min<Duration>(o.interval, std::chrono::milliseconds(500));
  while (!tools::g_interrupted) {
    const Duration left = next - monotonic_now();
    if (left > Duration(0)) {
      const char key = screen.wait(signals, left);
      if (key == 'q') return 0;
      if (key == 'n' || key == 't') top.sort_by_name(key == 'n');
      continue;
    }
    next = monotonic_now() + o.interval;
    screen.show(top.picture());
    if (o.rounds && ++shown >= *o.rounds) return 0;
  }
  return tools::kInterruptedStatus;
}

}  // namespace mrc::ctl_tool
