// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/plane/verbs/uc.hpp"
#include "mrc/plane/verbs/uc_message.hpp"
#include "mrc/plane/verbs/verbs_queues.hpp"
#include "mrc/plane/verbs/verbs_uc.hpp"

namespace mrc::inline v0_1::port {

/// What a verbs port and one peer port need so that their devices place payload: the receiving ends
/// of the peer's UC paths, the sending ends of the own ones, and the peer's keys. Guarded by the
/// port's lock.
struct VerbsPlacement {
  /// The receiving end of a path from the peer.
  struct Receiver {
    VerbsHandle<ibv_qp> qp;  ///< null: none yet
    std::uint8_t epoch = 0;  ///< of the path
  };

  /// For so many paths in each direction.
  explicit VerbsPlacement(std::uint16_t paths)
      : receiver(receiver_options(paths)),
        receivers(paths),
        connected(paths),
        headers(MutableBytes(message).subspan(kIncarnationSize)) {}

  UcReceiver receiver;                   ///< joins and settles what the peer writes
  std::vector<Receiver> receivers;       ///< by path
  std::unique_ptr<VerbsUcSend> sender;   ///< the sending ends
  std::vector<std::uint32_t> connected;  ///< the peer's queue pairs that `sender` sends to, by path
  /// What the peer's device calls the memory that its program calls by the key; 0: not to be
  /// written to by the device.
  std::unordered_map<std::uint32_t, std::uint32_t> keys;
  bool refused = false;  ///< by either side: a path has broken its promise

  /// In front of each message of headers: which of the receiver's UC paths are meant.
  static constexpr std::size_t kIncarnationSize = 4;
  std::array<std::uint8_t, VerbsQueues::kMaxBytes> message{};  ///< buffer of `headers`
  UcHeadersWriter headers;     ///< of writes whose headers have not been sent yet
  std::uint64_t marked = 0;    ///< paths that are to bring a marker
  std::uint64_t prepared = 0;  ///< paths with writes that are not posted yet
  bool touched = false;        ///< any of these three has something
  bool in_flight = false;      ///< writes are in the device
  bool waiting = false;        ///< `receiver` has, or had, unsettled packets

 private:
  [[nodiscard]] static UcReceiverOptions receiver_options(std::uint16_t paths) noexcept {
    UcReceiverOptions o;
    o.paths = paths;
    o.ring = 256;
    return o;
  }
};

}  // namespace mrc::inline v0_1::port
