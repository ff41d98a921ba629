// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/options.hpp"

#include <algorithm>
#include <charconv>

#include "common/command_line.hpp"
#include "common/files.hpp"
#include "mrc_perf/units.hpp"

namespace mrc::nccl_perf {
namespace {

constexpr std::uint64_t kLargestSize = std::uint64_t{1} << 30;

[[noreturn]] void reject(const std::string& option, const std::string& text,
                         const std::string& allowed) {
  throw CLI::ValidationError(fmt::format("{} {}: must be {}", option, text, allowed));
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<Collective> parse_collectives(const std::string& text) {
  if (text == "all") return {kCollectives.begin(), kCollectives.end()};
  std::vector<Collective> found;
  for (const std::string& name : perf::split(text, ',')) {
    const auto c = parse_collective(name);
    if (!c)
      reject("--collective", name,
             "all, or a list of all_reduce, all_reduce_tree, all_gather, reduce_scatter, "
             "all_to_all, send_receive");
    found.push_back(*c);
  }
  return found;
}

std::uint64_t parse_size(const std::string& option, const std::string& text, std::uint64_t most) {
  const auto size = perf::parse_size(text);
  if (!size || *size < sizeof(float) || *size > most)
    reject(option, text,
           fmt::format("a size from 4 to {} (K, M, G are binary)", perf::size_text(most)));
  return *size;
}

std::vector<std::uint64_t> parse_sizes(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  for (const std::string& part : perf::split(text, ',')) {
    const std::size_t dots = part.find("..");
    if (dots == std::string::npos) {
      sizes.push_back(parse_size("--size", part, kLargestSize));
      continue;
    }
    const auto last = parse_size("--size", part.substr(dots + 2), kLargestSize);
    for (auto s = parse_size("--size", part.substr(0, dots), kLargestSize); s <= last; s *= 2)
      sizes.push_back(s);
  }
  if (sizes.empty()) reject("--size", text, "at least one size");
  return sizes;
}

RankVariable parse_variable(const std::string& option, const std::string& text) {
  RankVariable v;
  std::string rest = text;
  const std::size_t colon = text.find(':'), equals = text.find('=');
  if (colon < equals) {
    const auto rank = number(text.substr(0, colon));
    if (!rank || *rank < 0) reject(option, text, "NAME=VALUE or RANK:NAME=VALUE");
    v.rank = *rank;
    rest = text.substr(colon + 1);
  }
  const std::size_t at = rest.find('=');
  if (at == std::string::npos || at == 0) reject(option, text, "NAME=VALUE or RANK:NAME=VALUE");
  v.name = rest.substr(0, at);
  v.value = rest.substr(at + 1);
  return v;
}

Kill parse_kill(const std::string& text) {
  const std::size_t at = text.find('@');
  const auto rank = number(text.substr(0, at));
  const auto after =
      at == std::string::npos ? std::nullopt : perf::parse_duration(text.substr(at + 1));
  if (!rank || *rank < 0 || !after) reject("--kill", text, "RANK@TIME, such as 3@250ms");
  return {*rank, *after};
}

template <class Parse>
void add_text(CLI::App& app, const char* name, const char* type, const char* help, Parse parse) {
  app.add_option_function<std::string>(name, parse, help)->type_name(type);
}

void add_variables(CLI::App& app, const char* name, const char* help,
                   std::vector<RankVariable>& variables) {
  app.add_option_function<std::vector<std::string>>(
         name,
         [name, &variables](const std::vector<std::string>& all) {
           for (const auto& t : all) variables.push_back(parse_variable(name, t));
         },
         help)
      ->type_name("VARIABLE");
}

void add_operation_options(CLI::App& app, Options& o) {
  add_text(app, "--collective", "NAMES",
           "all, or a list of all_reduce (a ring; default), all_reduce_tree, all_gather, "
           "reduce_scatter, all_to_all, send_receive",
           [&o](const std::string& t) { o.collectives = parse_collectives(t); });
  add_text(app, "--size", "SIZES",
           "Sizes as NCCL's tests count them, a list or a range that doubles: 8..64M "
           "(default 1M,4M,16M)",
           [&o](const std::string& t) { o.sizes = parse_sizes(t); });
  app.add_option("--channels", o.shape.channels, "Rings, trees or connections per pair")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  add_text(app, "--chunk", "SIZE", "Largest message of rings and trees (default 512K)",
           [&o](const std::string& t) { o.shape.chunk = parse_size("--chunk", t, 64 << 20); });
  add_text(
      app, "--p2p-chunk", "SIZE", "Largest message between pairs (default 128K)",
      [&o](const std::string& t) { o.shape.p2p_chunk = parse_size("--p2p-chunk", t, 64 << 20); });
  app.add_option("--repetitions", o.repetitions, "Measurements per size")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--iterations", o.iterations,
                 "Operations per measurement (default 1 to 1000, so that they move 64 MiB; with "
                 "--against as many as take 50 ms, at least 4)")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--warmup", o.warmup, "Operations before the first measurement")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  app.add_flag("--check", o.check, "Verify every byte of every operation, untimed");
}

void add_rank_options(CLI::App& app, Options& o) {
  app.add_option("--ranks", o.shape.ranks, "Processes")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  add_text(app, "--netns", "NAMES", "Network namespaces of the ranks, a list (needs root)",
           [&o](const std::string& t) { o.netns = perf::split(t, ','); });
  add_variables(
      app, "--env",
      "Environment variable of all ranks, NAME=VALUE, or of one, RANK:NAME=VALUE; repeatable",
      o.variables);
  app.add_flag("--pin", o.pin, "Rank r stays on processor r, modulo their number");
  add_text(app, "--patience", "TIME",
           "When connections take longer, or nothing moves for so long, it is an error "
           "(default 60s)",
           [&o](const std::string& t) {
             const auto time = perf::parse_duration(t);
             if (!time || *time <= Duration{0}) reject("--patience", t, "a time such as 30s");
             o.patience = *time;
           });
  add_text(app, "--kill", "RANK@TIME", "End a rank by SIGKILL so long after the start",
           [&o](const std::string& t) { o.kill = parse_kill(t); });
}

void add_net_options(CLI::App& app, Options& o) {
  app.add_option("--net", o.net,
                 "mrc: this build's plugin; socket: TCP as NCCL's own transport uses it, on the "
                 "interfaces that NCCL_SOCKET_IFNAME allows; else a plugin, as in NCCL_NET_PLUGIN")
      ->type_name("NET")
      ->capture_default_str();
  app.add_option("--against", o.against,
                 "A second one, which takes turns with the first, measurement by measurement; "
                 "shows the first one's bandwidth as a multiple of its own")
      ->type_name("NET");
  add_variables(app, "--against-env", "Like --env, while the network of --against is opened",
                o.against_variables);
  app.add_option("--api", o.api, "Version of the plugin's interface (default: the newest it has)")
      ->check(CLI::Range(6, 12));
  app.add_option("--sockets", o.sockets, "TCP: NCCL_NSOCKS_PERTHREAD, connections per thread")
      ->check(CLI::Range(0, 16));
  app.add_option("--threads", o.threads, "TCP: NCCL_SOCKET_NTHREADS, helper threads")
      ->check(CLI::Range(0, 16));
  app.add_option("--congestion", o.congestion,
                 "TCP's congestion control, such as cubic (default: the machine's)")
      ->type_name("NAME");
  app.add_option("--json", o.json, "Write the results to this file")->type_name("FILE");
  app.add_flag("--quiet", o.quiet, "No table");
}

void validate(const Options& o) {
  if (!o.netns.empty() && o.netns.size() != static_cast<std::size_t>(o.shape.ranks))
    throw CLI::ValidationError(
        fmt::format("--netns: names {} namespaces for {} ranks", o.netns.size(), o.shape.ranks));
  for (const auto* all : {&o.variables, &o.against_variables})
    for (const RankVariable& v : *all)
      if (v.rank >= o.shape.ranks)
        throw CLI::ValidationError(fmt::format("--{}env {}:{}: there is no such rank",
                                               all == &o.variables ? "" : "against-", v.rank,
                                               v.name));
  if (!o.against_variables.empty() && o.against.empty())
    throw CLI::ValidationError("--against-env: only with --against");
  if (o.against == o.net && o.net != "socket")
    throw CLI::ValidationError(
        "--against: a plugin serves a process once; name a copy of its file");
  if (o.kill && o.kill->rank >= o.shape.ranks)
    throw CLI::ValidationError(fmt::format("--kill {}: there is no such rank", o.kill->rank));
  if ((o.sockets > 0) != (o.threads > 0))
    throw CLI::ValidationError("--sockets and --threads: give both or none");
  if (o.sockets > 0 && o.net != "socket" && o.against != "socket")
    throw CLI::ValidationError("--sockets and --threads: only with --net or --against socket");
}

}  // namespace

std::vector<std::string> Options::nets() const {
  return against.empty() ? std::vector{net} : std::vector{net, against};
}

int Options::iterations_of(std::uint64_t size) const noexcept {
  if (iterations > 0) return iterations;
  return static_cast<int>(std::clamp<std::uint64_t>((64 << 20) / size, 1, 1000));
}

Options parse_options(int argc, char** argv) {
  Options o;
  CLI::App app(
      "Collective operations between processes of this machine through a net plugin of NCCL, as "
      "NCCL's proxy threads use it, or over TCP. No GPU is needed: the work of its kernels is done "
      "by the progress threads.\nExit status: 0; 3 if a rank got an error or wrong data.",
      "nccl_perf");
  add_operation_options(app, o);
  add_rank_options(app, o);
  add_net_options(app, o);
  tools::parse_command_line(app, argc, argv, [&o] { validate(o); });
  for (int i = 0; i < argc; ++i) o.command += (i == 0 ? "" : " ") + std::string(argv[i]);
  tools::check_writable(o.json);
  return o;
}

}  // namespace mrc::nccl_perf
