// SPDX-License-Identifier: Apache-2.0
// The network: what happens to packets on their way, and where they end.
#include "fake_nic/world.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "fake_nic/rules.hpp"
#include "mrc/resolve/packets.hpp"

namespace mrc::test::fake_nic {

World& world() {
  static World* const all = new World;  // its thread never ends
  return *all;
}

const std::vector<Gid>& gids_of(const Card& card, unsigned port) {
  static const std::vector<Gid> none;
  if (port == 1) return card.spec.gids;
  return port >= 2 && port - 2 < card.spec.others.size() ? card.spec.others[port - 2] : none;
}

bool is_active(const Card& card, unsigned port) {
  return card.listed && (port != 1 || card.spec.active);
}

bool World::fails(const std::string& function) {
  const auto at = failures.find(function);
  if (at == failures.end()) return false;
  Failure& failure = at->second;
  if (failure.after-- > 0) return false;
  errno = failure.error;
  if (--failure.times <= 0) failures.erase(at);
  return true;
}

void World::misuse(const std::string& what) {
  misuses.push_back(what);
}

void World::after(Time delay, std::function<void()> what) {
  later_.emplace(std::chrono::steady_clock::now() + delay, std::move(what));
  changed_.notify_all();
}

void World::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    if (later_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto next = later_.begin();
    const auto when = next->first;  // the entry may go meanwhile
    if (when > std::chrono::steady_clock::now()) {
      changed_.wait_until(lock, when);
      continue;
    }
    const auto what = std::move(next->second);
    later_.erase(next);
    what();
  }
}

void World::send(Message message) {
  const Weather& w = weather[static_cast<std::size_t>(message.facts.carrier)];
  const auto chance = [&](double share) {
    return share > 0 && std::uniform_real_distribution<>()(random) < share;
  };
  const Fate fate = judge ? judge(message.facts) : Fate::deliver;
  if (fate == Fate::hold) return held.push_back(std::move(message));
  if (fate == Fate::drop || chance(w.loss)) return;
  if (message.facts.carrier == Carrier::raw) {
    const auto from = cards.find(message.facts.from);
    if (from == cards.end()) return;
    const auto qp = from->second->qps.find(message.facts.source_qpn);
    if (qp != from->second->qps.end() && qp->second->wire) qp->second->wire->send(message.bytes);
    return;
  }
  const int copies = chance(w.duplicate) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    Time delay = w.delay;
    if (w.jitter > Time{})
      delay += Time(std::uniform_int_distribution<Time::rep>(0, w.jitter.count())(random));
    if (delay == Time{})
      deliver(message);
    else
      after(delay, [this, message] { deliver(message); });
  }
}

void World::deliver(const Message& message) {
  for (const auto& [name, card] : cards) {
    for (unsigned port = 1; port <= 1 + card->spec.others.size(); ++port) {
      const auto& gids = gids_of(*card, port);
      const auto has = [&](const Gid& gid) { return gid.address == message.target; };
      if (!is_active(*card, port) || std::none_of(gids.begin(), gids.end(), has)) continue;
      const auto qp = card->qps.find(message.facts.destination_qpn);
      const bool ready = qp != card->qps.end() && qp->second->port == port &&
                         (qp->second->state == IBV_QPS_RTR || qp->second->state == IBV_QPS_RTS);
      const auto type = message.facts.carrier == Carrier::ud ? IBV_QPT_UD : IBV_QPT_UC;
      if (!ready || qp->second->qp_type != type) {
        ++counts.to_nobody;
        return;
      }
      return type == IBV_QPT_UD ? deliver_ud(message, *qp->second)
                                : deliver_uc(message, *qp->second);
    }
  }
  ++counts.to_nobody;
}

bool scatter(const std::vector<ibv_sge>& sges, std::span<const std::uint8_t> bytes) {
  for (const ibv_sge& sge : sges) {
    const std::size_t n = std::min<std::size_t>(sge.length, bytes.size());
    if (n > 0) std::memcpy(reinterpret_cast<void*>(sge.addr), bytes.data(), n);
    bytes = bytes.subspan(n);
  }
  return bytes.empty();
}

void World::deliver_ud(const Message& message, Qp& qp) {
  if (message.qkey != qp.qkey) return;
  auto& posted = static_cast<Srq*>(qp.srq)->posted;
  if (posted.empty()) {
    ++counts.without_receive;
    return;
  }
  const Receive receive = posted.front();
  posted.pop_front();
  if (!registered(*qp.card, qp.srq->pd, receive.sges, IBV_ACCESS_LOCAL_WRITE)) {
    misuse("a message arrives in memory that is not registered");
    return;
  }
  wire::Origin origin;
  origin.source = message.source;
  origin.destination = message.target;
  origin.flow_label = message.facts.flow_label;
  origin.traffic_class = message.facts.traffic_class;
  origin.hop_limit = 64;
  const auto grh = wire::make_grh(origin, static_cast<std::uint32_t>(message.bytes.size() + 24));
  std::vector<std::uint8_t> all(grh.begin(), grh.end());
  all.insert(all.end(), message.bytes.begin(), message.bytes.end());
  Completion completion;
  completion.wc.wr_id = receive.id;
  completion.wc.status = scatter(receive.sges, all) ? IBV_WC_SUCCESS : IBV_WC_LOC_LEN_ERR;
  completion.wc.opcode = IBV_WC_RECV;
  completion.wc.byte_len = static_cast<std::uint32_t>(all.size());
  completion.wc.imm_data = htonl(message.facts.immediate);
  completion.wc.wc_flags = IBV_WC_WITH_IMM | IBV_WC_GRH;
  completion.wc.qp_num = qp.qp_num;
  completion.wc.src_qp = message.facts.source_qpn;
  if (completion.wc.status != IBV_WC_SUCCESS) misuse("a UD message longer than its receive");
  complete(qp.recv_cq, completion);
}

namespace {

/// As a device writes, beside programs: the engine may just then write the same bytes, which came
/// again by UD. So the thread sanitizer must not see it.
__attribute__((no_sanitize("thread"))) void write_as_device(
    std::uint64_t to, const std::vector<std::uint8_t>& bytes) {
  auto* out = reinterpret_cast<volatile std::uint8_t*>(to);
  for (std::size_t i = 0; i < bytes.size(); ++i) out[i] = bytes.data()[i];
}

}  // namespace

void World::deliver_uc(const Message& message, Qp& qp) {
  if (std::memcmp(qp.to.grh.dgid.raw, message.source.data(), message.source.size()) != 0) return;
  if ((qp.access & IBV_ACCESS_REMOTE_WRITE) == 0) return;
  auto& posted = static_cast<Srq*>(qp.srq)->posted;
  if (posted.empty()) {
    ++counts.without_receive;
    return;
  }
  if (!message.bytes.empty()) {
    const auto key = qp.card->keys.find(message.rkey);
    const Mr* mr = key != qp.card->keys.end() ? key->second : nullptr;
    const auto begin = mr != nullptr ? reinterpret_cast<std::uintptr_t>(mr->addr) : 0;
    if (mr == nullptr || mr->pd != qp.pd || (mr->access & IBV_ACCESS_REMOTE_WRITE) == 0 ||
        message.remote < begin || message.remote - begin > mr->length ||
        mr->length - (message.remote - begin) < message.bytes.size())
      return;
    write_as_device(message.remote, message.bytes);
  }
  Completion completion;
  completion.wc.wr_id = posted.front().id;
  posted.pop_front();
  completion.wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  completion.wc.byte_len = static_cast<std::uint32_t>(message.bytes.size());
  completion.wc.imm_data = htonl(message.facts.immediate);
  completion.wc.wc_flags = IBV_WC_WITH_IMM;
  completion.wc.qp_num = qp.qp_num;
  complete(qp.recv_cq, completion);
}

void World::complete(ibv_cq* to, const Completion& completion) {
  Cq& cq = *static_cast<Cq*>(to);
  if (cq.done.size() >= static_cast<std::size_t>(cq.cqe)) {
    ++counts.overruns;
    return;
  }
  cq.done.push_back(completion);
  if (!std::exchange(cq.armed, false) || cq.channel == nullptr) return;
  static_cast<Channel*>(cq.channel)->events.push_back(&cq);
  const std::uint64_t one = 1;
  (void)!::write(cq.channel->fd, &one, sizeof one);
}

void World::tell(Card& card, ibv_event_type type) {
  for (Context* context : card.contexts) {
    ibv_async_event event{};
    event.event_type = type;
    event.element.port_num = 1;
    context->events.push_back(event);
    const std::uint64_t one = 1;
    (void)!::write(context->context.async_fd, &one, sizeof one);
  }
}

// --- What tests say -----------------------------------------------------------------------------

namespace {

void break_queues(Card& card) {
  if (!card.spec.fragile) return;
  for (auto& [number, qp] : card.qps)
    if (qp->port == 1 && qp->state != IBV_QPS_RESET) qp->state = IBV_QPS_ERR;
}

}  // namespace

void add(const Nic& nic) {
  const std::lock_guard lock(world().mutex);
  auto& card = world().cards[nic.name];
  if (card) world().former.push_back(std::move(card));
  card = std::make_unique<Card>();
  card->node_type = IBV_NODE_CA;
  card->transport_type = IBV_TRANSPORT_IB;
  std::strncpy(card->name, nic.name.c_str(), sizeof card->name - 1);
  card->spec = nic;
}

void remove(const std::string& name) {
  const std::lock_guard lock(world().mutex);
  const auto at = world().cards.find(name);
  if (at == world().cards.end()) return;
  at->second->listed = false;
  world().former.push_back(std::move(at->second));
  world().cards.erase(at);
}

void set_link(const std::string& name, bool up, bool with_event) {
  const std::lock_guard lock(world().mutex);
  Card& card = *world().cards.at(name);
  card.spec.active = up;
  if (!up) break_queues(card);
  if (with_event) world().tell(card, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

void set_gids(const std::string& name, const std::vector<Gid>& gids) {
  const std::lock_guard lock(world().mutex);
  Card& card = *world().cards.at(name);
  card.spec.gids = gids;
  break_queues(card);
  if (card.spec.fragile) world().tell(card, IBV_EVENT_GID_CHANGE);
}

void set_weather(Carrier carrier, const Weather& weather) {
  const std::lock_guard lock(world().mutex);
  world().weather[static_cast<std::size_t>(carrier)] = weather;
}

void set_judge(std::function<Fate(const Packet&)> judge) {
  const std::lock_guard lock(world().mutex);
  world().judge = std::move(judge);
}

std::size_t release() {
  const std::lock_guard lock(world().mutex);
  const auto held = std::exchange(world().held, {});
  for (const Message& message : held) world().deliver(message);
  return held.size();
}

void fail(const std::string& function, int after, int error, int times) {
  const std::lock_guard lock(world().mutex);
  world().failures[function] = {after, times, error};
}

Counts counts() {
  const std::lock_guard lock(world().mutex);
  return world().counts;
}

std::vector<std::string> misuses() {
  const std::lock_guard lock(world().mutex);
  return world().misuses;
}

void reset() {
  const std::lock_guard lock(world().mutex);
  World& w = world();
  w.forget_later();  // first: it may refer to devices, or hit those of the next test
  static_cast<State&>(w) = {};
}

}  // namespace mrc::test::fake_nic
