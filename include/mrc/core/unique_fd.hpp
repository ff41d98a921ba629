// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "mrc/core/uncancelled.hpp"

namespace mrc::inline v0_1 {

/// Owns one file descriptor, or none (-1), and closes it. Move-only. One thread at a time.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  /// Takes ownership of `fd`; -1: owns none.
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  /// Takes the descriptor over; `other` owns none afterwards.
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  /// Takes the descriptor of `other` over; the former one is closed.
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      close();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { close(); }

  /// The descriptor, still owned here; -1 if there is none.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// True if a descriptor is owned.
  [[nodiscard]] bool open() const noexcept { return fd_ >= 0; }
  /// Closes the descriptor, if there is one. An error of close() is ignored.
  void close() noexcept {
    if (fd_ >= 0) (void)uncancelled::close(release());
  }
  /// Gives the descriptor up without closing it.
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace mrc::inline v0_1
