// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/system.hpp"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace mrc::tools {
namespace {

/// A memory file: as input or output of a program it can't block when full, unlike a pipe.
class MemoryFile {
 public:
  explicit MemoryFile(const std::string& text = {}) : file_(memfd_create("input", MFD_CLOEXEC)) {
    const bool written = file_.open() && write(file_.fd(), text.data(), text.size()) ==
                                             static_cast<ssize_t>(text.size());
    if (!written || lseek(file_.fd(), 0, SEEK_SET) != 0) throw_errno("no memory for a file");
  }
  [[nodiscard]] int fd() const noexcept { return file_.fd(); }
  [[nodiscard]] std::string text() const {
    std::string out(static_cast<std::size_t>(lseek(file_.fd(), 0, SEEK_END)), '\0');
    const ssize_t n = pread(file_.fd(), out.data(), out.size(), 0);
    out.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    while (!out.empty() && out.back() == '\n') out.pop_back();
    return out;
  }

 private:
  UniqueFd file_;
};

/// The folders of `ip` and `tc`, which `su` leaves out of PATH.
void add_system_folders_to_path() {
  static const bool done = [] {
    const char* path = getenv("PATH");
    return setenv("PATH", (std::string(path != nullptr ? path : "") + ":/usr/sbin:/sbin").c_str(),
                  1) == 0;
  }();
  (void)done;
}

pid_t spawn(const std::vector<std::string>& command, int in, int out, int err) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, arguments[0], &files, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    throw Error(std::error_code(error, std::generic_category()),
                fmt::format("can't run '{}': install iproute2", command[0]));
  return pid;
}

}  // namespace

std::string run_program(const std::vector<std::string>& command, const std::string& input,
                        const std::string& remedy) {
  add_system_folders_to_path();
  const MemoryFile in(input), out, err;
  const pid_t pid = spawn(command, in.fd(), out.fd(), err.fd());
  int status = 0;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) throw_errno("waitpid");
  if (status != 0)
    throw Error(Errc::unsupported, fmt::format("'{}' failed: {}{}{}", fmt::join(command, " "),
                                               err.text(), remedy.empty() ? "" : "; ", remedy));
  return out.text();
}

void need_root(const std::string& command) {
  if (geteuid() != 0)
    throw Error(std::make_error_code(std::errc::operation_not_permitted),
                fmt::format("{}: network namespaces need root: run it with sudo", command));
}

std::string read_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace mrc::tools
