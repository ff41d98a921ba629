// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/connection.hpp"

#include <algorithm>

namespace mrc_nccl {

namespace {

// How often a connection that waits looks at its channel: one system call.
constexpr mrc::Duration kLook = std::chrono::milliseconds(1);

Result result_of(mrc::QpErrorCause cause) noexcept {
  switch (cause) {
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
        fail_queue_pair(completion);
      } else if (completion.wr_id == kHeartbeat) {
        beating_ = false;
      } else {
        on_completion(completion);
      }
    }
    if (taken > 0) heard_ = mrc::monotonic_now();
  } while (taken == completions.size() && !failed());
  if (taken == 0 && !failed()) watch();
}

void Connection::watch() {
  const mrc::Time now = mrc::monotonic_now();
  if (now - looked_ < kLook) return;
  looked_ = now;
  if (!peer_gone() && endpoint_->channel.look() == Channel::State::ended) {
    gone_at_ = now;
    return;  // what came before its end is taken first, with the next call
  }
  if (peer_gone() && pending() > 0 && now - gone_at_ >= grace())
    fail_gone();
  else if (!beating_ && now - heard_ >= endpoint_->nic->settings().heartbeat)
    beat(now);
}

void Connection::beat(mrc::Time now) {
  heard_ = now;
  beating_ = endpoint_->qp.post_send({.wr_id = kHeartbeat, .remote = endpoint_->peer_mailbox}) ==
             mrc::Errc::ok;
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

void Connection::fail_queue_pair(const mrc::Completion& completion) noexcept {
  mrc::QueuePair& qp = endpoint_->qp;
  const mrc::QpErrorCause cause = qp.error_cause();
  std::string text = qp.error_text();
  if (text.empty()) text = mrc::to_string(completion.status);
  fail(result_of(cause), text);
}

std::unique_ptr<Endpoint> Connection::close() {
  context_->remove(this);
  // The peer must not write any more where a request was given up, so its queue pair ends at once.
  // One whose requests are done may have to tell the peer so once more.
  const bool linger = pending() == 0 && !peer_gone() && role() == Role::receiver;
  const bool tell = state_ == Result::invalid_usage && !peer_gone();  // of what does not fit
  if (linger || tell) return std::move(endpoint_);
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
