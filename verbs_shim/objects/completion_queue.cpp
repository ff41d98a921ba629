// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/completion_queue.hpp"

#include <endian.h>

#include <algorithm>
#include <array>

#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/queue_pair.hpp"
#include "verbs_shim/transport/acknowledge.hpp"
#include "verbs_shim/transport/linger.hpp"

namespace mrc_verbs {

namespace {

ibv_wc_opcode opcode_of(mrc::WcOpcode opcode) noexcept {
  switch (opcode) {
    case mrc::WcOpcode::write:
    case mrc::WcOpcode::write_imm:
      return IBV_WC_RDMA_WRITE;
    case mrc::WcOpcode::recv_write_imm:
      return IBV_WC_RECV_RDMA_WITH_IMM;
    case mrc::WcOpcode::send:
      return IBV_WC_SEND;
    case mrc::WcOpcode::read:
      return IBV_WC_RDMA_READ;
    case mrc::WcOpcode::compare_swap:
      return IBV_WC_COMP_SWAP;
    case mrc::WcOpcode::fetch_add:
      return IBV_WC_FETCH_ADD;
    case mrc::WcOpcode::recv:
      return IBV_WC_RECV;
  }
  return IBV_WC_RDMA_WRITE;
}

/// The numbers of mrc::WcStatus are those of ibv_wc_status.
static_assert(static_cast<int>(mrc::WcStatus::retry_exc_err) == IBV_WC_RETRY_EXC_ERR);
static_assert(static_cast<int>(mrc::WcStatus::fatal_err) == IBV_WC_FATAL_ERR);

void to_ibv_wc(const mrc::Completion& from, ibv_wc& to) noexcept {
  to = {};
  to.wr_id = from.wr_id;
  to.status = static_cast<ibv_wc_status>(from.status);
  to.opcode = opcode_of(from.opcode);
  to.byte_len = from.byte_len;
  to.qp_num = mrc::value(from.qpn);
  to.src_qp = mrc::value(from.source_qpn);
  if (from.has_grh) to.wc_flags |= IBV_WC_GRH;
  if (!from.has_immediate) return;
  to.imm_data = htobe32(from.immediate);  // the program's bytes, as they were on the wire
  to.wc_flags |= IBV_WC_WITH_IMM;
}

/// Why a request failed, for the program and for the log.
void explain(Host& host, ibv_wc& wc) {
  if (wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR) return;
  host.with_qp(wc.qp_num, [&](Qp& qp) {
    const mrc::QpErrorCause cause = qp.transport().cause();
    wc.vendor_err = static_cast<std::uint32_t>(cause);
    if (cause == mrc::QpErrorCause::none) return;           // it was told when it was posted
    const bool silent = wc.status == IBV_WC_RETRY_EXC_ERR;  // by far the most frequent
    if (!silent && !info_wanted()) return;
    const std::string line = "queue pair " + std::to_string(wc.qp_num) + ": request " +
                             std::to_string(wc.wr_id) + " failed: " + qp.transport().reason();
    silent ? note("ibv_poll_cq", line) : info(line);
  });
}

/// Depth and completion vector, checked.
std::uint32_t checked_depth(const ibv_cq_init_attr_ex& wanted) {
  if (wanted.comp_vector != 0) fail(EINVAL, "there is one completion vector, number 0");
  if (static_cast<int>(wanted.cqe) < 1) fail(EINVAL, "a queue has at least one entry");
  return wanted.cqe;
}

}  // namespace

Cq::Cq(Context& owner, const ibv_cq_init_attr_ex& wanted)
    : ibv_cq_ex{},
      owner_(owner),
      single_threaded_((wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
                       (wanted.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0) {
  const std::uint32_t depth = checked_depth(wanted);
  auto* events = wanted.channel != nullptr ? &Channel::of(wanted.channel) : nullptr;
  queue_ = Linger::with_room([&] {
    return std::make_shared<mrc::CompletionQueue>(
        owner.device().create_cq(depth, events != nullptr ? &events->channel() : nullptr));
  });
  context = &owner.context;
  ibv_cq_ex::channel = wanted.channel;
  cq_context = wanted.cq_context;
  handle = next_handle();
  cqe = static_cast<int>(depth);
  ::pthread_mutex_init(&mutex, nullptr);
  ::pthread_cond_init(&cond, nullptr);
  set_poll_operations(*this);
  if (events != nullptr) ++events->refcnt;
  if ((wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 && wanted.parent_domain != nullptr) {
    parent_domain_ = &Pd::of(wanted.parent_domain);
    ++parent_domain_->users;
  }
  owner.host().add(*this, queue_->id());
}

Cq::~Cq() {
  owner_.host().remove(queue_->id());
  if (channel != nullptr) {
    Channel::of(channel).forget(*this);
    --channel->refcnt;
  }
  if (parent_domain_ != nullptr) --parent_domain_->users;
  ::pthread_cond_destroy(&cond);
  ::pthread_mutex_destroy(&mutex);
}

int Cq::poll(int room, ibv_wc* out) noexcept {
  constexpr int kBatch = 32;
  int done = 0;
  std::array<mrc::Completion, kBatch> batch;
  while (done < room) {
    const auto wanted = static_cast<std::size_t>(std::min(room - done, kBatch));
    const std::size_t got = queue_->poll({batch.data(), wanted});
    for (std::size_t i = 0; i < got; ++i, ++done) {
      to_ibv_wc(batch[i], out[done]);
      if (out[done].status != IBV_WC_SUCCESS) explain(owner_.host(), out[done]);
    }
    if (got < wanted) break;
  }
  if (owner_.draining.load(std::memory_order_relaxed) > 0) owner_.check_drained();
  return done;
}

int Cq::arm(bool solicited_only) noexcept {
  return errno_of(queue_->arm(solicited_only ? mrc::Arm::solicited : mrc::Arm::all));
}

void Cq::withdraw() {
  owner_.host().remove(queue_->id());
  if (channel != nullptr) Channel::of(channel).forget(*this);
  owner_.events().forget(base());
  await_acknowledged(*base(), comp_events_completed, comp_events_given);
  await_acknowledged(*base(), async_events_completed, async_events_given);
}

}  // namespace mrc_verbs
