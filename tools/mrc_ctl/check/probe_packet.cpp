// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/probe_packet.hpp"

#include <algorithm>
#include <string_view>

namespace mrc::check_tool {
namespace {

constexpr std::string_view kProbeMark = "MRCCHECK";
constexpr std::size_t kFields = kProbeMark.size() + std::tuple_size_v<Token>;

}  // namespace

void put_head(const ProbeHead& head, std::span<std::uint8_t> packet) noexcept {
  std::copy(kProbeMark.begin(), kProbeMark.end(), packet.begin());
  std::copy(head.token.begin(), head.token.end(), packet.begin() + kProbeMark.size());
  const auto put = [&](std::size_t at, unsigned value) {
    packet[kFields + at] = static_cast<std::uint8_t>(value);
  };
  put(0, static_cast<unsigned>(head.kind));
  put(1, head.asking);
  put(2, head.answering);
  put(3, head.path);
  put(4, head.round >> 8);
  put(5, head.round);
  put(6, head.wanted >> 8);
  put(7, head.wanted);
}

std::optional<ProbeHead> read_head(std::span<const std::uint8_t> packet) noexcept {
  if (packet.size() < ProbeHead::kSize ||
      !std::equal(kProbeMark.begin(), kProbeMark.end(), packet.begin()))
    return std::nullopt;
  const auto get = [&](std::size_t at) { return packet[kFields + at]; };
  if (get(0) < 1 || get(0) > 4) return std::nullopt;
  ProbeHead head;
  std::copy_n(packet.begin() + kProbeMark.size(), head.token.size(), head.token.begin());
  head.kind = static_cast<ProbeHead::Kind>(get(0));
  head.asking = get(1);
  head.answering = get(2);
  head.path = get(3);
  head.round = static_cast<std::uint16_t>(get(4) << 8 | get(5));
  head.wanted = static_cast<std::uint16_t>(get(6) << 8 | get(7));
  return head;
}

}  // namespace mrc::check_tool
