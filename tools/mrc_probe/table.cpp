// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "common/terminal.hpp"
#include "mrc_probe/output.hpp"

namespace mrc::probe_tool {
namespace {

/// Columns of a plane, and of the round-trip times.
constexpr std::size_t kPlaneWidth = 9, kTimesWidth = 27;
/// What is printed without --verbose, at most.
constexpr std::size_t kMostRows = 40, kMostPaths = 40;

/// Paths of which the table shows the number.
struct Row {
  std::string name;
  std::vector<std::size_t> paths;
};

/// "   35.1     40.2     66.0", in microseconds.
std::string rtt_text(const std::vector<Duration>& rtts) {
  const auto span = span_of(rtts);
  if (!span) return fmt::format("{:>9}{:>9}{:>9}", "-", "-", "-");
  return fmt::format("{:9.1f}{:9.1f}{:9.1f}", span->least, span->median, span->largest);
}

class Table {
 public:
  Table(const Description& d, const Report& r, bool verbose) : d_(d), r_(r), verbose_(verbose) {
    for (std::size_t i = 0; i < r.paths.size(); ++i) {
      const ProbePath& path = r.paths[i];
      if (r.results[i].tries == 0) continue;  // a detour for packets of full size
      const std::size_t row =
          path.kind == PathKind::peer ? kLoops + path.to : static_cast<std::size_t>(path.kind);
      if (row >= rows_.size()) rows_.resize(row + 1);
      rows_[row].paths.push_back(i);
      rows_[row].name = path.kind == PathKind::peer ? d.hosts[path.to].name : to_string(path.kind);
    }
    std::erase_if(rows_, [](const Row& row) { return row.paths.empty(); });
    for (const Row& row : rows_) width_ = std::max(width_, row.name.size());
  }

  void print() const {
    fmt::print("{} ({}) from {} at {}: {} paths, {} probes in {:.0f} ms\n", d_.name, d_.file,
               d_.hosts[r_.self].name, clock_text(r_.started), r_.paths.size(), r_.probes,
               std::chrono::duration<double, std::milli>(r_.took).count());
    // Planes that don't fit a line are shown below.
    const std::size_t names = width_ + 2 + kTimesWidth,
                      columns = tools::output_width(tools::kUnlimitedWidth);
    const auto abreast = static_cast<unsigned>(
        std::max<std::size_t>(1, (columns - std::min(columns, names)) / kPlaneWidth));
    for (unsigned p = 0; p < d_.planes; p += abreast) print_planes(p, abreast);
    print_paths();
    const auto all = troubles(d_, r_);
    if (!all.empty()) fmt::print("\n");
    for (const Trouble& t : all) fmt::print("{}: {} ({})\n", to_string(t.kind), t.what, t.detail);
    if (all.empty()) fmt::print("\nall alive\n");
  }

 private:
  static constexpr std::size_t kLoops = static_cast<std::size_t>(PathKind::peer);

  [[nodiscard]] bool fails(std::size_t path) const {
    return r_.results[path].lost() > 0 || is_narrow(path) || is_slow(path);
  }
  [[nodiscard]] bool is_narrow(std::size_t path) const {
    return path < r_.full.size() && r_.full[path].tries > 0 && r_.full[path].answered == 0;
  }
  /// It passes a part that is slow.
  [[nodiscard]] bool is_slow(std::size_t path) const {
    const std::vector<Part>& parts = r_.paths[path].there;
    return path < r_.loads.size() && r_.loads[path].trains > 0 &&
           (std::count(r_.slow.dead_paths.begin(), r_.slow.dead_paths.end(), path) > 0 ||
            std::any_of(r_.slow.dead.begin(), r_.slow.dead.end(), [&](const Finding& f) {
              return std::binary_search(parts.begin(), parts.end(), f.part);
            }));
  }
  /// "9.6", in Mb/s.
  [[nodiscard]] std::string load_text(std::size_t path) const {
    if (path >= r_.loads.size() || r_.loads[path].best() == 0) return "-";
    return fmt::format("{:.1f}", r_.megabits(r_.loads[path].best()));
  }
  /// "3 of 3", of probes of full size.
  [[nodiscard]] std::string full_text(std::size_t path) const {
    return path >= r_.full.size() ? "-" : answered_text(r_.full[path]);
  }
  [[nodiscard]] static std::string answered_text(const PathResult& result) {
    return result.tries == 0 ? "-" : fmt::format("{} of {}", result.answered, result.tries);
  }

  void print_planes(unsigned first, unsigned abreast) const {
    const unsigned end = std::min(first + abreast, d_.planes);
    fmt::print("\n{:<{}}", "paths alive", width_ + 2);
    for (unsigned p = first; p < end; ++p) fmt::print("{:>8} ", fmt::format("p{}", p));
    fmt::print("{:>9}{:>9}{:>9}\n", "min us", "median", "max");
    std::size_t left_out = 0;
    for (const Row& row : rows_) {
      const bool fine = std::none_of(row.paths.begin(), row.paths.end(),
                                     [this](std::size_t path) { return fails(path); });
      if (fine && !verbose_ && rows_.size() > kMostRows)
        ++left_out;
      else
        print_row(row, first, end);
    }
    if (left_out > 0) fmt::print("{} more rows without losses (--verbose shows them)\n", left_out);
  }

  void print_row(const Row& row, unsigned first, unsigned end) const {
    fmt::print("{:<{}}", row.name, width_ + 2);
    std::vector<Duration> rtts;
    for (unsigned p = first; p < end; ++p) {
      std::size_t count = 0, alive = 0;
      bool losses = false;
      for (const std::size_t i : row.paths) {
        if (r_.paths[i].plane != p) continue;
        ++count;
        alive += r_.results[i].answered > 0;
        losses = losses || fails(i);
        rtts.insert(rtts.end(), r_.results[i].rtts.begin(), r_.results[i].rtts.end());
      }
      const std::string cell = count == 0 ? "-" : fmt::format("{}/{}", alive, count);
      fmt::print("{:>8}{}", cell, losses ? '*' : ' ');
    }
    fmt::print("{}\n", rtt_text(rtts));
  }

  [[nodiscard]] bool is_listed(std::size_t path) const {
    if (verbose_) return true;
    const auto told = [&](const std::vector<unsigned>& hosts) {
      return r_.paths[path].kind == PathKind::peer &&
             std::count(hosts.begin(), hosts.end(), r_.paths[path].to) > 0;
    };
    if (is_slow(path)) return true;
    return (r_.results[path].lost() > 0 && !told(r_.verdict.silent)) ||
           (is_narrow(path) && !told(r_.narrow.silent));
  }

  void print_paths() const {
    std::size_t count = 0, width = 5;
    for (std::size_t i = 0; i < r_.paths.size(); ++i) {
      if (!is_listed(i)) continue;
      ++count;
      width = std::max(width, path_name(d_, r_.paths[i]).size());
    }
    if (count == 0) return;
    const auto full_cell = [this](const std::string& text) {
      return r_.full_size != 0 ? fmt::format("{:>12}", text) : "";
    };
    const auto load_cell = [this](const std::string& text) {
      return r_.loads.empty() ? "" : fmt::format("{:>10}", text);
    };
    const bool some_slow = !r_.slow.dead.empty() || !r_.slow.dead_paths.empty();
    const std::string title = verbose_    ? "all paths"
                              : some_slow ? "* paths with losses, or slow"
                                          : "* paths with losses";
    width = std::max({width, title.size(), std::size_t{20}});
    fmt::print("\n{:<{}}  {:>12}{}{}{:>9}{:>9}{:>9}\n", title, width, "answered",
               full_cell(fmt::format("{} bytes", r_.full_size)), load_cell("Mb/s"), "min us",
               "median", "max");
    std::size_t printed = 0;
    for (std::size_t i = 0; i < r_.paths.size() && (verbose_ || printed < kMostPaths); ++i) {
      if (!is_listed(i)) continue;
      ++printed;
      const PathResult& result = r_.results[i];
      fmt::print("{:<{}}  {:>12}{}{}{}{}\n", path_name(d_, r_.paths[i]), width,
                 answered_text(result), full_cell(full_text(i)), load_cell(load_text(i)),
                 rtt_text(result.rtts), r_.paths[i].denied ? "  denied" : "");
    }
    if (count > printed) fmt::print("... {} more (--verbose lists all)\n", count - printed);
  }

  const Description& d_;
  const Report& r_;
  bool verbose_;
  std::vector<Row> rows_;
  std::size_t width_ = 11;  ///< of the rows' names
};

}  // namespace

std::optional<RttSpan> span_of(const std::vector<Duration>& rtts) {
  if (rtts.empty()) return std::nullopt;
  std::vector<double> us;
  for (const Duration rtt : rtts) us.push_back(static_cast<double>(rtt.count()) / 1000);
  const auto [least, largest] = std::minmax_element(us.begin(), us.end());
  return RttSpan{*least, upper_median(us), *largest};
}

std::string clock_text(WallTime time) {
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time - whole).count();
  return fmt::format("{:%H:%M:%S}.{:03}",
                     fmt::localtime(std::chrono::system_clock::to_time_t(whole)), ms);
}

void print_report(const Description& d, const Report& report, bool verbose) {
  Table(d, report, verbose).print();
}

}  // namespace mrc::probe_tool
