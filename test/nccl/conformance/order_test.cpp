// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>
#include <cstring>

#include "nccl/conformance/traffic.hpp"

// NCCL's protocols LL and LL128 put flags into the data; whoever receives polls them while the data
// arrives. A flag that is seen before its data would be taken for data of the step.

using namespace nccl_conformance;

namespace order_test {

/// Lines of `words` words of 8 bytes. Words before the last are data, the last one's upper half is
/// the flag, and its lower half is data.
struct Lines {
  std::size_t words;
  std::size_t bytes;

  [[nodiscard]] std::size_t count() const { return bytes / (words * 8); }
  static std::uint64_t value(std::size_t index, std::uint32_t flag) { return mix(index, flag); }
  [[nodiscard]] std::uint64_t word(std::size_t index, std::uint32_t flag) const {
    const std::uint64_t data = value(index, flag);
    if (index % words != words - 1) return data;
    return (data & 0xffffffffu) | std::uint64_t{flag} << 32;
  }

  void fill(std::uint64_t* data, std::uint32_t flag) const {
    for (std::size_t i = 0; i < bytes / 8; ++i) data[i] = word(i, flag);
  }
  /// True: the line has arrived. Fails if its flag is there and its data is not.
  bool poll(std::uint64_t* data, std::size_t line, std::uint32_t flag) const {
    const std::size_t begin = line * words;
    const auto last = std::atomic_ref(data[begin + words - 1]).load(std::memory_order_acquire);
    if (last >> 32 != flag) return false;
    for (std::size_t i = 0; i < words; ++i) {
      const auto got = std::atomic_ref(data[begin + i]).load(std::memory_order_relaxed);
      if (got == word(begin + i, flag)) continue;
      throw Failure("line " + std::to_string(line) + " of step " + std::to_string(flag) +
                    ": the flag came before word " + std::to_string(i));
    }
    return true;
  }
};

constexpr std::size_t kSteps = 8;

/// Buffers of kSteps steps, aligned as NCCL's are.
struct StepBuffers {
  StepBuffers(Net& over, void* of, std::size_t bytes)
      : net(over), comm(of), size(bytes), memory(kSteps * bytes / 8 + 512) {
    start = memory.data() + (4096 - reinterpret_cast<std::uintptr_t>(memory.data()) % 4096) / 8;
    ok(net.reg(comm, start, kSteps * size, nccl_abi::kHostMemory, &mr), "reg");
  }
  ~StepBuffers() { (void)net.dereg(comm, mr); }
  StepBuffers(const StepBuffers&) = delete;
  StepBuffers& operator=(const StepBuffers&) = delete;

  [[nodiscard]] std::uint64_t* at(std::uint32_t step) const {
    return start + step % kSteps * size / 8;
  }

  Net& net;
  void* comm;
  std::size_t size;
  std::vector<std::uint64_t> memory;
  std::uint64_t* start;
  void* mr = nullptr;
};

/// Sends steps 1 to `steps`, at most kSteps ahead of what was received.
void send_steps(Net& net, void* comm, const StepBuffers& buffers, const Lines& lines,
                std::uint32_t steps, const std::atomic<std::uint32_t>& received) {
  void* requests[kSteps] = {};
  for (std::uint32_t step = 1; step <= steps; ++step) {
    void*& request = requests[step % kSteps];
    const auto finish = [&] {
      if (!request) return true;
      int done = 0;
      ok(net.test(request, &done, nullptr), "test of a send");
      if (done) request = nullptr;
      return done != 0;
    };
    until("send", [&] { return finish() && step <= received + kSteps; });
    lines.fill(buffers.at(step), step);
    until("isend", [&] {
      ok(net.isend(comm, buffers.at(step), lines.bytes, 0, buffers.mr, nullptr, &request), "isend");
      return request != nullptr;
    });
  }
  for (void*& request : requests) {
    until("last sends", [&] {
      int done = request == nullptr;
      if (request) ok(net.test(request, &done, nullptr), "test of a send");
      return done != 0;
    });
  }
}

/// Posts receives and tests them, as the progress thread does.
void receive_steps(Net& net, void* comm, const StepBuffers& buffers, const Lines& lines,
                   std::uint32_t steps, const std::atomic<std::uint32_t>& received) {
  std::deque<void*> requests;
  std::uint32_t posted = 0;
  until("receives", [&] {
    while (posted < steps && posted < received + kSteps) {
      void* request = nccl_abi::optional_receive_completion();
      void* data = buffers.at(posted + 1);
      std::size_t bytes = lines.bytes;
      int tag = 0;
      void* mr = buffers.mr;
      void* parent = nullptr;
      ok(net.irecv(comm, 1, &data, &bytes, &tag, &mr, &parent, &request), "irecv");
      if (!request) break;
      requests.push_back(request);
      ++posted;
    }
    while (!requests.empty()) {
      int done = 0;
      ok(net.test(requests.front(), &done, nullptr), "test of a receive");
      if (!done) break;
      requests.pop_front();
    }
    return posted == steps && requests.empty();
  });
}

/// Looks at the flags while data comes, as a GPU's threads do: lines in any order.
void poll_steps(const StepBuffers& buffers, const Lines& lines, std::uint32_t steps,
                std::atomic<std::uint32_t>& received) {
  Random random(8);
  std::vector<char> seen;
  for (std::uint32_t step = 1; step <= steps; ++step) {
    seen.assign(lines.count(), 0);
    std::size_t missing = lines.count();
    // One line is watched all the time, so that its flag is seen as soon as it is there.
    const std::size_t watched = random.below(lines.count());
    const auto look = [&](std::size_t line) {
      if (seen[line] || !lines.poll(buffers.at(step), line, step)) return;
      seen[line] = 1;
      --missing;
    };
    until("the flag of line " + std::to_string(watched), [&] {
      for (int i = 0; i < 1000 && !seen[watched]; ++i) look(watched);
      return seen[watched] != 0;
    });
    until("flags", [&] {
      for (std::size_t line = 0; line < lines.count(); ++line) look(line);
      return missing == 0;
    });
    received = step;
  }
}

void run_lines(int version, const Lines& lines, std::uint32_t steps) {
  Job job(version);
  Connection connection(job);
  StepBuffers from(job.net(), connection.send, lines.bytes);
  StepBuffers to(job.net(), connection.receive, lines.bytes);
  std::atomic<std::uint32_t> received = 0;
  auto poller = std::async(std::launch::async, [&] {
    try {
      poll_steps(to, lines, steps, received);
    } catch (...) {
      received = steps;  // lets the others end
      throw;
    }
  });
  in_two_threads([&] { send_steps(job.net(), connection.send, from, lines, steps, received); },
                 [&] { receive_steps(job.net(), connection.receive, to, lines, steps, received); });
  poller.get();
}

/// LL's and LL128's lines, with receives that may complete early and without.
void run_protocols(std::initializer_list<Environment::Variable> variables) {
  const Environment environment(variables);
  for (const int version : few_versions()) {
    CAPTURE(version);
    for (const char* early : {"off", "on"}) {
      CAPTURE(early);
      const Environment receives{{"MRC_NCCL_EARLY_RECEIVES", early}};
      const auto steps = static_cast<std::uint32_t>(scaled(1000));
      run_lines(version, {.words = 1, .bytes = 16 * 1024}, steps / 10);
      run_lines(version, {.words = 16, .bytes = 120 * 1024}, steps / 10);
      run_lines(version, {.words = 16, .bytes = 3840}, steps);
      if (version <= 8) break;  // which has no early receives
    }
  }
}

TEST_CASE("A flag in the data is never seen before its data") {
  run_protocols({{"MRC_PLANES", "loopback:2"}});
}

TEST_CASE("A flag in the data is never seen before its data, in packets that come in any order") {
  run_protocols(
      {{"MRC_PLANES", "loopback:4"}, {"MRC_FAULTS", "loss=0.005;reorder=0.1;duplicate=0.02"}});
}

}  // namespace order_test
