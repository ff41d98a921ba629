// SPDX-License-Identifier: Apache-2.0
// Polling by ibv_start_poll() and its kin: one completion at a time, read field by field.
#include "verbs_shim/objects/completion_queue.hpp"

namespace mrc_verbs {

namespace {

/// Needs the lock.
int next(ibv_cq_ex* verbs) noexcept {
  Cq& cq = Cq::of(verbs);
  if (cq.poll(1, &cq.current) == 0) return ENOENT;
  cq.status = cq.current.status;
  cq.wr_id = cq.current.wr_id;
  return 0;
}

int start(ibv_cq_ex* verbs, ibv_poll_cq_attr* attributes) noexcept {
  if (attributes != nullptr && attributes->comp_mask != 0) return EINVAL;
  Cq::of(verbs).lock_poll();
  const int error = next(verbs);
  if (error != 0) Cq::of(verbs).unlock_poll();  // ibv_end_poll() must not follow
  return error;
}

const ibv_wc& read(ibv_cq_ex* verbs) noexcept {
  return Cq::of(verbs).current;
}

}  // namespace

void set_poll_operations(ibv_cq_ex& cq) noexcept {
  cq.start_poll = &start;
  cq.next_poll = &next;
  cq.end_poll = [](ibv_cq_ex* c) { Cq::of(c).unlock_poll(); };
  cq.read_opcode = [](ibv_cq_ex* c) { return read(c).opcode; };
  cq.read_vendor_err = [](ibv_cq_ex* c) { return read(c).vendor_err; };
  cq.read_byte_len = [](ibv_cq_ex* c) { return read(c).byte_len; };
  cq.read_imm_data = [](ibv_cq_ex* c) { return read(c).imm_data; };
  cq.read_qp_num = [](ibv_cq_ex* c) { return read(c).qp_num; };
  cq.read_src_qp = [](ibv_cq_ex* c) { return read(c).src_qp; };
  cq.read_wc_flags = [](ibv_cq_ex* c) { return read(c).wc_flags; };
  cq.read_slid = [](ibv_cq_ex* c) { return std::uint32_t{read(c).slid}; };
  cq.read_sl = [](ibv_cq_ex* c) { return read(c).sl; };
  cq.read_dlid_path_bits = [](ibv_cq_ex* c) { return read(c).dlid_path_bits; };
  // Queues are not created with the fields below; who reads them nevertheless shall not crash.
  cq.read_completion_ts = [](ibv_cq_ex*) { return std::uint64_t{0}; };
  cq.read_cvlan = [](ibv_cq_ex*) { return std::uint16_t{0}; };
  cq.read_flow_tag = [](ibv_cq_ex*) { return std::uint32_t{0}; };
  cq.read_tm_info = [](ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; };
  cq.read_completion_wallclock_ns = [](ibv_cq_ex*) { return std::uint64_t{0}; };
}

}  // namespace mrc_verbs
