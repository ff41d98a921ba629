// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"

namespace mrc_verbs {

/// Whether a request's list of SGEs is there, as far as that can be seen.
[[nodiscard]] constexpr bool has_list(const ibv_sge* first, int count) noexcept {
  return count == 0 || (count > 0 && first != nullptr);
}

/// Room for the SGEs of the requests that go to the device together. Not initialised: most requests
/// have one.
class SgeRoom {
 public:
  /// The SGEs that have bytes, or nothing if they do not fit now, or are not there. Empty ones name
  /// no memory.
  bool take(const ibv_sge* from, int count, std::span<const mrc::Sge>& out) noexcept {
    if (!has_list(from, count)) return false;
    if (static_cast<std::size_t>(count) > mrc::kMaxSendSges - used_) return false;
    auto* first = reinterpret_cast<mrc::Sge*>(bytes_) + used_;
    std::size_t taken = 0;
    for (int i = 0; i < count; ++i) {
      if (from[i].length == 0) continue;
      std::construct_at(first + taken++, mrc::Sge{reinterpret_cast<const void*>(from[i].addr),
                                                  from[i].length, from[i].lkey});
    }
    used_ += taken;
    out = {first, taken};
    return true;
  }

 private:
  std::size_t used_ = 0;
  alignas(mrc::Sge) std::byte bytes_[mrc::kMaxSendSges * sizeof(mrc::Sge)];
};

}  // namespace mrc_verbs
