// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_nic/fake_nic.hpp"

/// The devices of the stand-in, what programs have made on them, and the network.
namespace mrc::test::fake_nic {

struct Card;

struct Context : verbs_context {
  Card* card = nullptr;
  int users = 0;
  std::deque<ibv_async_event> events;
};
struct Channel : ibv_comp_channel {
  std::deque<ibv_cq*> events;
};
struct Pd : ibv_pd {
  int users = 0;
};
struct Mr : ibv_mr {
  int access = 0;
};
struct Ah : ibv_ah {
  ibv_ah_attr attr{};
};
struct Completion {
  ibv_wc wc{};
  std::uint64_t frees = 0;  ///< requests of the send queue up to this number are free again
};
struct Cq : ibv_cq {
  std::deque<Completion> done;
  bool armed = false;
  int users = 0;
  unsigned unacknowledged = 0;  ///< events that ibv_get_cq_event() gave
};
struct Receive {
  std::uint64_t id = 0;
  std::vector<ibv_sge> sges;
};
struct Srq : ibv_srq {
  std::deque<Receive> posted;
  std::uint32_t room = 0, pieces = 0;
  int users = 0;
};
class Wire;
struct Flow : ibv_flow {
  ibv_qp* qp = nullptr;
  std::vector<std::uint8_t> rule;  ///< ibv_flow_attr and what follows it
};
struct Qp : ibv_qp {
  Card* card = nullptr;
  ibv_qp_cap cap{};
  std::uint8_t port = 1;
  std::uint32_t qkey = 0;
  int access = 0;
  ibv_ah_attr to{};  ///< of a connected one
  std::uint32_t peer = 0;
  std::uint64_t posted = 0, freed = 0;  ///< requests of the send queue
  std::uint64_t life = 0;               ///< changes with each RESET
  // Of raw packets:
  std::deque<Receive> receives;
  std::vector<Flow*> flows;
  std::shared_ptr<Wire> wire;
};

/// A packet that is under way.
struct Message {
  Packet facts;
  Address source{}, target{};
  std::uint32_t qkey = 0, rkey = 0;
  std::uint64_t remote = 0;
  std::vector<std::uint8_t> bytes;
};

/// A device.
struct Card : ibv_device {
  Nic spec;
  bool listed = true;
  std::vector<Context*> contexts;
  std::map<std::uint32_t, Qp*> qps;
  std::map<std::uint32_t, Mr*> keys;
  std::uint32_t next_qpn = 0x11, next_key = 0x1000;
};

struct Failure {
  int after = 0, times = 0, error = 0;
};

/// What reset() puts back.
struct State {
  std::map<std::string, std::unique_ptr<Card>> cards;
  std::vector<std::unique_ptr<Card>> former;  ///< that someone has open
  std::map<std::string, Failure> failures;
  std::function<Fate(const Packet&)> judge;
  Weather weather[3];
  std::vector<Message> held;
  Counts counts;
  std::vector<std::string> misuses;
  std::mt19937 random{1};
};

/// Everything. One lock guards it.
class World : public State {
 public:
  World() : thread_([this] { run(); }) { thread_.detach(); }  // lives as long as the process

  std::mutex mutex;
  std::condition_variable acknowledged;  ///< events of completion queues

  /// Whether this call is to fail; sets errno.
  [[nodiscard]] bool fails(const std::string& function);
  void misuse(const std::string& what);
  /// Later, in the world's thread, under the lock.
  void after(Time delay, std::function<void()> what);
  /// Nothing of what after() was told happens any more.
  void forget_later() { later_.clear(); }
  /// Into the network.
  void send(Message message);
  /// To its queue pair, or nobody.
  void deliver(const Message& message);
  void complete(ibv_cq* cq, const Completion& completion);
  void tell(Card& card, ibv_event_type type);

 private:
  void run();
  void deliver_ud(const Message& message, Qp& qp);
  void deliver_uc(const Message& message, Qp& qp);

  std::condition_variable changed_;
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> later_;
  std::thread thread_;
};

World& world();

/// The GIDs of a port of a device; none if it has no such port.
[[nodiscard]] const std::vector<Gid>& gids_of(const Card& card, unsigned port);
[[nodiscard]] bool is_active(const Card& card, unsigned port);
/// Scatters bytes; false: they do not fit.
[[nodiscard]] bool scatter(const std::vector<ibv_sge>& sges, std::span<const std::uint8_t> bytes);

/// The operations of the data path, for a context.
void set_operations(Context& context);

/// The interface of a raw-packet queue pair: a packet socket, and a thread that reads it.
class Wire {
 public:
  /// Null if there is no such interface, or not the right to use it; sets errno.
  [[nodiscard]] static std::shared_ptr<Wire> open(const Card& card, std::uint32_t qpn);
  Wire(int fd, const Card& card, std::uint32_t qpn);
  ~Wire();
  void send(const std::vector<std::uint8_t>& frame) const;

 private:
  void run(const Card& card, std::uint32_t qpn);

  int fd_, end_;
  std::thread thread_;
};
/// A frame has arrived for a queue pair, under the lock.
void take_frame(Qp& qp, std::span<const std::uint8_t> frame);

}  // namespace mrc::test::fake_nic
