// SPDX-License-Identifier: Apache-2.0
// Four threads that write over one device at the same time. Each has a lane of its own, and with it
// an engine, ports and a lock: they share nothing on the data path. One memory region serves them
// all. Sender and receiver are two devices of this process; in two processes it is the same.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mrc/mrc.hpp"

namespace {

constexpr std::size_t kWrite = 256 << 10;  // bytes per request
constexpr unsigned kDepth = 16;            // requests that are under way
constexpr auto kPatience = std::chrono::seconds(20);

/// What a thread needs: a completion queue of its own, and a queue pair in a lane of its own.
struct Worker {
  Worker(mrc::Device& device, unsigned lane)
      : cq(device.create_cq(2 * kDepth)), qp(device.create_qp({.send_cq = &cq, .lane = lane})) {}
  mrc::CompletionQueue cq;
  mrc::QueuePair qp;
};

/// Copies `length` bytes at `source`, which is part of region `key`, to `target`. Returns Gb/s.
double copy(Worker& worker, const std::uint8_t* source, std::uint32_t key,
            mrc::RemoteAddress target, std::size_t length) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<mrc::Completion> done(kDepth);
  std::size_t posted = 0;
  unsigned under_way = 0;
  while (posted < length || under_way > 0) {
    while (posted < length && under_way < kDepth) {
      const std::size_t n = std::min(kWrite, length - posted);
      const mrc::Sge sge{source + posted, static_cast<std::uint32_t>(n), key};
      const mrc::SendRequest request{.sges = {&sge, 1},
                                     .remote = {target.address + posted, target.rkey}};
      if (const mrc::Errc e = worker.qp.post_send(request); e != mrc::Errc::ok)
        throw mrc::Error(e, "posting a write");
      posted += n;
      ++under_way;
    }
    const std::size_t n = worker.cq.wait(done, kPatience);
    if (n == 0) throw std::runtime_error("no write has ended for 20 s");
    for (std::size_t i = 0; i < n; ++i)
      if (done[i].status != mrc::WcStatus::success)
        throw std::runtime_error(worker.qp.error_text());
    under_way -= static_cast<unsigned>(n);
  }
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  return 8e-9 * static_cast<double>(length) / time.count();
}

void run(unsigned lanes, std::size_t bytes) {
  mrc::Config config = mrc::Config::from_environment();
  config.lanes = static_cast<std::uint16_t>(lanes);
  mrc::Device here(config), there(config);
  lanes = std::min(here.lane_count(), there.lane_count());  // fewer if there is not room for all

  std::vector<std::uint8_t> from(bytes * lanes), to(bytes * lanes);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 131 >> 7);
  const auto source = here.register_memory(from, mrc::Access::none);
  const auto target = there.register_memory(to, mrc::Access::remote_write);

  std::vector<Worker> senders, receivers;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    senders.emplace_back(here, lane);
    receivers.emplace_back(there, lane);
    senders[lane].qp.connect(receivers[lane].qp.local_info());
    receivers[lane].qp.connect(senders[lane].qp.local_info());
  }

  std::vector<double> gbps(lanes);
  std::vector<std::exception_ptr> errors(lanes);
  std::vector<std::thread> threads;
  for (unsigned lane = 0; lane < lanes; ++lane)
    threads.emplace_back([&, lane] {
      try {
        gbps[lane] = copy(senders[lane], from.data() + lane * bytes, source.lkey(),
                          target.remote(lane * bytes), bytes);
      } catch (...) {
        errors[lane] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);

  if (from != to) throw std::runtime_error("the bytes differ");
  double sum = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    std::printf("lane %u: queue pair %u, %.1f Gb/s\n", lane, value(senders[lane].qp.qpn()),
                gbps[lane]);
    sum += gbps[lane];
  }
  std::printf("%u lane%s: %.1f Gb/s, every byte right\n", lanes, lanes == 1 ? "" : "s", sum);
}

}  // namespace

int main(int argc, char** argv) {
  unsigned lanes = 4;
  std::size_t mebibytes = 64;
  CLI::App app("Threads that write over one device, each in a lane of its own.");
  app.add_option("--lanes", lanes, "threads, and lanes of each device")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--mib", mebibytes, "MiB that each thread writes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(lanes, mebibytes << 20);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "four_lanes: %s\n", error.what());
    return 1;
  }
}
