// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "mrc/core/unique_fd.hpp"
#include "mrc/engine/types.hpp"

namespace mrc::inline v0_1::detail {

/// The event descriptors (eventfd) of a device's completion queues. Owns them: those of queues that
/// outlive their handle are closed with the device. Thread contract: under the device's lock.
class CqEvents {
 public:
  void add(CqId cq, UniqueFd fd) {
    if (index(cq) >= fds_.size()) fds_.resize(index(cq) + 1);
    fds_[index(cq)] = std::move(fd);
  }
  void remove(CqId cq) noexcept { fds_[index(cq)].close(); }
  /// Makes the descriptor readable.
  void signal(CqId cq) noexcept {
    const std::uint64_t one = 1;
    const UniqueFd& fd = fds_[index(cq)];
    if (fd.open()) (void)!::write(fd.fd(), &one, sizeof one);
  }

 private:
  [[nodiscard]] static std::size_t index(CqId cq) noexcept { return static_cast<std::size_t>(cq); }

  std::vector<UniqueFd> fds_;
};

}  // namespace mrc::inline v0_1::detail
