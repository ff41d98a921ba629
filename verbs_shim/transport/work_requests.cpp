// SPDX-License-Identifier: Apache-2.0
// Posting: work requests of verbs become those of the device.
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/queue_pair.hpp"
#include "verbs_shim/transport/sge_room.hpp"

namespace mrc_verbs {

namespace {

/// What a send request's completion is called.
ibv_wc_opcode completed(ibv_wr_opcode opcode) noexcept {
  switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return IBV_WC_SEND;
    case IBV_WR_RDMA_READ:
      return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
      return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
      return IBV_WC_FETCH_ADD;
    default:
      return IBV_WC_RDMA_WRITE;
  }
}

constexpr const char* kNoRequest =
    "not a request of this type of queue pairs, no address handle, or more than 64 SGEs";

std::string about(std::uint32_t qpn, std::uint64_t id) {
  return "queue pair " + std::to_string(qpn) + ", request " + std::to_string(id) + ": ";
}

}  // namespace

int Qp::post_send(ibv_send_wr* request, ibv_send_wr** bad) noexcept {
  ibv_send_wr* next = request;
  int error = 0;
  while (next != nullptr && error == 0) {
    if (gate_.load(std::memory_order_acquire) != Gate::open) {
      error = post_slowly(*next);
      if (error == 0) next = next->next;
    } else {
      error = post_openly(next);
    }
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
    return refuse(done.error, "ibv_post_send", about(qp_base.qp_num, next->wr_id) + kNoRequest);
  if (done.refused == mrc::Errc::ok) return 0;
  const int error = after_refusal(*next, done.refused);
  if (error == 0) next = next->next;
  return error;
}

/// The device has not taken a request. In ERR it is flushed; otherwise the program has to know.
int Qp::after_refusal(const ibv_send_wr& request, mrc::Errc error) noexcept {
  if (error == mrc::Errc::invalid_state && transport_->failed())
    return flush(request, IBV_WC_WR_FLUSH_ERR);
  if (const auto status = transport_->stops_sending(request, error)) {
    // Without connection to lose, only the send queue stops: SQE, until the program says RTS.
    gate_.store(Gate::flushed, std::memory_order_release);
    qp_base.state = IBV_QPS_SQE;
    if (info_wanted())
      info(about(qp_base.qp_num, request.wr_id) + mrc::to_string(error) + "; moved to SQE");
    return flush(request, *status);
  }
  const int value = errno_of(error);
  if (!info_wanted()) return value;  // a full queue is met often, and is no mistake
  return refuse(value, "ibv_post_send",
                about(qp_base.qp_num, request.wr_id) + mrc::to_string(error));
}

/// Completes a request that the device does not get to see.
int Qp::flush(const ibv_send_wr& request, ibv_wc_status status) noexcept {
  ibv_wc wc{};
  wc.wr_id = request.wr_id;
  wc.status = status;
  wc.opcode = completed(request.opcode);
  wc.qp_num = qp_base.qp_num;
  return status_of("ibv_post_send", [&] {
    send_cq_.push(wc);
    return 0;
  });
}

int Qp::post_slowly(const ibv_send_wr& request) noexcept {
  if (gate_.load() == Gate::flushed) return flush(request, IBV_WC_WR_FLUSH_ERR);
  return status_of("ibv_post_send", [&] {
    hold(request);
    return 0;
  });
}

/// SQD: keeps a copy for later, after the checks that can be made now.
void Qp::hold(const ibv_send_wr& request) {
  if (const int error = transport_->check(request); error != 0)
    fail(error, about(qp_base.qp_num, request.wr_id) + kNoRequest);
  const std::lock_guard lock(held_mutex_);
  const std::uint64_t completed = transport_->completed() - completed_before_;
  if (held_.size() + posted_.load() - completed >= capacity_.max_send_wr)
    fail(ENOMEM, "send queue full");
  if (request.num_sge > static_cast<int>(capacity_.max_send_sge)) fail(EINVAL, "too many SGEs");
  auto copy = std::make_unique<RequestList>();
  copy->copy(request);
  held_.push_back(std::move(copy));
}

void Qp::flush_held() {
  const std::lock_guard lock(held_mutex_);
  for (const auto& list : held_) (void)flush(*list->chain(), IBV_WC_WR_FLUSH_ERR);
  held_.clear();
}

/// Back from SQD: what was posted there goes to the device, in order. The gate opens only then, so
/// nothing overtakes it.
void Qp::leave_sqd() {
  const std::lock_guard lock(held_mutex_);
  while (!held_.empty()) {
    ibv_send_wr* next = held_.front()->chain();
    if (gate_.load() == Gate::flushed) {  // one before it has stopped the send queue
      (void)flush(*next, IBV_WC_WR_FLUSH_ERR);
    } else if (post_openly(next) != 0) {
      // It had been accepted: the program learns of it by its completion.
      (void)flush(*next, IBV_WC_LOC_QP_OP_ERR);
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
    int error = errno_of(e);
    if (e == mrc::Errc::invalid_state && transport_->failed()) {
      ibv_wc wc{};
      wc.wr_id = r->wr_id;
      wc.status = IBV_WC_WR_FLUSH_ERR;
      wc.opcode = IBV_WC_RECV;
      wc.qp_num = qp_base.qp_num;
      error = status_of("ibv_post_recv", [&] {
        receive_cq_.push(wc);
        return 0;
      });
      if (error == 0) continue;
    }
    if (bad != nullptr) *bad = r;
    if (!info_wanted()) return error;
    return refuse(error, "ibv_post_recv", about(qp_base.qp_num, r->wr_id) + mrc::to_string(e));
  }
  return 0;
}

}  // namespace mrc_verbs
