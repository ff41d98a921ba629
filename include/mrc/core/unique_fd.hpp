// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace mrc::inline v0_1 {

/// The calling thread can't be cancelled (pthread_cancel()) while it exists: for noexcept functions
/// that call cancellation points, which would end the process. Costs some 30 ns. One thread.
class Uncancelled {
 public:
  Uncancelled() noexcept { (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { (void)::pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace mrc::inline v0_1

/// The C library's functions of these names, but no cancellation points: for the data path, and for
/// destructors.
namespace mrc::inline v0_1::uncancelled {

/// Like that of the C library.
inline ssize_t read(int fd, void* to, std::size_t size) noexcept {
  const Uncancelled now;
  return ::read(fd, to, size);
}
/// Like that of the C library.
inline ssize_t write(int fd, const void* from, std::size_t size) noexcept {
  const Uncancelled now;
  return ::write(fd, from, size);
}
/// Like that of the C library.
inline int close(int fd) noexcept {
  const Uncancelled now;
  return ::close(fd);
}

}  // namespace mrc::inline v0_1::uncancelled

namespace mrc::inline v0_1 {

/// Owns one file descriptor, or none (-1), and closes it. Move-only. One thread at a time.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  /// Takes ownership of `fd`; -1: owns none.
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
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
