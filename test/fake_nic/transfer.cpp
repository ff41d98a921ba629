// SPDX-License-Identifier: Apache-2.0
// The data path: posting, sending, polling.
#include <arpa/inet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "fake_nic/rules.hpp"

namespace mrc::test::fake_nic {
namespace {

/// A request as it was posted.
struct Send {
  std::uint64_t id = 0, number = 0;
  bool signaled = false;
  Message message;
  std::vector<ibv_sge> sges;  ///< none: the message has its bytes (inline)
};

/// Appends the bytes of registered memory. False: they are not registered.
bool gather(const Card& card, std::span<const ibv_sge> sges, const ibv_pd* pd,
            std::vector<std::uint8_t>& out) {
  if (!registered(card, pd, sges, 0)) return false;
  for (const ibv_sge& sge : sges) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(sge.addr);
    out.insert(out.end(), bytes, bytes + sge.length);
  }
  return true;
}

void report(Qp& qp, const Send& send, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && !send.signaled) return;
  Completion completion;
  completion.wc.wr_id = send.id;
  completion.wc.status = status;
  completion.wc.opcode =
      send.message.facts.carrier == Carrier::uc ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
  completion.wc.qp_num = qp.qp_num;
  completion.frees = send.number;
  world().complete(qp.send_cq, completion);
}

/// Sends a request, unless its queue pair has failed.
void execute(Qp& qp, Send send) {
  if (qp.state == IBV_QPS_ERR) return report(qp, send, IBV_WC_WR_FLUSH_ERR);
  if (!gather(*qp.card, send.sges, qp.pd, send.message.bytes)) {
    world().misuse("sent from memory that is not registered");
    qp.state = IBV_QPS_ERR;
    return report(qp, send, IBV_WC_LOC_PROT_ERR);
  }
  if (send.message.bytes.size() > 4096 && send.message.facts.carrier != Carrier::raw)
    world().misuse("a message longer than the path MTU");
  if (is_active(*qp.card, qp.port)) world().send(send.message);
  report(qp, send, IBV_WC_SUCCESS);
}

/// The message of a request, without its bytes; nothing if there can be none.
std::optional<Message> message_of(const Qp& qp, const ibv_send_wr& wr) {
  Message message;
  Packet& facts = message.facts;
  const ibv_ah_attr* to = nullptr;
  if (qp.qp_type == IBV_QPT_RAW_PACKET && wr.opcode == IBV_WR_SEND) {
    facts.carrier = Carrier::raw;
    facts.from = qp.card->spec.name;
    facts.source_qpn = qp.qp_num;
    return message;
  }
  if (qp.qp_type == IBV_QPT_UD && wr.opcode == IBV_WR_SEND_WITH_IMM && wr.wr.ud.ah != nullptr) {
    to = &static_cast<const Ah*>(wr.wr.ud.ah)->attr;
    facts.destination_qpn = wr.wr.ud.remote_qpn;
    message.qkey = wr.wr.ud.remote_qkey;
  } else if (qp.qp_type == IBV_QPT_UC && wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
    facts.carrier = Carrier::uc;
    to = &qp.to;
    facts.destination_qpn = qp.peer;
    message.remote = wr.wr.rdma.remote_addr;
    message.rkey = wr.wr.rdma.rkey;
  } else {
    return std::nullopt;
  }
  const auto& gids = gids_of(*qp.card, qp.port);
  if (to->grh.sgid_index >= gids.size()) return std::nullopt;
  message.source = gids[to->grh.sgid_index].address;
  std::memcpy(message.target.data(), to->grh.dgid.raw, message.target.size());
  facts.from = qp.card->spec.name;
  facts.source_qpn = qp.qp_num;
  facts.flow_label = to->grh.flow_label;
  facts.traffic_class = to->grh.traffic_class;
  facts.immediate = ntohl(wr.imm_data);
  return message;
}

int post_one(Qp& qp, const ibv_send_wr& wr) {
  if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR) {
    world().misuse("posted to a queue pair that cannot send");
    return EINVAL;
  }
  if (qp.posted - qp.freed >= qp.cap.max_send_wr) {
    world().misuse("posted to a full send queue");
    return ENOMEM;
  }
  auto message = message_of(qp, wr);
  if (!message && qp.state == IBV_QPS_RTS) return EINVAL;  // the GID is gone
  Send send;
  send.id = wr.wr_id;
  send.number = ++qp.posted;
  send.signaled = (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  if (message) send.message = std::move(*message);
  const std::span<const ibv_sge> sges(wr.sg_list, static_cast<std::size_t>(wr.num_sge));
  if (sges.size() > qp.cap.max_send_sge) {
    world().misuse("more pieces than the queue pair was made for");
    return EINVAL;
  }
  if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
    for (const ibv_sge& sge : sges) {
      const auto* bytes = reinterpret_cast<const std::uint8_t*>(sge.addr);
      send.message.bytes.insert(send.message.bytes.end(), bytes, bytes + sge.length);
    }
    if (send.message.bytes.size() > qp.cap.max_inline_data) world().misuse("too much inline data");
  } else {
    send.sges.assign(sges.begin(), sges.end());
  }
  if (qp.card->spec.send_delay == Time{}) {
    execute(qp, std::move(send));
    return 0;
  }
  world().after(qp.card->spec.send_delay,
                [card = qp.card, number = qp.qp_num, life = qp.life, send = std::move(send)] {
                  const auto at = card->qps.find(number);
                  if (at != card->qps.end() && at->second->life == life) execute(*at->second, send);
                });
  return 0;
}

int post_send(ibv_qp* to, ibv_send_wr* wr, ibv_send_wr** bad) {
  const std::lock_guard lock(world().mutex);
  for (; wr != nullptr; wr = wr->next) {
    int error = 0;
    if (world().fails("post_send"))
      error = errno;
    else
      error = post_one(*static_cast<Qp*>(to), *wr);
    if (error == 0) continue;
    *bad = wr;
    return error;
  }
  return 0;
}

int post_srq_recv(ibv_srq* to, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const std::lock_guard lock(world().mutex);
  Srq& srq = *static_cast<Srq*>(to);
  for (; wr != nullptr; wr = wr->next) {
    int error = world().fails("post_srq_recv") ? errno : 0;
    if (srq.posted.size() >= srq.room) {
      world().misuse("posted to a full receive queue");
      error = ENOMEM;
    } else if (wr->num_sge < 0 || static_cast<std::uint32_t>(wr->num_sge) > srq.pieces) {
      world().misuse("more pieces than the receive queue was made for");
      error = EINVAL;
    }
    if (error != 0) {
      *bad = wr;
      return error;
    }
    srq.posted.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
  }
  return 0;
}

int post_recv(ibv_qp* to, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const std::lock_guard lock(world().mutex);
  Qp& qp = *static_cast<Qp*>(to);
  for (; wr != nullptr; wr = wr->next) {
    if (qp.receives.size() >= qp.cap.max_recv_wr) {
      world().misuse("posted to a full receive queue");
      *bad = wr;
      return ENOMEM;
    }
    qp.receives.push_back({wr->wr_id, {wr->sg_list, wr->sg_list + wr->num_sge}});
  }
  return 0;
}

int poll_cq(ibv_cq* from, int most, ibv_wc* out) {
  const std::lock_guard lock(world().mutex);
  Cq& cq = *static_cast<Cq*>(from);
  int n = 0;
  for (; n < most && !cq.done.empty(); ++n) {
    const Completion& completion = cq.done.front();
    out[n] = completion.wc;
    auto& qps = static_cast<Context*>(verbs_get_ctx(cq.context))->card->qps;
    const auto qp = qps.find(completion.wc.qp_num);
    if (qp != qps.end() && completion.frees > 0)
      qp->second->freed = std::max(qp->second->freed, completion.frees);
    cq.done.pop_front();
  }
  return n;
}

int req_notify_cq(ibv_cq* cq, int) {
  const std::lock_guard lock(world().mutex);
  static_cast<Cq*>(cq)->armed = true;
  return 0;
}

}  // namespace

void set_operations(Context& context) {
  context.context.ops.post_send = &post_send;
  context.context.ops.post_srq_recv = &post_srq_recv;
  context.context.ops.post_recv = &post_recv;
  context.context.ops.poll_cq = &poll_cq;
  context.context.ops.req_notify_cq = &req_notify_cq;
}

}  // namespace mrc::test::fake_nic
