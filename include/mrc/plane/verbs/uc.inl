// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/plane/verbs/verbs_uc.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// The path MTU of a UC queue pair.
[[nodiscard]] inline ibv_mtu mtu_of(std::uint32_t bytes) noexcept {
  unsigned code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (256u << (code - IBV_MTU_256 + 1)) <= bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

/// RESET to RTR, and to RTS if it sends. Throws mrc::Error.
inline void connect_uc(const VerbsQueues& queues, ibv_qp* qp, const ibv_ah_attr& address,
                       std::uint32_t qpn, bool sends) {
  const VerbsLibrary& v = VerbsLibrary::get();
  const VerbsDevice& device = queues.device();
  const auto step = [&](ibv_qp_attr& a, int mask, const char* what) {
    if (const int e = v.modify_qp(qp, &a, mask); e != 0)
      throw_errno("RDMA device " + device.name + ": cannot bring a UC queue pair to " + what, e);
  };
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = device.port;
  a.qp_access_flags = sends ? 0 : IBV_ACCESS_REMOTE_WRITE;
  step(a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  a.qp_state = IBV_QPS_RTR;
  a.ah_attr = address;
  a.path_mtu = mtu_of(device.path_mtu);
  a.dest_qp_num = qpn;
  step(a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, "RTR");
  if (!sends) return;
  a.qp_state = IBV_QPS_RTS;
  step(a, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

}  // namespace detail

// --- Receiving ----------------------------------------------------------------------------------

VerbsUcReceive::VerbsUcReceive(const VerbsQueues& queues) : queues_(queues) {
  const VerbsLibrary& v = VerbsLibrary::get();
  const VerbsDevice& device = queues.device();
  const int depth = std::min({4096, device.limits.max_srq_wr, device.limits.max_cqe});
  arrived_.reset(v.create_cq(device.context.get(), depth, nullptr, queues.channel(), 0));
  if (!arrived_) throw_errno("RDMA device " + device.name + ": cannot create a completion queue");
  ibv_srq_init_attr srq{};
  srq.attr = {static_cast<std::uint32_t>(depth), 1, 0};
  requests_.reset(v.create_srq(queues.pd(), &srq));
  if (!requests_)
    throw_errno("RDMA device " + device.name + ": cannot create a shared receive queue");
  refill(static_cast<std::size_t>(depth));
}

VerbsHandle<ibv_qp> VerbsUcReceive::make_receiver(ibv_ah_attr address) const {
  ibv_qp_init_attr a{};
  a.qp_type = IBV_QPT_UC;
  a.send_cq = a.recv_cq = arrived_.get();
  a.srq = requests_.get();
  a.cap.max_send_wr = a.cap.max_send_sge = 1;  // it sends nothing
  errno = 0;
  VerbsHandle<ibv_qp> qp(VerbsLibrary::get().create_qp(queues_.pd(), &a));
  if (!qp)
    throw_errno("RDMA device " + queues_.device().name + ": cannot create a UC queue pair",
                errno != 0 ? errno : ENOMEM);
  // The sender's number is not known yet; packets of a UC do not carry it.
  detail::connect_uc(queues_, qp.get(), address, qp->qp_num, false);
  return qp;
}

std::size_t VerbsUcReceive::take_arrived(std::span<VerbsUcArrival> out) noexcept {
  std::array<ibv_wc, VerbsArrivals::kBatch> polled;
  const std::size_t count =
      arrivals_.poll(arrived_.get(), std::span(polled).first(std::min(out.size(), polled.size())));
  std::size_t good = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_wc& wc = polled[i];
    if (wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM) != 0)
      out[good++] = {wc.qp_num, ntohl(wc.imm_data), wc.byte_len};
  }
  if (count > 0) refill(count);
  return good;
}

void VerbsUcReceive::refill(std::size_t count) noexcept {
  std::array<ibv_recv_wr, 32> requests{};
  while (count > 0 && !failed_) {
    const std::size_t n = std::min(count, requests.size());
    for (std::size_t i = 0; i < n; ++i) requests[i].next = i + 1 < n ? &requests[i + 1] : nullptr;
    ibv_recv_wr* bad = nullptr;
    failed_ = ibv_post_srq_recv(requests_.get(), requests.data(), &bad) != 0;
    count -= n;
  }
}

bool VerbsUcReceive::arm() noexcept {
  return arrivals_.arm(arrived_.get(), failed_);
}

// --- Sending ------------------------------------------------------------------------------------

VerbsUcSend::VerbsUcSend(const VerbsQueues& queues, std::uint16_t paths)
    : queues_(queues), lanes_(paths) {
  const VerbsDevice& device = queues.device();
  errno = 0;
  // Twice, since completions of queue pairs that were exchanged may still be there.
  sent_.reset(VerbsLibrary::get().create_cq(
      device.context.get(),
      std::min<int>(static_cast<int>(2 * paths * kDepth), device.limits.max_cqe), nullptr,
      queues.channel(), 0));
  if (!sent_)
    throw_errno("RDMA device " + device.name + ": cannot create a completion queue",
                errno != 0 ? errno : ENOMEM);
}

VerbsHandle<ibv_qp> VerbsUcSend::make_sender(ibv_ah_attr address, std::uint32_t qpn) const {
  ibv_qp_init_attr a{};
  a.qp_type = IBV_QPT_UC;
  a.send_cq = a.recv_cq = sent_.get();
  a.cap.max_send_wr = kDepth;
  a.cap.max_send_sge = static_cast<std::uint32_t>(
      std::min<int>(static_cast<int>(kMaxPieces), queues_.device().limits.max_sge));
  a.cap.max_recv_wr = a.cap.max_recv_sge = 1;  // it receives nothing
  errno = 0;
  VerbsHandle<ibv_qp> qp(VerbsLibrary::get().create_qp(queues_.pd(), &a));
  if (!qp)
    throw_errno("RDMA device " + queues_.device().name + ": cannot create a UC queue pair",
                errno != 0 ? errno : ENOMEM);
  detail::connect_uc(queues_, qp.get(), address, qpn, true);
  return qp;
}

VerbsHandle<ibv_qp> VerbsUcSend::exchange(std::uint16_t path, VerbsHandle<ibv_qp> qp,
                                          std::vector<wire::CopyId>& copies) noexcept {
  Lane& lane = lanes_[path];
  take_sent(copies);  // so that those of this queue pair are the last of a former one in the queue
  outstanding_ -= lane.posted - lane.done;
  lane.posted += std::exchange(lane.waiting, 0);
  release(lane, lane.posted, copies);
  lane.posted = lane.done = 0;
  ++lane.life;
  std::swap(lane.qp, qp);
  return qp;
}

void VerbsUcSend::give_up(std::vector<wire::CopyId>& copies) noexcept {
  for (Lane& lane : lanes_) {
    lane.posted += std::exchange(lane.waiting, 0);
    release(lane, lane.posted, copies);
  }
  outstanding_ = 0;
}

void VerbsUcSend::add(std::uint16_t path, std::span<const ibv_sge> payload, std::uint64_t remote,
                      std::uint32_t rkey, std::uint32_t seq, wire::CopyId copy) noexcept {
  Lane& lane = lanes_[path];
  const std::uint32_t index = (lane.posted + lane.waiting++) % kDepth;
  lane.copies[index] = copy;
  std::copy(payload.begin(), payload.end(), lane.sges[index].begin());
  ibv_send_wr& wr = lane.requests[index];
  wr = {};
  // Number after it, its path, and which queue pair of the path.
  wr.wr_id =
      std::uint64_t{lane.life} << 48 | std::uint64_t{path} << 32 | (lane.posted + lane.waiting);
  wr.sg_list = lane.sges[index].data();
  wr.num_sge = static_cast<int>(payload.size());
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htonl(seq);
  wr.wr.rdma = {remote, rkey};
}

bool VerbsUcSend::post(std::uint16_t path) noexcept {
  Lane& lane = lanes_[path];
  const std::uint32_t count = std::exchange(lane.waiting, 0);
  if (count == 0) return true;
  for (std::uint32_t i = 0; i < count; ++i) {
    ibv_send_wr& wr = lane.requests[(lane.posted + i) % kDepth];
    wr.next = i + 1 < count ? &lane.requests[(lane.posted + i + 1) % kDepth] : nullptr;
    if (i + 1 == count) wr.send_flags = IBV_SEND_SIGNALED;  // tells of those before it, too
  }
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(lane.qp.get(), &lane.requests[lane.posted % kDepth], &bad) != 0) failed_ = true;
  // What a failed queue pair did not take is released when it is exchanged.
  lane.posted += count;
  outstanding_ += count;
  return !failed_;
}

void VerbsUcSend::release(Lane& lane, std::uint32_t up_to,
                          std::vector<wire::CopyId>& released) noexcept {
  for (; lane.done != up_to; ++lane.done) {
    wire::CopyId& copy = lane.copies[lane.done % kDepth];
    if (copy != wire::CopyId::none) released.push_back(std::exchange(copy, wire::CopyId::none));
  }
}

void VerbsUcSend::take_sent(std::vector<wire::CopyId>& released) noexcept {
  std::array<ibv_wc, 32> done;
  for (int n = static_cast<int>(done.size()); n == static_cast<int>(done.size());) {
    n = ibv_poll_cq(sent_.get(), static_cast<int>(done.size()), done.data());
    for (const ibv_wc& wc : std::span(done).first(static_cast<std::size_t>(std::max(n, 0)))) {
      const std::uint64_t id = wc.wr_id;
      Lane& lane = lanes_[id >> 32 & 0xFFFF];
      if ((lane.life & 0xFFFF) != id >> 48) continue;
      if (wc.status != IBV_WC_SUCCESS) {
        failed_ = true;
        continue;
      }
      const auto number = static_cast<std::uint32_t>(id);
      if (number - lane.done > lane.posted - lane.done) continue;
      outstanding_ -= number - lane.done;
      release(lane, number, released);
    }
  }
}

}  // namespace mrc::inline v0_1::port
