// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/session.hpp"

#include <algorithm>

namespace mrc::check_tool {

std::optional<Session::Answer> Session::on_request(const ProbeHead& head, std::size_t size,
                                                   unsigned plane, const port::IpAddress& from) {
  if (head.kind == ProbeHead::Kind::answer || head.token != token_ || head.answering != plane ||
      head.asking >= other_.planes.size() || head.path >= kMostPaths ||
      other_.planes[head.asking].address != from)
    return std::nullopt;
  if (arrived_.size() < kMostKept)
    arrived_[{head.round, head.asking, head.answering}] |= std::uint64_t{1} << head.path;
  std::uint64_t& credit = credit_[head.asking];
  constexpr std::uint64_t kMostCredit = 1 << 20;
  credit = std::min<std::uint64_t>(credit + size, kMostCredit);
  const std::size_t piece = piece_bytes(head.kind);
  const std::size_t wanted =
      piece != 0 ? piece : std::max<std::size_t>(head.wanted, ProbeHead::kSize);
  if (head.wanted == 0 || credit < wanted) return std::nullopt;
  credit -= wanted;
  Answer answer;
  answer.head = head;
  answer.head.kind = ProbeHead::Kind::answer;
  answer.size = wanted;
  answer.piece = piece != 0;
  answer.to = {from, other_.planes[head.asking].probe_port};
  return answer;
}

std::optional<Session::Answer> Session::on_asked(std::uint16_t round, std::uint64_t plane,
                                                 std::uint64_t path) {
  // Nobody has shown that it receives at these addresses.
  constexpr unsigned kMostAsked = 4096;
  if (plane >= other_.planes.size() || path >= kMostPaths || asked_ == kMostAsked)
    return std::nullopt;
  ++asked_;
  Answer answer;
  answer.head.token = token_;
  answer.head.kind = ProbeHead::Kind::answer;
  answer.head.asking = answer.head.answering = static_cast<std::uint8_t>(plane);
  answer.head.path = static_cast<std::uint8_t>(path);
  answer.head.round = round;
  answer.size = ProbeHead::kSize;
  answer.to = {other_.planes[plane].address, other_.planes[plane].probe_port};
  return answer;
}

void Session::on_failure(unsigned asking, unsigned answering, int error) {
  failed_[{asking, answering}] = error;  // as many as there are pairs
}

Json Session::report(std::uint16_t round) {
  Json arrived = Json::array(), failed = Json::array();
  std::erase_if(arrived_, [&](const auto& entry) {
    const auto& [of, asking, answering] = entry.first;
    if (of == round) arrived.push_back({asking, answering, entry.second});
    return of == round;
  });
  for (const auto& [pair, error] : failed_) failed.push_back({pair.first, pair.second, error});
  failed_.clear();
  credit_.clear();
  return {{"ok", true}, {"arrived", std::move(arrived)}, {"failed", std::move(failed)}};
}

}  // namespace mrc::check_tool
