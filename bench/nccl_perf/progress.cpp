// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/progress.hpp"

#include <sched.h>

#include <algorithm>
#include <cstring>

#include "common/interrupt.hpp"
#include "nccl_perf/failure.hpp"

namespace mrc::nccl_perf {
namespace {

/// Work is done in blocks that stay in a processor's first cache.
constexpr std::size_t kBlock = 8 << 10;

void add(float* __restrict to, const float* __restrict a, const float* __restrict b,
         std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) to[i] = a[i] + b[i];
}
void add(float* __restrict to, const float* __restrict a, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) to[i] += a[i];
}

/// A few pointers.
template <class T>
struct Few {
  std::array<T*, 3> at{};
  std::size_t count = 0;
  void push(T* p) noexcept { at[count++] = p; }
};

const float* floats(const std::byte* p) noexcept {
  return reinterpret_cast<const float*>(p);
}

/// The sum of all sources into all targets.
void combine(const Few<const std::byte>& from, const Few<std::byte>& to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes; done += kBlock) {
    const std::size_t size = std::min(kBlock, bytes - done), n = size / sizeof(float);
    std::byte* const first = to.at[0] + done;
    auto* const sum = reinterpret_cast<float*>(first);
    if (from.count == 1)
      std::memcpy(first, from.at[0] + done, size);
    else
      add(sum, floats(from.at[0] + done), floats(from.at[1] + done), n);
    if (from.count == 3) add(sum, floats(from.at[2] + done), n);
    for (std::size_t i = 1; i < to.count; ++i) std::memcpy(to.at[i] + done, first, size);
  }
}

}  // namespace

Progress::Progress(const Network& network, Connections& connections, Duration patience)
    : network_(network),
      connections_(connections),
      patience_(patience),
      thread_([this] { serve(); }) {}

Progress::~Progress() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

Duration Progress::run(const Operation& operation) {
  std::unique_lock lock(mutex_);
  operation_ = operation;
  running_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return !running_; });
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return time_;
}

void Progress::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return running_ || ended_; });
    if (ended_) return;
    lock.unlock();
    try {
      execute();
    } catch (...) {
      error_ = std::current_exception();
    }
    lock.lock();
    running_ = false;
    changed_.notify_all();
  }
}

/// NCCL's loop: each connection gets a turn, and the processor goes to others when nothing moved.
void Progress::execute() {
  expect_messages();
  next_.assign(operation_.programs->size(), 0);
  const Time start = monotonic_now();
  Time moved = start;
  while (!is_idle()) {
    bool any = false;
    for (ReceiveConnection& r : connections_.receives) any |= r.progress();
    for (std::size_t i = 0; i < next_.size(); ++i) any |= advance(i);
    for (SendConnection& s : connections_.sends) any |= s.progress();
    if (tools::g_interrupted) throw Interrupted();
    if (any) {
      moved = {};
      continue;
    }
    sched_yield();
    if (const Time now = monotonic_now(); moved == Time{})
      moved = now;
    else if (now - moved > patience_)
      throw Failure("progress -> nothing moves any more");
  }
  time_ = monotonic_now() - start;
}

void Progress::expect_messages() {
  std::vector<std::uint64_t> messages(connections_.receives.size(), 0);
  for (const Program& program : *operation_.programs)
    for (const Step& step : program)
      for (const auto r : step.receives)
        if (r != kNone) ++messages[static_cast<std::size_t>(r)];
  for (std::size_t i = 0; i < messages.size(); ++i) connections_.receives[i].expect(messages[i]);

  nccl_abi::Attributes hints;
  const auto flows = static_cast<std::int32_t>(connections_.sends.size());
  hints.send.max_concurrent_peers = hints.receive.max_concurrent_peers = flows;
  hints.send.max_flows_per_peer = hints.receive.max_flows_per_peer = 1;
  check(network_.net->set_attributes(network_.context, &hints), "setNetAttr");
}

bool Progress::is_idle() const {
  for (std::size_t i = 0; i < next_.size(); ++i)
    if (next_[i] != (*operation_.programs)[i].size()) return false;
  return std::all_of(connections_.sends.begin(), connections_.sends.end(),
                     [](const SendConnection& s) { return s.is_idle(); });
}

/// One step, if all that it needs is there.
bool Progress::advance(std::size_t program) {
  const Program& steps = (*operation_.programs)[program];
  if (next_[program] == steps.size()) return false;
  const Step& step = steps[next_[program]];
  for (const auto r : step.receives)
    if (r != kNone && !connections_.receives[static_cast<std::size_t>(r)].has_message())
      return false;
  for (const auto s : step.sends)
    if (s != kNone && !connections_.sends[static_cast<std::size_t>(s)].has_room()) return false;
  do_step(step);
  ++next_[program];
  return true;
}

void Progress::do_step(const Step& step) {
  Few<const std::byte> from;
  Few<std::byte> to;
  for (const auto r : step.receives) {
    if (r == kNone) continue;
    const ReceiveConnection& receive = connections_.receives[static_cast<std::size_t>(r)];
    if (receive.next_bytes() != step.bytes)
      throw Failure(fmt::format("test -> a message of {} bytes instead of {}", receive.next_bytes(),
                                step.bytes));
    from.push(receive.next());
  }
  if (step.input != kNone) from.push(operation_.input + step.input);
  if (step.output != kNone) to.push(operation_.output + step.output);
  for (const auto s : step.sends)
    if (s != kNone) to.push(connections_.sends[static_cast<std::size_t>(s)].next());
  combine(from, to, step.bytes);
  for (const auto r : step.receives)
    if (r != kNone) connections_.receives[static_cast<std::size_t>(r)].consume();
  for (const auto s : step.sends)
    if (s != kNone) connections_.sends[static_cast<std::size_t>(s)].fill(step.bytes);
}

}  // namespace mrc::nccl_perf
