// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"

namespace mrc::inline v0_1::detail {

/// The file named by option keylog: the tags of all connections, so that tools which see packets
/// can check them. One line per address, `MRC_TAG address QPN tag`: packets to that address and
/// queue pair carry that tag (wire::Tag). Several devices and processes may append to one file.
///
/// Thread contract: one thread at a time.
class KeyLog {
 public:
  /// Nothing is logged if `path` is empty. Opened as open_own_file() does; a new file can be read
  /// by its owner only, and so must be one that is there. Throws mrc::Error that names the file.
  explicit KeyLog(const std::string& path);
  /// Appends the tag of a queue pair that receives at these addresses; nothing if it has none. What
  /// can't be written is lost.
  void add(std::span<const port::PeerAddress> planes, Qpn qpn, std::uint64_t tag) noexcept;
  /// True if there is a file.
  [[nodiscard]] bool open() const noexcept { return file_.open(); }

 private:
  UniqueFd file_;
};

}  // namespace mrc::inline v0_1::detail
