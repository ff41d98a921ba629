// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/rules/plane_match.hpp"

#include <algorithm>
#include <optional>
#include <set>

namespace mrc_nccl {
namespace {

using mrc::port::IpAddress;

constexpr const char* kSameInterfaces =
    "name the same interfaces in the same order on all hosts (NCCL_SOCKET_IFNAME or MRC_PLANES)";

bool in_subnet(const PlaneOffer& plane, const IpAddress& ip) {
  if (plane.prefix_bits == 0 || mrc::port::is_v4(plane.ip) != mrc::port::is_v4(ip)) return false;
  for (unsigned bit = 0; bit < plane.prefix_bits; bit += 8) {
    const unsigned left = std::min(8u, plane.prefix_bits - bit);
    if ((plane.ip[bit / 8] ^ ip[bit / 8]) >> (8 - left) != 0) return false;
  }
  return true;
}

/// "p0 10.0.0.1/24".
std::string text_of(const PlaneOffer& plane) {
  std::string text = plane.interface + (plane.interface.empty() ? "" : " ");
  text += mrc::port::format_local({plane.ip, plane.interface});
  if (plane.prefix_bits == 0) return text;
  return text + "/" + std::to_string(plane.prefix_bits - (mrc::port::is_v4(plane.ip) ? 96 : 0));
}

std::string text_of(const std::vector<PlaneOffer>& planes) {
  std::string text;
  for (const PlaneOffer& plane : planes) text += (text.empty() ? "" : ", ") + text_of(plane);
  return text;
}

/// "plane 1", "planes 0, 2".
std::string numbers(const std::vector<std::size_t>& planes) {
  std::string text = planes.size() == 1 ? "plane " : "planes ";
  for (std::size_t i = 0; i < planes.size(); ++i)
    text += (i == 0 ? "" : ", ") + std::to_string(planes[i]);
  return text;
}

std::string count_text(std::size_t planes) {
  return std::to_string(planes) + (planes == 1 ? " plane" : " planes");
}

/// The plane of `side` other than `number` whose subnet has the address.
std::optional<std::size_t> other_plane(const PlaneSide& side, std::size_t number,
                                       const IpAddress& ip) {
  for (std::size_t i = 0; i < side.planes.size(); ++i)
    if (i != number && in_subnet(side.planes[i], ip)) return i;
  return std::nullopt;
}

class Comparison {
 public:
  Comparison(const PlaneSide& mine, const PlaneSide& theirs)
      : mine_(mine), theirs_(theirs), common_(std::min(mine.planes.size(), theirs.planes.size())) {}

  PlaneMatch result() {
    compare_counts();
    compare_families();
    if (match_.error.empty()) compare_subnets();
    if (match_.error.empty()) compare_packets();
    return std::move(match_);
  }

 private:
  void compare_counts() {
    const std::size_t most = std::max(mine_.planes.size(), theirs_.planes.size());
    if (common_ == most) return;
    match_.warnings.push_back(
        count_text(mine_.planes.size()) + " " + mine_.name + " (" + text_of(mine_.planes) +
        ") and " + std::to_string(theirs_.planes.size()) + " at " + theirs_.name + " (" +
        text_of(theirs_.planes) + "): " + std::to_string(common_) + " of " + std::to_string(most) +
        " carry traffic between them; " + kSameInterfaces + ", and set MRC_NCCL_MERGE alike");
  }

  void compare_families() {
    std::vector<std::size_t> differ;
    for (std::size_t i = 0; i < common_; ++i)
      if (mrc::port::is_v4(mine_.planes[i].ip) != mrc::port::is_v4(theirs_.planes[i].ip))
        differ.push_back(i);
    if (differ.empty()) return;
    const std::string text = example(differ.front()) + ", of another IP version";
    finding(differ, text, "; set NCCL_SOCKET_FAMILY alike on all hosts");
  }

  /// Planes that are in each other's place.
  void compare_subnets() {
    std::vector<std::size_t> misplaced;
    std::string text;
    for (std::size_t i = 0; i < common_; ++i) {
      const PlaneOffer &here = mine_.planes[i], &there = theirs_.planes[i];
      if (in_subnet(here, there.ip) || in_subnet(there, here.ip)) continue;
      const auto ours = other_plane(mine_, i, there.ip), its = other_plane(theirs_, i, here.ip);
      if (!ours && !its) continue;
      misplaced.push_back(i);
      if (text.empty())
        text = "planes are in another order: " + example(i) + ", the subnet of plane " +
               std::to_string(ours ? *ours : *its) + (ours ? " " + mine_.name : " there");
    }
    if (misplaced.empty())
      compare_names();
    else
      finding(misplaced, text, std::string("; ") + kSameInterfaces);
  }

  /// Where subnets tell nothing, names may.
  void compare_names() {
    const auto names = [](const PlaneSide& side) {
      std::set<std::string> all;
      for (const PlaneOffer& plane : side.planes) all.insert(plane.interface);
      return all;
    };
    if (names(mine_) != names(theirs_) || names(mine_).size() != common_) return;
    for (std::size_t i = 0; i < common_; ++i) {
      const PlaneOffer &here = mine_.planes[i], &there = theirs_.planes[i];
      const bool certain = in_subnet(here, there.ip) && !other_plane(mine_, i, there.ip);
      if (here.interface == there.interface || certain) continue;
      match_.warnings.push_back("interfaces are in another order: " + example(i) +
                                "; if these are different networks, " + kSameInterfaces);
      return;
    }
  }

  void compare_packets() {
    const std::uint32_t mine = mine_.packet_bytes, theirs = theirs_.packet_bytes;
    if (mine == 0 || theirs == 0 || mine == theirs) return;
    std::string cause;
    for (std::size_t i = 0; i < common_ && cause.empty(); ++i) {
      const PlaneOffer &here = mine_.planes[i], &there = theirs_.planes[i];
      if (here.mtu != 0 && there.mtu != 0 && here.mtu != there.mtu)
        cause = "the MTU of plane " + std::to_string(i) + " is " + std::to_string(here.mtu) + " " +
                mine_.name + " (" + text_of(here) + ") and " + std::to_string(there.mtu) + " at " +
                theirs_.name + " (" + text_of(there) + ")";
    }
    match_.warnings.push_back(
        "packets carry " + std::to_string(std::min(mine, theirs)) + " bytes and not " +
        std::to_string(std::max(mine, theirs)) + ": " +
        (cause.empty() ? std::to_string(mine) + " " + mine_.name + ", " + std::to_string(theirs) +
                             " at " + theirs_.name + "; set MRC_MTU alike"
                       : cause + "; give all interfaces of a plane the same MTU"));
  }

  /// An error if no plane is left, else a warning.
  void finding(const std::vector<std::size_t>& planes, const std::string& text,
               const std::string& remedy) {
    unusable_.insert(planes.begin(), planes.end());
    if (unusable_.size() == common_)
      match_.error = text + ": no plane fits" + remedy;
    else
      match_.warnings.push_back(text + ": no traffic can be expected of " + numbers(planes) +
                                remedy);
  }

  [[nodiscard]] std::string example(std::size_t i) const {
    return "plane " + std::to_string(i) + " is " + text_of(mine_.planes[i]) + " " + mine_.name +
           " and " + text_of(theirs_.planes[i]) + " at " + theirs_.name;
  }

  const PlaneSide& mine_;
  const PlaneSide& theirs_;
  const std::size_t common_;
  std::set<std::size_t> unusable_;
  PlaneMatch match_;
};

}  // namespace

std::vector<PlaneOffer> plane_offers(const std::vector<IpAddress>& addresses,
                                     const std::vector<InterfaceFacts>& interfaces) {
  std::vector<PlaneOffer> offers;
  for (const IpAddress& ip : addresses) {
    offers.push_back({.interface = {}, .ip = ip});
    for (const InterfaceFacts& facts : interfaces)
      for (std::size_t i = 0; i < facts.addresses.size(); ++i) {
        const std::uint8_t bits = i < facts.prefix_bits.size() ? facts.prefix_bits[i] : 0;
        // Loopback addresses that no interface lists (127.0.0.2) belong to the loopback interface.
        const bool own =
            facts.addresses[i] == ip ||
            (facts.loopback && mrc::port::is_loopback(ip) && mrc::port::is_v4(facts.addresses[i]));
        if (own && offers.back().interface.empty())
          offers.back() = {facts.name, ip, bits,
                           facts.link || mrc::port::is_loopback(ip) ? facts.mtu : 0};
      }
  }
  return offers;
}

PlaneMatch match_planes(const PlaneSide& mine, const PlaneSide& theirs) {
  return Comparison(mine, theirs).result();
}

}  // namespace mrc_nccl
