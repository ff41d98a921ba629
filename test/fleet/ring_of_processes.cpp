// SPDX-License-Identifier: Apache-2.0
// ring_of_processes N: N processes with a device each. Each writes 64 KiB into the memory of its
// right neighbour, which checks them, says "ready" on standard output, and keeps device and
// connections open until SIGTERM, as a job does that computes. Exits with 0 if all processes closed
// everything and ended well.
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "mrc/device.hpp"

namespace {

constexpr std::size_t kBytes = 64 << 10;
constexpr auto kPatience = std::chrono::seconds(300);  // all start at once, on few processors

void give(int socket, mrc::Bytes bytes) {
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0)
    throw std::runtime_error("a neighbour is gone");
}

std::vector<std::uint8_t> get(int socket) {
  std::vector<std::uint8_t> bytes(64 << 10);
  const auto n = ::recv(socket, bytes.data(), bytes.size(), 0);
  if (n <= 0) throw std::runtime_error("a neighbour is gone");
  bytes.resize(static_cast<std::size_t>(n));
  return bytes;
}

std::uint8_t byte_of(int rank, std::size_t i) {
  return static_cast<std::uint8_t>(static_cast<std::size_t>(rank) * 31 + i % 251);
}

void run_rank(int rank, int left_rank, int left, int right, const sigset_t& end) {
  std::vector<std::uint8_t> from(kBytes), to(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) from[i] = byte_of(rank, i);
  mrc::Device device(mrc::Config::from_environment());
  auto source = device.register_memory(std::span(from), mrc::Access::none);
  auto target =
      device.register_memory(std::span(to), mrc::Access::local_write | mrc::Access::remote_write);
  auto cq = device.create_cq(16);
  mrc::QpOptions options;
  options.send_cq = &cq;
  options.capacity.send = options.capacity.receive = 4;
  auto from_left = device.create_qp(options), to_right = device.create_qp(options);

  give(left, mrc::encode(from_left.local_info()));
  give(right, mrc::encode(to_right.local_info()));
  from_left.connect(mrc::decode_connection_info(get(left)));
  to_right.connect(mrc::decode_connection_info(get(right)));
  if (from_left.post_receive(0) != mrc::Errc::ok) throw std::runtime_error("no room to receive");
  mrc::RemoteAddress address = target.remote();
  give(left, {reinterpret_cast<const std::uint8_t*>(&address), sizeof address});
  std::memcpy(&address, get(right).data(), sizeof address);

  const mrc::Sge sge{from.data(), static_cast<std::uint32_t>(kBytes), source.lkey()};
  mrc::SendRequest request;
  request.sges = {&sge, 1};
  request.remote = address;
  request.opcode = mrc::SendOpcode::write_imm;
  if (to_right.post_send(request) != mrc::Errc::ok) throw std::runtime_error("can't write");
  for (int wanted = 2; wanted > 0;) {  // what this side wrote, and what the left one did
    std::array<mrc::Completion, 4> done;
    const std::size_t n = cq.wait(done, kPatience);
    if (n == 0) throw std::runtime_error("nothing happens any more");
    for (std::size_t i = 0; i < n; ++i, --wanted)
      if (done[i].status != mrc::WcStatus::success)
        throw std::runtime_error(from_left.error_text() + to_right.error_text());
  }
  for (std::size_t i = 0; i < kBytes; ++i)
    if (to[i] != byte_of(left_rank, i)) throw std::runtime_error("wrong data");
  std::printf("ready\n");
  std::fflush(stdout);
  int signal = 0;
  (void)::sigwait(&end, &signal);
}

int fails(const char* what) {
  std::perror(what);
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  const int processes = count == 2 ? std::atoi(arguments[1]) : 0;
  if (processes < 2 || processes > 1000) {
    std::fprintf(stderr, "usage: ring_of_processes N\n");
    return 2;
  }
  sigset_t end;
  ::sigemptyset(&end);
  ::sigaddset(&end, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &end, nullptr);

  // links[i] joins process i (end 0) and its right neighbour (end 1).
  std::vector<std::array<int, 2>> links(static_cast<std::size_t>(processes));
  for (auto& link : links)
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link.data()) != 0)
      return fails("ring_of_processes: socketpair");
  std::vector<pid_t> children;
  for (int rank = 0; rank < processes; ++rank) {
    const int left_rank = (rank + processes - 1) % processes;
    const int left = links[static_cast<std::size_t>(left_rank)][1];
    const int right = links[static_cast<std::size_t>(rank)][0];
    const pid_t child = ::fork();
    if (child < 0) return fails("ring_of_processes: fork");
    if (child > 0) {
      children.push_back(child);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // children end with the parent
    // Else a process that fails would leave its neighbours waiting.
    for (const auto& link : links)
      for (const int one : link)
        if (one != left && one != right) ::close(one);
    try {
      run_rank(rank, left_rank, left, right, end);
      std::exit(0);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "process %d of the ring: %s\n", rank, error.what());
      std::exit(1);
    }
  }
  for (const auto& link : links)
    for (const int one : link) ::close(one);

  int signal = 0;
  (void)::sigwait(&end, &signal);
  for (const pid_t child : children) ::kill(child, SIGTERM);
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) ++failed;
  }
  std::printf("%d of %d processes failed\n", failed, processes);
  return failed == 0 ? 0 : 1;
}
