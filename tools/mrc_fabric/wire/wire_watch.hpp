// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc_fabric/system.hpp"

namespace mrc::tools {

/// A change of an interface.
struct LinkNews {
  int index = 0;
  std::string name, alias;
  bool is_gone = false;
};

/// Watches the interfaces of the namespace in which it was created: added, removed, alias changed
/// (rtnetlink).
class WireWatch {
 public:
  /// Requests all existing interfaces. Throws mrc::Error.
  WireWatch();
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// Changes since the last call. After an overflow in the kernel, all interfaces are reported
  /// anew.
  [[nodiscard]] std::vector<LinkNews> read();

 private:
  void ask_for_all() const;

  UniqueFd socket_;
  std::vector<char> buffer_;
};

}  // namespace mrc::tools
