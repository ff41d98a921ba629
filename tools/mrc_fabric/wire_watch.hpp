// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "mrc_fabric/system.hpp"

namespace mrc::bench {

/// What has become of an interface.
struct LinkNews {
  int index = 0;
  std::string name, alias;
  bool is_gone = false;
};

/// Sees the interfaces of the namespace that it was made in come, go and get another alias
/// (rtnetlink).
class WireWatch {
 public:
  /// Asks for all interfaces that there are. Throws mrc::Error.
  WireWatch();
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// What has come since. If it was too much for the kernel to keep, all interfaces come anew.
  [[nodiscard]] std::vector<LinkNews> read();

 private:
  void ask_for_all() const;

  UniqueFd socket_;
  std::vector<char> buffer_;
};

}  // namespace mrc::bench
