// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"

/// Operating system functions for the tool: programs, files, privileges.
namespace mrc::bench {

/// Throws mrc::Error with errno as its cause.
[[noreturn]] inline void throw_errno(const std::string& what) {
  throw Error(std::error_code(errno, std::generic_category()), what);
}

/// Owns one file descriptor.
class FileDescriptor {
 public:
  explicit FileDescriptor(int fd = -1) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

/// Runs a program in this process's network namespace, with `input` as its standard input, and
/// returns its standard output. Throws mrc::Error if it is not installed, or if its status is not
/// 0; then with its standard error and `remedy`.
std::string run_program(const std::vector<std::string>& command, const std::string& input = {},
                        const std::string& remedy = {});

/// Throws mrc::Error unless this process may create and enter network namespaces.
void need_root(const std::string& command);

/// The file's contents; empty if it can't be read.
[[nodiscard]] std::string read_text(const std::string& file);

}  // namespace mrc::bench
