// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/transport/sge_room.hpp"

namespace mrc_verbs {

class Cq;
class Host;
class Srq;
struct Pd;

/// What a queue pair of the device is made of.
struct Parts {
  Host& host;
  const Pd& pd;
  const Cq& send_cq;
  const Cq& receive_cq;
  Srq* srq = nullptr;
  mrc::QpCapacity capacity{};
  bool signal_all = false;
};

/// What became of a chain of requests.
struct Posted {
  std::size_t count = 0;  ///< the device has taken so many, from the first on
  /// Why the next one was not taken: refused by the device, or an errno value for what verbs has
  /// and this type of queue pairs has not. Neither: there may be more to take.
  mrc::Errc refused = mrc::Errc::ok;
  int error = 0;
};

/// The queue pair of the device under one of verbs: what differs between connections (RC, UC) and
/// datagrams (UD). States that the device does not know, SQD and SQE, are not its business. Any
/// thread.
class Transport {
 public:
  /// Throws mrc::Error: a type that there is not, or what is out of range.
  [[nodiscard]] static std::unique_ptr<Transport> make(ibv_qp_type type, const Parts& parts);
  virtual ~Transport() = default;
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  [[nodiscard]] virtual mrc::Qpn qpn() const noexcept = 0;
  /// The device has it in ERR, and why.
  [[nodiscard]] virtual bool failed() const noexcept = 0;
  [[nodiscard]] virtual mrc::QpErrorCause cause() const = 0;
  [[nodiscard]] virtual std::string reason() const = 0;

  /// Send requests that were completed without error, since it was created.
  [[nodiscard]] virtual std::uint64_t completed() const = 0;
  /// Slots of the send queue that are not free.
  [[nodiscard]] virtual std::uint32_t sends() const = 0;
  /// It has received something, and its peer may wait for the acknowledgement.
  [[nodiscard]] virtual bool answers() const { return false; }
  /// What is to linger on (linger.hpp), or null. Nothing else may be called afterwards.
  [[nodiscard]] virtual std::unique_ptr<mrc::QueuePair> release() noexcept { return nullptr; }

  // Steps, with the attributes that were set until now. They throw mrc::Error.
  virtual void to_init() = 0;
  virtual void to_rtr(const ibv_qp_attr& attributes) = 0;
  virtual void to_rts(const ibv_qp_attr& attributes) = 0;
  virtual void to_error() = 0;
  virtual void to_reset() = 0;
  /// Attributes that may change with any step, from INIT on.
  virtual void update(const ibv_qp_attr& /*attributes*/, int /*mask*/) {}

  /// 0, or an errno value: this type of queue pairs has no such request.
  [[nodiscard]] virtual int check(const ibv_send_wr& request) const noexcept = 0;
  /// Gives the device as many requests of a chain as fit into one call.
  [[nodiscard]] virtual Posted post(const ibv_send_wr& first) noexcept = 0;
  [[nodiscard]] virtual mrc::Errc post(const mrc::ReceiveRequest& request) noexcept = 0;
  /// Completes a send request at once that the device is not given.
  [[nodiscard]] virtual mrc::Errc complete(const ibv_send_wr& request,
                                           mrc::WcStatus status) noexcept = 0;
  /// How a request completes whose mistake stops the send queue alone (SQE); nothing if the program
  /// learns of it from ibv_post_send().
  [[nodiscard]] virtual std::optional<mrc::WcStatus> stops_sending(
      const ibv_send_wr& request, mrc::Errc error) const noexcept = 0;
};

/// Posts a chain, or its beginning. `convert` makes a Request of a request of verbs, except for its
/// SGEs, and returns 0 or an errno value; `post` gives the device some, and counts those taken.
template <class Request, class Convert, class Post>
Posted post_chain(const ibv_send_wr& first, Convert&& convert, Post&& post) noexcept {
  constexpr std::size_t kBatch = 16;
  const auto give = [&](std::span<Request> room) {
    Posted done;
    SgeRoom sges;
    std::size_t count = 0;
    for (const ibv_send_wr* r = &first; r != nullptr && count < room.size(); r = r->next) {
      done.error = convert(*r, room[count]);
      if (done.error == 0 && !sges.take(r->sg_list, r->num_sge, room[count].sges))
        done.error = EINVAL;
      if (done.error != 0) break;
      ++count;
    }
    if (count == 0) return done;
    done.error = 0;  // of a later one, which comes first next time
    done.refused = post(std::span<const Request>(room.data(), count), done.count);
    return done;
  };
  if (first.next == nullptr) {
    Request one;
    return give({&one, 1});
  }
  std::array<Request, kBatch> batch;
  return give(batch);
}

}  // namespace mrc_verbs
