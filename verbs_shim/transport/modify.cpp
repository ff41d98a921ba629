// SPDX-License-Identifier: Apache-2.0
// The states of queue pairs, as ibv_modify_qp() and ibv_query_qp() see them.
#include <utility>

#include "verbs_shim/address.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/queue_pair.hpp"
#include "verbs_shim/transport/state_machine.hpp"

namespace mrc_verbs {

namespace {

constexpr std::uint32_t kNumbers24 = 0xFFFFFF;  // QPNs and PSNs have 24 bits

}  // namespace

void Qp::modify(const ibv_qp_attr& wanted, int mask) {
  std::unique_lock lock = modify_lock();
  const ibv_qp_state from = state();
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? wanted.qp_state : from;
  const std::string doing = "queue pair " + std::to_string(qp_base.qp_num) + ", ";
  if ((mask & IBV_QP_CUR_STATE) != 0 && wanted.cur_qp_state != from)
    fail(EINVAL, doing + "IBV_QP_CUR_STATE: it is in " + name_of(from) + ", not in " +
                     name_of(wanted.cur_qp_state));
  if (const std::string why = refused_transition(qp_base.qp_type, from, to, mask); !why.empty())
    fail(EINVAL, doing + why);
  check_values(wanted, mask);
  step(to, wanted, mask);
  lock.unlock();
  if (to == IBV_QPS_SQD) check_drained();
}

void Qp::step(ibv_qp_state to, const ibv_qp_attr& wanted, int mask) {
  const ibv_qp_attr before = attributes_;
  store(wanted, mask);
  try {
    enter(to, wanted, mask);
    if (to != IBV_QPS_RESET && to != IBV_QPS_ERR) transport_->update(attributes_, mask);
  } catch (...) {
    attributes_ = before;
    throw;
  }
  if (to != IBV_QPS_SQD) forget_draining();
  settle(to);
}

void Qp::settle(ibv_qp_state state) noexcept {
  const std::lock_guard lock(state_mutex_);
  if (state == IBV_QPS_RESET || state == IBV_QPS_ERR) gate_.store(Gate::open);
  show(gate_.load() == Gate::flushed ? IBV_QPS_SQE : state);
}

void Qp::change(const ibv_qp_attr& wanted, int mask) {
  transport_->update(wanted, mask);
  store(wanted, mask);
}

ibv_qp_state Qp::state() noexcept {
  const ibv_qp_state known = shown();
  if (known == IBV_QPS_RESET || known == IBV_QPS_ERR || !transport_->failed()) return known;
  flush_held();
  settle(IBV_QPS_ERR);
  return IBV_QPS_ERR;
}

void Qp::check_values(const ibv_qp_attr& w, int mask) const {
  if ((mask & IBV_QP_PORT) != 0 && w.port_num != 1) fail(EINVAL, "there is one port, of number 1");
  if ((mask & IBV_QP_PKEY_INDEX) != 0 && w.pkey_index != 0)
    fail(EINVAL, "there is one P_Key, of index 0");
  if ((mask & IBV_QP_AV) != 0) check_address(w.ah_attr);
  if ((mask & IBV_QP_PATH_MTU) != 0 &&
      (w.path_mtu < IBV_MTU_256 || w.path_mtu > owner_.host().active_mtu()))
    fail(EINVAL, "path MTU of code " + std::to_string(w.path_mtu) + "; the port carries up to " +
                     std::to_string(bytes_of(owner_.host().active_mtu())) + " bytes");
  if ((mask & IBV_QP_DEST_QPN) != 0 && w.dest_qp_num > kNumbers24)
    fail(EINVAL, "a queue pair number has 24 bits");
  if ((mask & IBV_QP_TIMEOUT) != 0 && w.timeout > 31) fail(EINVAL, "timeout above 31");
  if ((mask & IBV_QP_RETRY_CNT) != 0 && w.retry_cnt > 7) fail(EINVAL, "retry count above 7");
  if ((mask & IBV_QP_RNR_RETRY) != 0 && w.rnr_retry > 7) fail(EINVAL, "RNR retry count above 7");
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0 && w.min_rnr_timer > 31)
    fail(EINVAL, "RNR timer above 31");
  if (((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && w.max_rd_atomic > mrc::kMaxReads) ||
      ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && w.max_dest_rd_atomic > mrc::kMaxReads))
    fail(EINVAL, "more than 128 READs and atomics in flight");
  if ((mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)) != 0)
    fail(EOPNOTSUPP, "no path migration: the device changes paths by itself");
}

/// Keeps what ibv_query_qp() is to give back.
void Qp::store(const ibv_qp_attr& w, int mask) {
  ibv_qp_attr& a = attributes_;
  const auto take = [&](int bit, auto ibv_qp_attr::*member) {
    if ((mask & bit) != 0) a.*member = w.*member;
  };
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
  a.rq_psn &= kNumbers24;
  a.sq_psn &= kNumbers24;
}

void Qp::enter(ibv_qp_state next, const ibv_qp_attr& wanted, int mask) {
  const ibv_qp_state now = shown();
  switch (next) {
    case IBV_QPS_INIT:
      if (now == IBV_QPS_RESET) to_init();
      return;
    case IBV_QPS_RTR:
      return transport_->to_rtr(attributes_);
    case IBV_QPS_RTS:
      if (now == IBV_QPS_RTR) transport_->to_rts(attributes_);
      if (now == IBV_QPS_SQD) return leave_sqd();
      return gate_.store(Gate::open);
    case IBV_QPS_SQD:
      if (now == IBV_QPS_SQD) return;
      gate_.store(Gate::held);
      notify_drained_ = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && wanted.en_sqd_async_notify;
      if (notify_drained_) ++owner_.draining;
      return;
    case IBV_QPS_ERR:
      return to_error();
    default:
      return to_reset();
  }
}

void Qp::to_init() {
  transport_->to_init();
  completed_before_ = transport_->completed();
  posted_ = 0;
}

void Qp::to_error() {
  if (shown() == IBV_QPS_RESET) {
    // The device moves no fresh queue pair to ERR; from INIT it does.
    to_init();
  }
  transport_->to_error();
  flush_held();
}

void Qp::to_reset() {
  transport_->to_reset();
  {
    const std::lock_guard lock(held_mutex_);
    held_.clear();
    gate_.store(Gate::open);
  }
  posted_ = 0;
  completed_before_ = transport_->completed();
  attributes_ = {};
}

void Qp::on_error(mrc::QpErrorCause cause) {
  if (cause != mrc::QpErrorCause::requested && info_wanted())
    info("queue pair " + std::to_string(qp_base.qp_num) + " is in ERR: " + transport_->reason());
  const std::lock_guard lock(modify_mutex_);
  if (!transport_->failed()) return;  // reset meanwhile
  forget_draining();
  flush_held();
  settle(IBV_QPS_ERR);
}

bool Qp::all_sent() const {
  return transport_->completed() - completed_before_ >= posted_.load(std::memory_order_relaxed);
}

/// It reports nothing any more: done, or no longer in SQD.
void Qp::forget_draining() {
  if (std::exchange(notify_drained_, false)) --owner_.draining;
}

void Qp::check_drained() {
  const std::lock_guard lock(modify_mutex_);
  if (!notify_drained_ || shown() != IBV_QPS_SQD || !all_sent()) return;
  forget_draining();
  ibv_async_event event{};
  event.element.qp = &qp_base;
  event.event_type = IBV_EVENT_SQ_DRAINED;
  owner_.events().push(event);
}

void Qp::query(ibv_qp_attr& out, ibv_qp_init_attr& initial) {
  const std::lock_guard lock(modify_mutex_);
  out = attributes_;
  out.qp_state = out.cur_qp_state = state();
  out.cap = capacity_;
  out.sq_draining = shown() == IBV_QPS_SQD && !all_sent() ? 1 : 0;
  out.path_mig_state = IBV_MIG_MIGRATED;
  initial = {};
  initial.qp_context = qp_base.qp_context;
  initial.send_cq = qp_base.send_cq;
  initial.recv_cq = qp_base.recv_cq;
  initial.srq = qp_base.srq;
  initial.cap = capacity_;
  initial.qp_type = qp_base.qp_type;
  initial.sq_sig_all = signal_all_ ? 1 : 0;
}

}  // namespace mrc_verbs
