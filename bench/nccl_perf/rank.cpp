// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/rank.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <memory>
#include <sstream>
#include <thread>

#include "common/interrupt.hpp"
#include "mrc/core/error.hpp"
#include "nccl_perf/environment.hpp"
#include "nccl_perf/failure.hpp"
#include "nccl_perf/network.hpp"
#include "nccl_perf/pattern.hpp"
#include "nccl_perf/progress.hpp"

namespace mrc::nccl_perf {
namespace {

/// Page-aligned memory.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes) : bytes_(bytes) {
    void* const p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (p == MAP_FAILED) throw_errno(fmt::format("can't allocate {} bytes", bytes));
    data_ = static_cast<std::byte*>(p);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { munmap(data_, bytes_); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }

 private:
  std::size_t bytes_;
  std::byte* data_;
};

/// Measurements of networks that take turns are so long, or take that many operations: where
/// packets are lost, most of the time goes into few of them.
constexpr double kTurnSeconds = 0.05;
constexpr int kTurnOperations = 4;

/// A network's connections for an operation, and the thread that drives them.
struct Connected {
  Connected(const SetUp& set_up, const Peers& peers, std::size_t slot)
      : progress(set_up.network, connections, set_up.patience) {
    connect_all(set_up, peers, slot, connections);
  }

  Connections connections;
  Progress progress;
};

class Rank {
 public:
  Rank(const Options& options, int rank, UniqueFd socket)
      : o_(options), rank_(rank), bootstrap_(std::move(socket)) {
    std::size_t input = 0, output = 0;
    for (const Collective c : o_.collectives)
      for (const std::uint64_t size : o_.sizes) {
        const Volume v = volume(c, o_.shape.ranks, whole_size(c, o_.shape.ranks, size));
        input = std::max(input, v.input);
        output = std::max(output, v.output);
      }
    input_ = std::make_unique<Buffer>(input);
    output_ = std::make_unique<Buffer>(output);
  }

  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() { bootstrap_.tell(Message::checked, std::to_string(checked_)); }

  void run() {
    std::deque<OpenNetwork> networks;
    networks.emplace_back(o_, o_.net);
    if (!o_.against.empty()) {
      const ScopedVariables variables(o_.against_variables, rank_);
      networks.emplace_back(o_, o_.against);
    }
    for (std::size_t c = 0; c < o_.collectives.size(); ++c) run_collective(networks, c);
    for (OpenNetwork& network : networks) network.close();
  }

 private:
  /// Connects, measures all sizes and closes.
  void run_collective(const std::deque<OpenNetwork>& networks, std::size_t index) {
    const Collective c = o_.collectives[index];
    std::deque<Connected> parties;
    for (const OpenNetwork& network : networks)
      parties.emplace_back(SetUp{network.get(), bootstrap_, rank_, o_.patience},
                           peers_of(c, o_.shape, rank_), o_.shape.largest(c));
    for (std::size_t size = 0; size < o_.sizes.size(); ++size) {
      auto results = measure(parties, c, whole_size(c, o_.shape.ranks, o_.sizes[size]));
      for (RankResult& result : results) {
        result.collective = static_cast<std::uint32_t>(index);
        result.size = static_cast<std::uint32_t>(size);
        bootstrap_.tell(Message::result, to_text(result));
      }
    }
  }

  /// The networks take turns, measurement by measurement, and to be first as well.
  std::vector<RankResult> measure(std::deque<Connected>& parties, Collective c, std::size_t size) {
    const auto programs = programs_of(c, o_.shape, rank_, size);
    fill_input(c, rank_, 0, input_->data(), volume(c, o_.shape.ranks, size).input);
    std::vector<RankResult> results(parties.size());
    const auto operate = [&](std::size_t net, int operations) {
      bootstrap_.barrier();
      Duration time{};
      for (int i = 0; i < operations; ++i)
        time += operate_once(parties[net].progress, c, programs, size);
      return std::chrono::duration<double>(time).count() / operations;
    };
    double seconds = 0;
    for (std::size_t net = 0; net < parties.size() && o_.warmup > 0; ++net)
      seconds = std::max(seconds, operate(net, o_.warmup));
    const int iterations = iterations_of(size, seconds);
    for (int r = 0; r < o_.repetitions; ++r)
      for (std::size_t turn = 0; turn < parties.size(); ++turn) {
        const std::size_t net = (turn + static_cast<std::size_t>(r)) % parties.size();
        if (parties.size() > 1) operate(net, 1);  // the caches have held the other one's
        results[net].net = static_cast<std::uint32_t>(net);
        results[net].seconds.push_back(operate(net, iterations));
      }
    return results;
  }

  /// Operations of a measurement. Networks that take turns have short ones, as rank 0 says, where
  /// an operation took `seconds` over the slower of them.
  int iterations_of(std::size_t size, double seconds) {
    const int most = o_.iterations_of(size);
    if (o_.against.empty() || o_.iterations > 0) return most;
    const double fit = seconds > 0 ? kTurnSeconds / seconds : most;
    const int own = std::max(static_cast<int>(std::min<double>(fit, most)), kTurnOperations);
    return std::stoi(bootstrap_.exchange(std::to_string(own)).front());
  }

  Duration operate_once(Progress& progress, Collective c, const std::vector<Program>& programs,
                        std::size_t size) {
    const Volume v = volume(c, o_.shape.ranks, size);
    if (o_.check) {
      fill_input(c, rank_, ++round_, input_->data(), v.input);
      spoil(output_->data(), v.output);
    }
    const Duration time = progress.run({&programs, input_->data(), output_->data()});
    if (!o_.check) return time;
    const std::size_t wrong = wrong_elements(c, o_.shape, rank_, round_, output_->data(), size);
    if (wrong != 0)
      throw Failure(fmt::format("{} of {} bytes: {} floats are wrong", to_string(c), size, wrong));
    checked_ += v.output;
    return time;
  }

  const Options& o_;
  int rank_;
  Bootstrap bootstrap_;
  std::unique_ptr<Buffer> input_, output_;
  std::uint32_t round_ = 0;
  std::uint64_t checked_ = 0;  // bytes
};

/// After Ctrl-C one rank may see that another one has closed before it gets the signal itself.
bool interrupted_soon() {
  for (int i = 0; i < 20 && !tools::g_interrupted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return tools::g_interrupted;
}

int report_error(int rank, const char* what) {
  fmt::print(stderr, "rank {}: ERROR {}\n", rank, what);
  return kFailedStatus;
}

}  // namespace

std::string to_text(const RankResult& result) {
  std::ostringstream out;
  out.precision(12);
  out << result.collective << ' ' << result.size << ' ' << result.net;
  for (const double s : result.seconds) out << ' ' << s;
  return out.str();
}

RankResult result_of(const std::string& text) {
  std::istringstream in(text);
  RankResult result;
  in >> result.collective >> result.size >> result.net;
  for (double s = 0; in >> s;) result.seconds.push_back(s);
  return result;
}

int run_rank(const Options& options, int rank, UniqueFd bootstrap) {
  try {
    enter_environment(options, rank);
    Rank(options, rank, std::move(bootstrap)).run();
    return 0;
  } catch (const Interrupted&) {
    return tools::kInterruptedStatus;
  } catch (const std::exception& error) {
    return interrupted_soon() ? tools::kInterruptedStatus : report_error(rank, error.what());
  }
}

}  // namespace mrc::nccl_perf
