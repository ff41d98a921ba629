// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/transport/request_list.hpp"

#include <algorithm>

namespace mrc_verbs {

ibv_send_wr& RequestList::add() {
  parts_.push_back({sges_.size(), 0});
  return requests_.emplace_back();
}

void RequestList::set_sges(std::span<const ibv_sge> sges) {
  if (requests_.empty()) return;
  sges_.insert(sges_.end(), sges.begin(), sges.end());
  parts_.back().sges += sges.size();
}

void RequestList::set_inline(std::span<const ibv_data_buf> pieces) {
  if (requests_.empty()) return;
  requests_.back().send_flags |= IBV_SEND_INLINE;
  const std::size_t start = bytes_.size();
  for (const ibv_data_buf& piece : pieces) {
    const auto* first = static_cast<const std::byte*>(piece.addr);
    bytes_.insert(bytes_.end(), first, first + piece.length);
  }
  sges_.push_back({start, static_cast<std::uint32_t>(bytes_.size() - start), 0});
  parts_.back().sges += 1;
}

void RequestList::set_address(const DatagramAddress& address) {
  if (requests_.empty()) return;
  auto& to = requests_.back().wr.ud;
  to.ah = address.device;
  to.remote_qpn = address.qpn;
  to.remote_qkey = address.q_key;
}

void RequestList::copy(const ibv_send_wr& request) {
  ibv_send_wr& mine = add();
  mine = request;
  const std::span sges(request.sg_list, static_cast<std::size_t>(std::max(request.num_sge, 0)));
  if ((request.send_flags & IBV_SEND_INLINE) == 0) return set_sges(sges);
  std::vector<ibv_data_buf> pieces;
  for (const ibv_sge& sge : sges) pieces.push_back({reinterpret_cast<void*>(sge.addr), sge.length});
  set_inline(pieces);
}

ibv_send_wr* RequestList::chain() {
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    ibv_send_wr& request = requests_[i];
    const Part& part = parts_[i];
    const std::span sges(sges_.data() + part.first_sge, part.sges);
    request.sg_list = sges.data();
    request.num_sge = static_cast<int>(part.sges);
    request.next = i + 1 < requests_.size() ? &requests_[i + 1] : nullptr;
    if ((request.send_flags & IBV_SEND_INLINE) == 0) continue;
    for (ibv_sge& sge : sges)
      if (!chained_) sge.addr += reinterpret_cast<std::uintptr_t>(bytes_.data());
  }
  chained_ = true;
  return requests_.empty() ? nullptr : requests_.data();
}

void RequestList::clear() noexcept {
  requests_.clear();
  parts_.clear();
  sges_.clear();
  bytes_.clear();
  error = 0;
  chained_ = false;
}

}  // namespace mrc_verbs
