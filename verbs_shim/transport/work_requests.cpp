// SPDX-License-Identifier: Apache-2.0
// Posting: work requests of verbs become those of the device.
#include <optional>

#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/queue_pair.hpp"
#include "verbs_shim/transport/sge_room.hpp"

namespace mrc_verbs {

namespace {

constexpr const char* kNoRequest =
    "not a request of this type of queue pairs, no address handle, or more than 64 SGEs";

}  // namespace

int Qp::post_send(ibv_send_wr* request, ibv_send_wr** bad) noexcept {
  ibv_send_wr* next = request;
  int error = 0;
  while (next != nullptr && error == 0) {
    const bool open = gate_.load(std::memory_order_acquire) == Gate::open;
    error = open ? post_openly(next) : post_slowly(next);
  }
  if (error != 0 && bad != nullptr) *bad = next;
  return error;
}

/// Gives the device as many requests as fit into one call. `next` is the first that it has not
/// taken.
int Qp::post_openly(ibv_send_wr*& next) noexcept {
  const Posted done = transport_->post(*next);
  posted_.fetch_add(done.count, std::memory_order_relaxed);
  for (std::size_t n = done.count; n > 0; --n) next = next->next;
  if (done.error != 0)
    return refuse(done.error, "ibv_post_send", about(next->wr_id, &qp_base) + kNoRequest);
  if (done.refused == mrc::Errc::ok) return 0;
  const int error = after_refusal(*next, done.refused);
  if (error == 0) next = next->next;
  return error;
}

/// The device has not taken a request: its mistake stops the send queue, or the program has to
/// know.
int Qp::after_refusal(const ibv_send_wr& request, mrc::Errc error) noexcept {
  if (const auto status = transport_->stops_sending(request, error)) {
    stop_sending();
    if (info_wanted())
      info(about(request.wr_id, &qp_base) + mrc::to_string(error) + "; moved to SQE");
    return complete(request, *status);
  }
  return refuse_post("ibv_post_send", error, request.wr_id, &qp_base);
}

/// Without connection to lose, only the send queue stops: SQE, until the program says RTS. Unless
/// another thread has moved the queue pair elsewhere.
void Qp::stop_sending() noexcept {
  const std::lock_guard lock(state_mutex_);
  const ibv_qp_state now = shown();
  if (now != IBV_QPS_RTS && now != IBV_QPS_SQD && now != IBV_QPS_SQE) return;
  gate_.store(Gate::flushed, std::memory_order_release);
  show(IBV_QPS_SQE);
}

/// Completes a request that the device does not get to see.
int Qp::complete(const ibv_send_wr& request, mrc::WcStatus status) noexcept {
  const mrc::Errc error = transport_->complete(request, status);
  if (error == mrc::Errc::ok) return 0;
  return refuse_post("ibv_post_send", error, request.wr_id, &qp_base);
}

/// Not to the device. `next` stays if it is to be tried again, since the state has changed.
int Qp::post_slowly(ibv_send_wr*& next) noexcept {
  int error = 0;
  if (gate_.load() == Gate::flushed) {
    error = complete(*next, mrc::WcStatus::wr_flush_err);
  } else {
    std::optional<mrc::Errc> held;
    error = status_of("ibv_post_send", [&] {
      held = hold(*next);
      return 0;
    });
    if (!held) return error;
    if (*held != mrc::Errc::ok) error = refuse_post("ibv_post_send", *held, next->wr_id, &qp_base);
  }
  if (error == 0) next = next->next;
  return error;
}

/// SQD: keeps a copy for later, after the checks that can be made now. None: no longer in SQD.
std::optional<mrc::Errc> Qp::hold(const ibv_send_wr& request) {
  const std::lock_guard lock(held_mutex_);
  if (gate_.load() != Gate::held) return std::nullopt;
  if (const int error = transport_->check(request); error != 0)
    fail(error, about(request.wr_id, &qp_base) + kNoRequest);
  if (held_.size() + transport_->sends() >= capacity_.max_send_wr) return mrc::Errc::queue_full;
  if (request.num_sge > static_cast<int>(capacity_.max_send_sge)) return mrc::Errc::too_many_sges;
  auto copy = std::make_unique<RequestList>();
  copy->copy(request);
  held_.push_back(std::move(copy));
  return mrc::Errc::ok;
}

/// The device's queue pair is in ERR, and flushes what was held; it knows nothing of those that it
/// does not take.
void Qp::flush_held() {
  const std::lock_guard lock(held_mutex_);
  for (const auto& list : held_)
    if (transport_->post(*list->chain()).count == 0)
      (void)complete(*list->chain(), mrc::WcStatus::wr_flush_err);
  held_.clear();
  gate_.store(Gate::open);
}

/// Back from SQD: what was posted there goes to the device, in order. The gate opens only then, so
/// nothing overtakes it.
void Qp::leave_sqd() {
  const std::lock_guard lock(held_mutex_);
  while (!held_.empty()) {
    ibv_send_wr* next = held_.front()->chain();
    if (gate_.load() == Gate::flushed) {  // one before it has stopped the send queue
      (void)complete(*next, mrc::WcStatus::wr_flush_err);
    } else if (post_openly(next) != 0) {
      // It had been accepted: the program learns of it by its completion.
      (void)complete(*next, mrc::WcStatus::loc_qp_op_err);
      transport_->to_error();
    }
    held_.pop_front();
  }
  Gate before = Gate::held;
  gate_.compare_exchange_strong(before, Gate::open, std::memory_order_release);
}

// ----------------------------------------------------------------------------------- receives

int Qp::post_receive(ibv_recv_wr* request, ibv_recv_wr** bad) noexcept {
  for (ibv_recv_wr* r = request; r != nullptr; r = r->next) {
    SgeRoom room;
    mrc::ReceiveRequest receive;
    receive.wr_id = r->wr_id;
    mrc::Errc e = mrc::Errc::too_many_sges;
    if (room.take(r->sg_list, r->num_sge, receive.sges)) e = transport_->post(receive);
    if (e == mrc::Errc::ok) continue;
    if (bad != nullptr) *bad = r;
    return refuse_post("ibv_post_recv", e, r->wr_id, &qp_base);
  }
  return 0;
}

}  // namespace mrc_verbs
