// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/objects/context.hpp"

namespace mrc_verbs {

/// A shared receive queue. Any thread.
class Srq : public ibv_srq {
 public:
  /// Throws mrc::Error that names what is out of range. Writes to `wanted` what was granted.
  Srq(Context& owner, Pd& pd, void* program_context, ibv_srq_attr& wanted);
  ~Srq();
  Srq(const Srq&) = delete;
  Srq& operator=(const Srq&) = delete;

  [[nodiscard]] static Srq& of(ibv_srq* verbs) noexcept { return *static_cast<Srq*>(verbs); }
  [[nodiscard]] Context& owner() noexcept { return owner_; }
  /// The device's queue. Queue pairs that linger keep it.
  [[nodiscard]] const std::shared_ptr<mrc::SharedReceiveQueue>& queue() noexcept { return queue_; }

  /// 0, or an errno value; then `bad` is the first request not posted.
  int post(ibv_recv_wr* request, ibv_recv_wr** bad) noexcept;

  std::atomic<int> users{0};  ///< queue pairs
  /// Asynchronous events taken by the program; each has to be acknowledged. Under `mutex`.
  std::uint32_t events_given = 0;

 private:
  Context& owner_;
  Pd& pd_;
  std::shared_ptr<mrc::SharedReceiveQueue> queue_;
};

}  // namespace mrc_verbs
