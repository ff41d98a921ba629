// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/objects/channel.hpp"
#include "verbs_shim/objects/context.hpp"

namespace mrc_verbs {

/// A completion queue, always in its extended form. Any thread.
class Cq : public ibv_cq_ex {
 public:
  /// Throws mrc::Error: a number of entries, or a completion vector, that is out of range.
  Cq(Context& owner, const ibv_cq_init_attr_ex& wanted);
  ~Cq();
  Cq(const Cq&) = delete;
  Cq& operator=(const Cq&) = delete;

  [[nodiscard]] static Cq& of(ibv_cq_ex* verbs) noexcept { return *static_cast<Cq*>(verbs); }
  [[nodiscard]] static Cq& of(ibv_cq* verbs) noexcept {
    return of(reinterpret_cast<ibv_cq_ex*>(verbs));
  }
  /// As the functions want it that are not extended.
  [[nodiscard]] ibv_cq* base() noexcept { return reinterpret_cast<ibv_cq*>(this); }
  [[nodiscard]] Context& owner() noexcept { return owner_; }
  /// Outlives this object while a queue pair lingers (linger.hpp).
  [[nodiscard]] const std::shared_ptr<mrc::CompletionQueue>& queue() const noexcept {
    return queue_;
  }
  [[nodiscard]] int depth() const noexcept { return cqe; }

  /// As ibv_poll_cq(): how many of `room` were filled.
  int poll(int room, ibv_wc* out) noexcept;
  /// As ibv_req_notify_cq(): 0, or an errno value.
  int arm(bool solicited_only) noexcept;
  /// Before it is destroyed: nobody is given events of it any more. Sleeps until the program has
  /// acknowledged those that it was given.
  void withdraw();

  /// Queue pairs that use it: it can't be destroyed meanwhile.
  std::atomic<int> users{0};
  /// Events taken by the program; each has to be acknowledged. Under `mutex`.
  std::uint32_t comp_events_given = 0;
  std::uint32_t async_events_given = 0;

  /// The completion that start_poll and next_poll have found. Under the lock of lock_poll().
  ibv_wc current{};
  /// From a start_poll that has found one to its end_poll. Without effect if the program has said
  /// that one thread alone polls the queue.
  void lock_poll() noexcept {
    if (!single_threaded_) poll_mutex_.lock();
  }
  void unlock_poll() noexcept {
    if (!single_threaded_) poll_mutex_.unlock();
  }

 private:
  Context& owner_;
  Pd* parent_domain_ = nullptr;  ///< that it was created with, or null
  std::shared_ptr<mrc::CompletionQueue> queue_;
  const bool single_threaded_;
  std::mutex poll_mutex_;
};

/// Sets the functions of ibv_cq_ex (extended_cq.cpp).
void set_poll_operations(ibv_cq_ex& cq) noexcept;

}  // namespace mrc_verbs
