// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <net/if.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/fabric/description.hpp"
#include "mrc/fabric/fabric_address.hpp"
#include "mrc/json/json.hpp"

/// "hosts" of a description.
namespace mrc::inline v0_1::fabric::detail {

/// 1 to `longest` letters, digits, '-' and '_', which names of namespaces and files may contain. A
/// leading '-' would look like an option.
[[nodiscard]] inline bool is_name(std::string_view text, std::size_t longest) {
  return !text.empty() && text.size() <= longest && text.front() != '-' &&
         text.find_first_not_of(
             "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") ==
             std::string_view::npos;
}

/// "p1t0-3": the T0 switch 3 of plane 1, as tools call it.
[[nodiscard]] inline bool is_switch_name(std::string_view text) {
  const auto take = [&](std::string_view start) {
    if (!text.starts_with(start)) return false;
    text.remove_prefix(start.size());
    const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits > 0;
  };
  return take("p") && take("t") && take("-") && text.empty();
}

/// True for a valid name of a Linux network interface.
[[nodiscard]] inline bool is_interface_name(std::string_view text) {
  if (text.empty() || text.size() >= IFNAMSIZ || text == "." || text == "..") return false;
  for (const char c : text)
    if (c <= ' ' || c > '~' || c == '/' || c == ':' || c == '%') return false;
  return true;
}

/// Reads the hosts one after the other, and rejects names, downlinks and addresses in use by an
/// earlier one.
class HostReader {
 public:
  HostReader(const json_file::Object& root, const Description& d)
      : root_(root), d_(d), under_(d.t0, 0) {}

  [[nodiscard]] std::vector<Host> read() {
    std::vector<json_file::Object> items;
    if (root_.is_list("hosts")) items = root_.array("hosts", 1, kMaxHosts);
    const auto count = items.empty() ? root_.integer<unsigned>("hosts", 1, kMaxHosts)
                                     : static_cast<unsigned>(items.size());
    std::vector<Host> hosts;
    for (number_ = 0; number_ < count; ++number_) {
      item_ = items.empty() ? nullptr : &items[number_];
      hosts.push_back(read_host(number_ * d_.t0 / count));
    }
    return hosts;
  }

 private:
  static constexpr unsigned kMaxHosts = 4096;
  static constexpr std::size_t kLongestName = 32;

  [[nodiscard]] Host read_host(unsigned usual_t0) {
    Host h;
    h.name = "h" + std::to_string(number_);
    if (item_ != nullptr) h.name = item_->text("name", h.name);
    check_name(h.name);
    h.t0 = usual_t0;
    if (item_ != nullptr) h.t0 = item_->integer<unsigned>("t0", 0, d_.t0 - 1, usual_t0);
    h.downlink = under_[h.t0]++;
    if (item_ != nullptr) h.downlink = item_->integer<unsigned>("downlink", 0, 0xFFFF, h.downlink);
    check_downlink(h);
    read_addresses(h);
    read_interfaces(h);
    read_next_hops(h);
    return h;
  }

  void check_name(const std::string& name) {
    const std::string is = "is \"" + json_file::printable(name) + "\", ";
    if (!is_name(name, kLongestName))
      fail("name", is + "must be 1 to 32 letters, digits, '-' or '_', no '-' in front");
    if (is_switch_name(name)) fail("name", is + "which names a switch");
    if (!names_.insert(name).second) fail("name", is + "like that of an earlier host");
  }

  void check_downlink(const Host& h) {
    const std::string place = std::to_string(h.downlink) + " of T0 " + std::to_string(h.t0);
    const UsidBits bits = d_.usids.downlink;
    if (h.downlink >= bits.limit())
      fail("downlink", "is " + place + ", but usids.downlink (" + json_file::hex_text(bits.mask()) +
                           ") has room for 0 to " + std::to_string(bits.limit() - 1) +
                           ": widen it, or spread the hosts over more T0s");
    const auto [owner, is_new] = downlinks_.try_emplace({h.t0, h.downlink}, h.name);
    if (!is_new) fail("downlink", "is " + place + ", where host " + owner->second + " is already");
  }

  void read_addresses(Host& h) {
    std::vector<std::string> texts;
    if (item_ != nullptr) texts = item_->texts("addresses");
    check_count("addresses", texts.size());
    for (unsigned p = 0; p < d_.planes; ++p) {
      const auto address = texts.empty() ? usual_address(p) : parse_ipv6(texts[p]);
      if (!address || !is_routable(*address))
        fail("addresses", p,
             "is \"" + json_file::printable(texts[p]) +
                 "\", must be a unicast IPv6 address, not link-local");
      check_address(*address, p, h.name);
      h.addresses.push_back(*address);
    }
  }

  /// fd00:<plane + 1>::<host + 1>.
  [[nodiscard]] std::optional<wire::IpAddress> usual_address(unsigned plane) const {
    wire::IpAddress address{0xFD};
    address[3] = static_cast<std::uint8_t>(plane + 1);
    address[14] = static_cast<std::uint8_t>((number_ + 1) >> 8);
    address[15] = static_cast<std::uint8_t>(number_ + 1);
    return address;
  }

  void check_address(const wire::IpAddress& address, unsigned plane, const std::string& host) {
    const std::string is = "is " + format_ipv6(address) + ", ";
    for (unsigned p = 0; p < d_.planes; ++p)
      if (path::usid_block(address) == d_.blocks[p])
        fail("addresses", plane,
             is + "which lies in plane " + std::to_string(p) + "'s uSID block " +
                 format_block(d_.blocks[p]) + ": take addresses outside it");
    const auto [owner, is_new] =
        addresses_.try_emplace(address, host + " in plane " + std::to_string(plane));
    if (!is_new) fail("addresses", plane, is + "like that of host " + owner->second);
  }

  void read_interfaces(Host& h) {
    if (item_ != nullptr) h.interfaces = item_->texts("interfaces");
    check_count("interfaces", h.interfaces.size());
    if (h.interfaces.empty())
      for (unsigned p = 0; p < d_.planes; ++p) h.interfaces.push_back("p" + std::to_string(p));
    std::set<std::string_view> seen;
    for (std::size_t p = 0; p < h.interfaces.size(); ++p) {
      const std::string is = "is \"" + json_file::printable(h.interfaces[p]) + "\", ";
      if (!is_interface_name(h.interfaces[p]))
        fail("interfaces", p,
             is + "must be 1 to 15 characters without blanks, '/', ':' and '%' (Linux's limit)");
      if (!seen.insert(h.interfaces[p]).second)
        fail("interfaces", p, is + "like that of another plane");
    }
  }

  void read_next_hops(Host& h) {
    std::vector<std::string> texts;
    if (item_ != nullptr) texts = item_->texts("next_hops");
    check_count("next_hops", texts.size());
    for (unsigned p = 0; p < texts.size(); ++p) {
      const auto mac = parse_mac(texts[p]);
      if (!mac)
        fail("next_hops", p,
             "is \"" + json_file::printable(texts[p]) +
                 "\", must be the Ethernet address of one port, such as \"02:00:00:00:00:0a\"");
      h.next_hops.push_back(*mac);
    }
  }

  /// A list must be empty or have one element per plane.
  void check_count(std::string_view field, std::size_t count) const {
    if (count != 0 && count != d_.planes)
      fail(field, "has " + std::to_string(count) +
                      " elements, must have one per plane: " + std::to_string(d_.planes));
  }

  /// If the file has only the number of hosts, the error is that of field "hosts".
  [[noreturn]] void fail(std::string_view field, const std::string& what) const {
    if (item_ != nullptr) item_->fail(field, what);
    root_.fail("hosts", "h" + std::to_string(number_) + "'s " + std::string(field) + " " + what);
  }
  [[noreturn]] void fail(std::string_view field, std::size_t plane, const std::string& what) const {
    if (item_ != nullptr) item_->fail(field, plane, what);
    fail(std::string(field) + "[" + std::to_string(plane) + "]", what);
  }

  const json_file::Object& root_;
  const Description& d_;
  const json_file::Object* item_ = nullptr;  ///< null: hosts are only counted
  unsigned number_ = 0;
  std::vector<unsigned> under_;  ///< hosts so far of each T0
  std::set<std::string> names_;
  std::map<std::pair<unsigned, unsigned>, std::string> downlinks_;
  std::map<wire::IpAddress, std::string> addresses_;
};

}  // namespace mrc::inline v0_1::fabric::detail
