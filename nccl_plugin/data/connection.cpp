// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/data/connection.hpp"

#include <algorithm>
#include <atomic>
#include <utility>

#include "nccl_plugin/settings/timeouts.hpp"

namespace mrc_nccl {

namespace {

// How often a connection that waits looks at its channel: one system call.
constexpr mrc::Duration kLook = std::chrono::milliseconds(1);
// A peer that has not answered any heartbeat for so long since it connected was never heard.
constexpr mrc::Duration kUnheard = std::chrono::seconds(2);
// More than this between two looks does not count as time in which the peer was silent.
constexpr mrc::Duration kLongestPause = std::chrono::milliseconds(100);
// After a channel has broken: for what was under way to arrive, and then for an answer.
constexpr mrc::Duration kSettle = std::chrono::milliseconds(20),
                        kAnswer = std::chrono::milliseconds(120);
// Hosts are asked each second.
constexpr mrc::Duration kHostAnswers = std::chrono::seconds(3);

std::atomic<std::int64_t> busy_last{0};  // ns

Result result_of(mrc::QpErrorCause cause) noexcept {
  switch (cause) {
    case mrc::QpErrorCause::nak_remote_access:  // it has deregistered: it is about to close
    case mrc::QpErrorCause::retry_exhausted:
    case mrc::QpErrorCause::unacknowledged:
    case mrc::QpErrorCause::peer_in_error:
    case mrc::QpErrorCause::unresolved:
      return Result::remote_error;
    default:
      return Result::system_error;
  }
}

}  // namespace

Connection::Connection(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<Context> context)
    : endpoint_(std::move(endpoint)), context_(std::move(context)), looked_(mrc::monotonic_now()) {
  endpoint_->channel.outlast_outages();
}

Result Connection::test(Request& request, int* done, int* sizes) {
  *done = 0;
  if (!request.used) return fail(Result::internal_error, "test of a request that is not in use");
  if (!request.done) {
    if (failed()) return state_;
    progress();
    if (!request.done) return state_;
  } else if (request.copied && !failed()) {
    progress();  // a process that only sends asks for nothing else
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
      } else if (completion.wr_id < kProof) {
        on_completion(completion);
      }
    }
    if (taken > 0) heard();
  } while (taken == completions.size() && !failed());
  if (failed()) return;
  tell();
  if (taken == 0) watch();
}

mrc::Time Connection::last_busy() noexcept {
  return mrc::Time(mrc::Duration(busy_last.load(std::memory_order_relaxed)));
}

void Connection::note_busy() noexcept {
  busy_last.store(mrc::monotonic_now().time_since_epoch().count(), std::memory_order_relaxed);
}

void Connection::heard() noexcept {
  note_busy();
  if (judged_ > mrc::Duration(0)) endpoint_->channel.ask_host(false);
  silent_ = judged_ = mrc::Duration(0);
}

/// Looks after the peer, now and then.
void Connection::watch() {
  const mrc::Time now = mrc::monotonic_now();
  const mrc::Duration passed = std::min(now - looked_, kLongestPause);
  if (passed < kLook) return;
  looked_ = now;
  silent_ += passed;
  watch_channel(now, passed);
  if (failed() || peer_gone()) return;
  const mrc::Duration interval = endpoint_->nic->settings().heartbeat;
  if (!beating_ && silent_ >= interval) beat();
  if (!failed() && silent_ - judged_ >= interval) judge_silence();
}

void Connection::watch_channel(mrc::Time now, mrc::Duration passed) {
  if (peer_gone()) {
    if (pending() > 0 && now - gone_at_ >= grace()) fail_gone();
    return;
  }
  // Completions may have come since they were taken: a failure waits for the next time.
  const Channel::State state = endpoint_->channel.look();
  if (state == Channel::State::ended) {
    gone_at_ = now;
    endpoint_->nic->peers().ignore(endpoint_->qp, false);
  }
  if (state == Channel::State::broken) doubt(now, passed);
}

/// The channel has broken: does the peer still answer?
void Connection::doubt(mrc::Time now, mrc::Duration passed) {
  if (doubt_ == Doubt::dispelled) return;
  doubted_ += passed;
  if (doubt_ == Doubt::none) {
    doubt_ = Doubt::settling;
    doubted_ = mrc::Duration(0);
  } else if (doubt_ == Doubt::settling && doubted_ >= kSettle) {
    doubt_ = Doubt::asked;
    proof_ = signs_of_life();
    (void)post_empty(kProof);
  } else if (doubt_ == Doubt::asked && signs_of_life() != proof_) {
    doubt_ = Doubt::dispelled;
    context_->log().warn("the TCP connection to " + endpoint_->peer_text() +
                         " was reset, and the peer goes on: traffic does too, but the end of its "
                         "process will be noticed later");
  } else if (doubt_ == Doubt::asked && doubted_ >= kAnswer) {
    gone_at_ = now - doubted_;
    endpoint_->nic->peers().ignore(endpoint_->qp, true);
  }
}

/// Grows whenever the peer acknowledges something, refuses it for now, or sends.
std::uint64_t Connection::signs_of_life() const noexcept {
  const mrc::QpStats stats = endpoint_->qp.stats();
  return stats.acknowledged + stats.refused + stats.rx_packets + stats.rx_duplicates;
}

/// Nothing has completed for some time. A long message may be on its way.
void Connection::judge_silence() {
  judged_ = silent_;
  endpoint_->channel.ask_host(true);
  if (const std::uint64_t life = signs_of_life(); life != life_) {
    life_ = life;
    heard();
    return;
  }
  endpoint_->nic->peers().suspect();
  const Settings& settings = endpoint_->nic->settings();
  const bool unheard = life_ == 0;
  if (unheard && silent_ >= kUnheard && !std::exchange(unheard_told_, true))
    context_->log().warn("TCP reaches " + endpoint_->peer_text() + ", but " + why_unheard());
  if (silent_ < settings.peer_timeout) return;
  if (!endpoint_->channel.host_heard_within(std::max(settings.peer_timeout, kHostAnswers)))
    fail(Result::remote_error, "no answer for " + duration_text(silent_) +
                                   " in any plane, nor over TCP: its host counts as dead");
  else if (silent_ >= settings.outage)
    fail(Result::remote_error,
         "no answer for " + duration_text(silent_) +
             " in any plane, although its host answers over TCP: " +
             (unheard ? why_unheard()
                      : "its process is stopped, or all planes have failed (MRC_NCCL_OUTAGE)"));
}

/// Why the peer was never heard. Nobody knows whose the packets with a wrong iCRC are.
std::string Connection::why_unheard() const {
  const std::string none = "none of its packets of MRC arrives here";
  std::uint64_t spoilt = 0;
  for (const mrc::PlaneStats& plane : endpoint_->nic->device().stats().planes)
    spoilt += plane.rx_bad_icrc;
  if (spoilt > 0)
    return none + ", and " + std::to_string(spoilt) +
           " packets came with a wrong iCRC: probably addresses are translated between the hosts "
           "(NAT); planes need addresses that are routed as they are";
  return none + ": are UDP ports " + std::to_string(endpoint_->nic->settings().base.udp_port) +
         " and up open here, and addresses not translated on the way (NAT)?";
}

/// An empty write, which only a peer that is there acknowledges.
mrc::Errc Connection::post_empty(std::uint64_t id) noexcept {
  return endpoint_->post({.wr_id = id, .remote = endpoint_->peer_mailbox});
}

void Connection::beat() {
  const mrc::Errc e = post_empty(kHeartbeat);
  beating_ = e == mrc::Errc::ok;
  if (e == mrc::Errc::invalid_state) fail_queue_pair();
}

Result Connection::fail(Result result, const std::string& cause) noexcept {
  if (failed()) return state_;
  state_ = result;
  endpoint_->nic->peers().ignore(endpoint_->qp, result == Result::remote_error);
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
    const Channel::State channel = endpoint_->channel.look();
    if (channel == Channel::State::ended || channel == Channel::State::broken) return fail_gone();
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
  endpoint_->owes_delivery = owes_delivery();
  if (!peer_gone() && (may_owe_answers || may_owe_refusal || endpoint_->owes_delivery))
    return std::move(endpoint_);
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
