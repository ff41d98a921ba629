// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "nccl_plugin/context.hpp"
#include "nccl_plugin/data/endpoint.hpp"
#include "nccl_plugin/data/request.hpp"
#include "nccl_plugin/result.hpp"

namespace mrc_nccl {

/// What Sender and Receiver have in common: progress, the watch over the peer, and failure.
///
/// A connection fails once, for good: with one line in NCCL's log that names peer, path and cause,
/// and every later call returns the same result. Its queue pair never gives up; it does itself:
///
/// * at once when the peer says over the channel that it ends;
/// * soon when the channel breaks and the queue pair is silent: the peer's process has died. While
///   the queue pair answers, a broken channel does not count: forged TCP segments can break it;
/// * after Settings::peer_timeout without a sign of life over planes and channel: the host is gone;
/// * after Settings::outage if only the peer's host answers, over the channel.
///
/// While nothing else is on its way, heartbeats (empty writes) ask for a sign of life.
///
/// Thread contract: one thread at a time, as NCCL does it. Hints come from any thread.
class Connection {
 public:
  /// What has crossed the connection.
  struct Traffic {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };

  Connection(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<Context> context);
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Whether a request is done, with the bytes of each of its buffers; it is free again then.
  Result test(Request& request, int* done, int* sizes);

  /// Ends the connection. Returns the state that must linger to answer the peer, if there is any.
  /// Never waits.
  [[nodiscard]] std::unique_ptr<Endpoint> close();

  /// When any connection of this process has heard of its peer last, or sent what it counts as
  /// done. Any thread.
  [[nodiscard]] static mrc::Time last_busy() noexcept;

  [[nodiscard]] Endpoint& endpoint() noexcept { return *endpoint_; }
  [[nodiscard]] const Traffic& traffic() const noexcept { return traffic_; }
  [[nodiscard]] Role role() const noexcept { return endpoint_->role; }
  [[nodiscard]] bool failed() const noexcept { return state_ != Result::success; }

 protected:
  // Of writes that belong to no request.
  static constexpr std::uint64_t kHeartbeat = ~std::uint64_t{0};
  static constexpr std::uint64_t kRefusal = kHeartbeat - 1;
  static constexpr std::uint64_t kProof = kHeartbeat - 2;

  /// Posts what has waited for more of its kind, or for room.
  virtual void tell() {}
  /// A request of the derived class was completed by the device, with success.
  virtual void on_completion(const mrc::Completion& completion) = 0;
  /// Requests that wait for the peer.
  [[nodiscard]] virtual unsigned pending() const noexcept = 0;
  /// Something that NCCL counts as done may still have to be sent again.
  [[nodiscard]] virtual bool owes_delivery() const noexcept { return false; }
  /// How long what is pending may still succeed after the peer has gone: what it has acknowledged
  /// may be on its way.
  [[nodiscard]] virtual mrc::Duration grace() const noexcept = 0;
  /// A request that NCCL is done with.
  virtual void release(Request& request) noexcept = 0;
  /// All requests, in use or not.
  [[nodiscard]] virtual std::span<Request> requests() noexcept = 0;

  /// For last_busy().
  static void note_busy() noexcept;
  /// Takes completions; where there are none, looks after the peer.
  void progress();
  /// The result that all calls return from now on. Logs the cause.
  Result fail(Result result, const std::string& cause) noexcept;
  [[nodiscard]] Result state() const noexcept { return state_; }
  /// True after the peer's process has closed the connection, or has died.
  [[nodiscard]] bool peer_gone() const noexcept { return gone_at_ != mrc::kNever; }
  /// Fails because of that.
  Result fail_gone() noexcept;
  /// The queue pair takes no requests any more: fails, with its cause.
  Result fail_queue_pair() noexcept;

  void start_event(Request& request, unsigned index, void* parent, std::size_t length,
                   mrc::SendOpcode opcode) noexcept;

  std::unique_ptr<Endpoint> endpoint_;
  const std::shared_ptr<Context> context_;
  Traffic traffic_;

 private:
  void watch();
  void watch_channel(mrc::Time now, mrc::Duration passed);
  void doubt(mrc::Time now, mrc::Duration passed);
  void judge_silence();
  void heard() noexcept;
  void beat();
  mrc::Errc post_empty(std::uint64_t id) noexcept;
  [[nodiscard]] std::uint64_t signs_of_life() const noexcept;
  [[nodiscard]] std::string why_unheard() const;
  void stop_events(Request& request) noexcept;

  Result state_ = Result::success;
  mrc::Time looked_;                 // at the channel, last
  mrc::Time gone_at_ = mrc::kNever;  // the peer ended
  bool beating_ = false;             // a heartbeat is on its way
  // Since the peer was heard last. Only time counts in which NCCL asked: while it did not, or this
  // process was stopped, nobody listened.
  mrc::Duration silent_{0};
  mrc::Duration judged_{0};  // silent_ when it was judged last
  std::uint64_t life_ = 0;   // signs of life then
  bool unheard_told_ = false;
  // Of a channel that has broken.
  std::uint64_t proof_ = 0;  // signs of life when it was asked for one
  enum class Doubt : std::uint8_t { none, settling, asked, dispelled };
  Doubt doubt_ = Doubt::none;
  mrc::Duration doubted_{0};  // for so long
};

}  // namespace mrc_nccl
