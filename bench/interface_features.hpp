// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/unique_fd.hpp"

namespace mrc::bench {

/// What the kernel can leave to an interface, or do on its behalf, by the names that `ethtool -k`
/// lists ("rx-gro", "tx-udp-segmentation", ...).
class InterfaceFeatures {
 public:
  /// An interface of this thread's network namespace. Throws mrc::Error.
  explicit InterfaceFeatures(const std::string& interface)
      : socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    std::strncpy(request_.ifr_name, interface.c_str(), IFNAMSIZ - 1);
    std::vector<std::byte> sets(sizeof(ethtool_sset_info) + sizeof(std::uint32_t));
    auto* const info = new (sets.data()) ethtool_sset_info{};
    info->cmd = ETHTOOL_GSSET_INFO;
    info->sset_mask = std::uint64_t{1} << ETH_SS_FEATURES;
    call(info);
    const std::uint32_t count = info->data[0];
    std::vector<std::byte> strings(sizeof(ethtool_gstrings) + count * ETH_GSTRING_LEN);
    auto* const head = new (strings.data()) ethtool_gstrings{};
    head->cmd = ETHTOOL_GSTRINGS;
    head->string_set = ETH_SS_FEATURES;
    head->len = count;
    call(head);
    for (std::uint32_t i = 0; i < count; ++i)
      names_.emplace_back(reinterpret_cast<const char*>(head->data) + i * ETH_GSTRING_LEN);
  }

  /// What cuts large packets of TCP and UDP into those of the wire. Kernels keep adding to these.
  [[nodiscard]] std::vector<std::string_view> segmentation() const {
    std::vector<std::string_view> names;
    for (const std::string& name : names_)
      if (name == "tx-udp-segmentation" ||
          (name.starts_with("tx-tcp") && name.ends_with("segmentation")))
        names.emplace_back(name);
    return names;
  }

  /// Switches features on or off, of those that the kernel knows. Throws mrc::Error, also if one
  /// can't be changed.
  void set(const std::vector<std::string_view>& names, bool on) {
    const std::size_t blocks = (names_.size() + 31) / 32;
    std::vector<std::byte> words(sizeof(ethtool_sfeatures) +
                                 blocks * sizeof(ethtool_set_features_block));
    auto* const all = new (words.data()) ethtool_sfeatures{};
    all->cmd = ETHTOOL_SFEATURES;
    all->size = static_cast<std::uint32_t>(blocks);
    for (std::size_t i = 0; i < names_.size(); ++i)
      for (const std::string_view name : names)
        if (names_[i] == name) {
          all->features[i / 32].valid |= 1u << i % 32;
          if (on) all->features[i / 32].requested |= 1u << i % 32;
        }
    call(all);
  }

 private:
  void call(void* command) {
    request_.ifr_data = static_cast<char*>(command);
    const int status = ioctl(socket_.fd(), SIOCETHTOOL, &request_);
    if (status > 0) errno = EOPNOTSUPP;  // not all of what is wanted has been done
    if (status != 0)
      throw_errno("can't read or set the features of interface " + std::string(request_.ifr_name));
  }

  UniqueFd socket_;
  ifreq request_{};
  std::vector<std::string> names_;
};

}  // namespace mrc::bench
