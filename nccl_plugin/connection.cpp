// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/connection.hpp"

#include <algorithm>
#include <atomic>

namespace mrc_nccl {

namespace {

// How often a connection that waits looks at its channel: one system call.
constexpr mrc::Duration kLook = std::chrono::milliseconds(1);

std::atomic<std::int64_t> heard_last{0};  // ns

Result result_of(mrc::QpErrorCause cause) noexcept {
  switch (cause) {
    case mrc::QpErrorCause::nak_remote_access:  // it has deregistered: it is about to close
    case mrc::QpErrorCause::retry_exhausted:
    case mrc::QpErrorCause::peer_in_error:
    case mrc::QpErrorCause::unresolved:
      return Result::remote_error;
    default:
      return Result::system_error;
  }
}

}  // namespace

Connection::Connection(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<Context> context)
    : endpoint_(std::move(endpoint)),
      context_(std::move(context)),
      heard_(mrc::monotonic_now()),
      looked_(heard_) {}

Result Connection::test(Request& request, int* done, int* sizes) {
  *done = 0;
  if (!request.used) return fail(Result::internal_error, "test of a request that is not in use");
  if (!request.done) {
    if (failed()) return state_;
    progress();
    if (!request.done) return state_;
  }
  *done = 1;
  for (unsigned i = 0; sizes != nullptr && i < request.count; ++i)
    sizes[i] = static_cast<int>(request.sizes[i]);
  stop_events(request);
  request.used = false;
  release(request);
  return Result::success;
}

void Connection::progress() {
  std::array<mrc::Completion, 32> completions;
  std::size_t taken;
  do {
    taken = endpoint_->cq.poll(completions);
    for (std::size_t i = 0; i < taken && !failed(); ++i) {
      const mrc::Completion& completion = completions[i];
      if (completion.status != mrc::WcStatus::success) {
        fail_queue_pair();
      } else if (completion.wr_id == kHeartbeat) {
        beating_ = false;
      } else if (completion.wr_id != kRefusal) {
        on_completion(completion);
      }
    }
    if (taken > 0) {
      heard_ = mrc::monotonic_now();
      heard_last.store(heard_.time_since_epoch().count(), std::memory_order_relaxed);
    }
  } while (taken == completions.size() && !failed());
  if (taken == 0 && !failed()) watch();
}

mrc::Time Connection::last_heard() noexcept {
  return mrc::Time(mrc::Duration(heard_last.load(std::memory_order_relaxed)));
}

/// Looks after the peer, now and then.
void Connection::watch() {
  const mrc::Time now = mrc::monotonic_now();
  if (now - looked_ < kLook) return;
  looked_ = now;
  if (!peer_gone()) {
    // Completions may have come since they were taken: a failure waits for the next time.
    if (endpoint_->channel.look() == Channel::State::ended) gone_at_ = now;
  } else if (pending() > 0 && now - gone_at_ >= grace()) {
    fail_gone();
    return;
  }
  if (!beating_ && now - heard_ >= endpoint_->nic->settings().heartbeat) beat(now);
}

/// An empty write, which only a peer that is there acknowledges.
void Connection::beat(mrc::Time now) {
  heard_ = now;
  const mrc::Errc e =
      endpoint_->qp.post_send({.wr_id = kHeartbeat, .remote = endpoint_->peer_mailbox});
  beating_ = e == mrc::Errc::ok;
  if (e == mrc::Errc::invalid_state) fail_queue_pair();
}

Result Connection::fail(Result result, const std::string& cause) noexcept {
  if (failed()) return state_;
  state_ = result;
  try {
    context_->log().warn((role() == Role::sender ? "sending to " : "receiving from ") +
                         endpoint_->peer_text() + " over " + endpoint_->nic->facts().name +
                         " failed: " + cause);
  } catch (...) {  // no memory for the text
    context_->log().warn("a connection failed");
  }
  return state_;
}

Result Connection::fail_gone() noexcept {
  return fail(Result::remote_error,
              "the peer has closed the connection, or its process has ended, while " +
                  std::to_string(pending()) + " requests were pending; its own log tells why");
}

Result Connection::fail_queue_pair() noexcept {
  if (failed()) return state_;
  const mrc::QpErrorCause cause = endpoint_->qp.error_cause();
  try {
    if (endpoint_->channel.look() == Channel::State::ended) return fail_gone();
    const std::string text = endpoint_->qp.error_text();
    return fail(result_of(cause), text.empty() ? mrc::to_string(cause) : text);
  } catch (...) {  // no memory for the text
    return fail(result_of(cause), {});
  }
}

std::unique_ptr<Endpoint> Connection::close() {
  context_->remove(this);
  for (Request& request : requests())
    if (request.used) stop_events(request);
  // A sender may not know yet that all has come; a receiver may not know yet that it does not fit.
  // Where requests are given up, the peer must not write any more: its queue pair ends at once.
  const bool may_owe_answers = role() == Role::receiver && pending() == 0;
  const bool may_owe_refusal = role() == Role::sender && state_ == Result::invalid_usage;
  if (!peer_gone() && (may_owe_answers || may_owe_refusal)) return std::move(endpoint_);
  endpoint_.reset();
  return nullptr;
}

// ------------------------------------------------------------------------------ profiler events

void Connection::start_event(Request& request, unsigned index, void* parent, std::size_t length,
                             mrc::SendOpcode opcode) noexcept {
  request.events[index] = nullptr;
  const auto profiler = context_->profiler();
  if (profiler == nullptr || parent == nullptr) return;
  nccl_abi::ProfilerQp event;
  event.qp = {endpoint_->nic->facts().rail, reinterpret_cast<std::uint64_t>(&request),
              static_cast<int>(opcode), static_cast<int>(mrc::value(endpoint_->qp.qpn())), length};
  (void)profiler(&request.events[index], static_cast<int>(nccl_abi::ProfilerEvent::start), parent,
                 nccl_abi::kProfilerIbV1, &event);
}

void Connection::stop_events(Request& request) noexcept {
  const auto profiler = context_->profiler();
  for (unsigned i = 0; profiler != nullptr && i < request.count; ++i)
    if (request.events[i] != nullptr)
      (void)profiler(&request.events[i], static_cast<int>(nccl_abi::ProfilerEvent::stop), nullptr,
                     nccl_abi::kProfilerIbV1, nullptr);
}

}  // namespace mrc_nccl
