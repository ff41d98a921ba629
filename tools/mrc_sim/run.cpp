// SPDX-License-Identifier: Apache-2.0
#include "mrc_sim/run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <exception>
#include <mutex>
#include <thread>

#include "common/interrupt.hpp"
#include "mrc_sim/metrics.hpp"
#include "mrc_sim/progress.hpp"

namespace mrc::tools {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Runs in pieces of about a twentieth of a second, so that it can be interrupted.
void run_to_end(sim::Simulation& simulation, Progress& progress, const std::atomic<bool>& give_up) {
  Duration piece{1000};
  bool more = true;
  while (more && !g_interrupted && !give_up) {
    const auto before = Clock::now();
    more = simulation.advance(piece);
    const double took = seconds_since(before);
    if (took < 0.02) piece *= 2;
    if (took > 0.1 && piece.count() > 1) piece /= 2;
    progress.now_ns = simulation.network().now().time_since_epoch().count();
    progress.events = simulation.network().events();
  }
}

void run_variant(const Variant& variant, Outcome& outcome, Progress& progress,
                 const std::atomic<bool>& give_up, const Harvest& harvest) {
  auto start = Clock::now();
  progress.running = true;
  sim::Simulation simulation(variant.scenario);
  outcome.started = true;
  outcome.build_seconds = seconds_since(start);
  start = Clock::now();
  run_to_end(simulation, progress, give_up);
  outcome.run_seconds = seconds_since(start);
  outcome.complete = simulation.ended();
  outcome.summary = sim::summarize(simulation);
  harvest(variant, outcome, simulation);
  progress.running = false;
  progress.done = outcome.complete;
}

/// Threads that each run one variant after another.
class Crew {
 public:
  Crew(const Job& job, const Harvest& harvest)
      : job_(job), harvest_(harvest), outcomes_(job.variants.size()) {
    for (const Variant& v : job.variants) {
      progress_.push_back(std::make_unique<Progress>());
      progress_.back()->end_ns = v.scenario.end.time_since_epoch().count();
    }
  }

  std::vector<Outcome> run(unsigned threads, ProgressDisplay display) {
    ProgressLine line(job_, progress_, display);
    {
      std::vector<std::jthread> crew;
      for (unsigned i = 0; i < threads; ++i) crew.emplace_back([this] { work(); });
      left_ = threads;
      while (left_ > done_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        line.update();
      }
    }
    line.finish();
    if (error_) std::rethrow_exception(error_);
    return std::move(outcomes_);
  }

 private:
  void work() {
    for (std::size_t i = next_++; i < outcomes_.size(); i = next_++) {
      if (g_interrupted || failed_) break;
      try {
        run_variant(job_.variants[i], outcomes_[i], *progress_[i], failed_, harvest_);
        if (outcomes_.size() > 1) std::vector<sim::FlowSummary>().swap(outcomes_[i].summary.flows);
      } catch (const Error& error) {
        const std::string& name = job_.variants[i].name;
        fail(std::make_exception_ptr(
            Error(error.code(), name.empty() ? reason(error) : name + ": " + reason(error))));
      } catch (...) {
        fail(std::current_exception());
      }
    }
    ++done_;
  }
  void fail(std::exception_ptr error) {
    const std::scoped_lock lock(mutex_);
    if (!failed_.exchange(true)) error_ = std::move(error);
  }

  const Job& job_;
  const Harvest& harvest_;
  std::vector<Outcome> outcomes_;
  std::vector<std::unique_ptr<Progress>> progress_;
  std::atomic<std::size_t> next_{0};
  std::atomic<unsigned> done_{0};
  unsigned left_ = 0;
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;  // guarded by mutex_
};

}  // namespace

std::vector<Outcome> run_job(const Job& job, unsigned threads, ProgressDisplay display,
                             const Harvest& harvest) {
  const auto most = static_cast<unsigned>(job.variants.size());
  return Crew(job, harvest).run(std::clamp(threads, 1u, most), display);
}

}  // namespace mrc::tools
