// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/nic.hpp"

#include "mrc/net/address.hpp"

namespace mrc_nccl {

namespace {

// The same for each process of a host and after each start, and another one for each NIC.
std::uint64_t guid_of(const std::vector<mrc::port::IpAddress>& addresses) {
  std::uint64_t guid = 0x6D72636E63636C00;
  for (const auto& ip : addresses) guid = guid * 0x9E3779B97F4A7C15u ^ mrc::port::source_tag(ip);
  return guid;
}

std::string count_text(std::size_t n, const std::string& what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

}  // namespace

Nic::Nic(const Settings& settings, const NicPlan& plan, const mrc::Config& config, int number,
         std::vector<int> members)
    : settings_(settings), plan_(plan), device_(config), memory_(device_) {
  for (const std::string& name : device_.plane_names())
    addresses_.push_back(mrc::port::parse_address(name).ip);
  offers_ = plane_offers(addresses_, read_interfaces());
  facts_.name = plan.name;
  facts_.pci_path = plan.pci_path;
  facts_.guid = guid_of(addresses_);
  facts_.speed_mbps = plan.speed_mbps;
  facts_.rail = number;
  facts_.plane = plan.plane_count == 1 ? plan.first_plane : -1;
  facts_.members = std::move(members);
}

bool Nic::is_news(const std::string& line) {
  constexpr std::size_t kMost = 16;
  const std::lock_guard lock(mutex_);
  return told_.size() < kMost && told_.insert(line).second;
}

std::uint64_t Nic::count_refused(const std::string& peer) {
  const std::lock_guard lock(mutex_);
  refused_.last = peer;
  return ++refused_.count;
}

Nic::Refused Nic::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

/// "p0 10.0.0.1"; without the interface if none is known.
std::string Nic::place_of(std::size_t plane) const {
  const std::string name = plane < plan_.interfaces.size() ? plan_.interfaces[plane] : "";
  return name + (name.empty() ? "" : " ") + mrc::port::format_local({addresses_[plane], name});
}

std::string Nic::plane_text(mrc::Plane plane) const {
  const std::string text = "plane " + std::to_string(plane);
  return plane < addresses_.size() ? text + " " + place_of(plane) : text;
}

std::string Nic::text() {
  std::string planes;
  for (std::size_t p = 0; p < addresses_.size(); ++p) planes += (p == 0 ? "" : ", ") + place_of(p);
  const mrc::Config& config = device_.config();
  return facts_.name + ": " + count_text(addresses_.size(), "plane") + " (" + planes + ") x " +
         count_text(config.paths, "path") + ", " + count_text(device_.lane_count(), "lane") + ", " +
         carriers(config) + ", " + std::to_string(facts_.speed_mbps / 1000) + " Gb/s, " +
         std::to_string(device_.default_attributes().mtu) + "-byte packets, iCRC " +
         config.get("icrc");
}

}  // namespace mrc_nccl
