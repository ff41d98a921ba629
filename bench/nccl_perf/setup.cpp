// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/setup.hpp"

#include <sched.h>

#include <array>
#include <cstring>
#include <utility>

#include "nccl_perf/failure.hpp"

namespace mrc::nccl_perf {
namespace {

using Handle = std::array<char, nccl_abi::kHandleBytes>;

/// A connection on its way. Whoever holds the comms at last closes them.
struct Pending {
  Peer peer;
  Handle handle{};         // sends: the peer's; the plugin may keep its state there
  void* listen = nullptr;  // receives
  void* comm = nullptr;
};

class Connecting {
 public:
  Connecting(const SetUp& set_up, const Peers& peers) : set_up_(set_up), net_(*set_up.network.net) {
    for (const Peer& peer : peers.sends) sends_.push_back({peer});
    for (const Peer& peer : peers.receives) receives_.push_back({peer});
  }
  Connecting(const Connecting&) = delete;
  Connecting& operator=(const Connecting&) = delete;
  ~Connecting() {
    for (const Pending& p : sends_)
      if (p.comm != nullptr) (void)net_.close_send(p.comm);
    for (const Pending& p : receives_) {
      if (p.comm != nullptr) (void)net_.close_receive(p.comm);
      if (p.listen != nullptr) (void)net_.close_listen(p.listen);
    }
  }

  void listen() {
    for (Pending& p : receives_)
      check(net_.listen(set_up_.network.context, device(p), p.handle.data(), &p.listen), "listen");
  }

  /// Each rank tells for whom each of its handles is.
  void exchange_handles() {
    std::string own;
    for (const Pending& p : receives_) {
      own.append(reinterpret_cast<const char*>(&p.peer), sizeof p.peer);
      own.append(p.handle.data(), p.handle.size());
    }
    const auto all = set_up_.bootstrap.exchange(own);
    for (Pending& p : sends_) find_handle(p, all[static_cast<std::size_t>(p.peer.rank)]);
  }

  void poll() {
    const Time end = monotonic_now() + set_up_.patience;
    for (std::size_t left = 1; left != 0;) {
      left = 0;
      for (Pending& p : sends_) left += connected(p) ? 0 : 1;
      for (Pending& p : receives_) left += accepted(p) ? 0 : 1;
      set_up_.bootstrap.look();
      if (left != 0 && monotonic_now() > end)
        throw Failure(fmt::format("connect, accept -> {} of {} connections are not there in time",
                                  left, sends_.size() + receives_.size()));
      if (left != 0) sched_yield();
    }
  }

  void hand_over(std::size_t slot, Connections& out) {
    for (Pending& p : sends_)
      out.sends.emplace_back(net_, std::exchange(p.comm, nullptr), slot, set_up_.rank);
    for (Pending& p : receives_)
      out.receives.emplace_back(net_, std::exchange(p.comm, nullptr), slot, p.peer.rank);
  }

 private:
  [[nodiscard]] int device(const Pending& p) const noexcept {
    return p.peer.channel % set_up_.network.devices;
  }

  bool connected(Pending& p) {
    if (p.comm == nullptr)
      check(net_.connect(set_up_.network.context, device(p), p.handle.data(), &p.comm), "connect");
    return p.comm != nullptr;
  }

  bool accepted(Pending& p) {
    if (p.comm != nullptr) return true;
    check(net_.accept(p.listen, &p.comm), "accept");
    if (p.comm == nullptr) return false;
    check(net_.close_listen(std::exchange(p.listen, nullptr)), "closeListen");
    return true;
  }

  void find_handle(Pending& p, const std::string& theirs) const {
    constexpr std::size_t kEntry = sizeof(Peer) + sizeof(Handle);
    for (std::size_t at = 0; at + kEntry <= theirs.size(); at += kEntry) {
      Peer to;
      std::memcpy(&to, &theirs[at], sizeof to);
      if (to.rank != set_up_.rank || to.channel != p.peer.channel) continue;
      std::memcpy(p.handle.data(), &theirs[at + sizeof to], p.handle.size());
      return;
    }
    throw Failure(fmt::format("bootstrap: no handle from rank {}", p.peer.rank));
  }

  const SetUp& set_up_;
  Net& net_;
  std::deque<Pending> sends_, receives_;
};

}  // namespace

void connect_all(const SetUp& set_up, const Peers& peers, std::size_t slot, Connections& out) {
  Connecting connecting(set_up, peers);
  connecting.listen();
  connecting.exchange_handles();
  connecting.poll();
  connecting.hand_over(slot, out);
}

}  // namespace mrc::nccl_perf
