// SPDX-License-Identifier: Apache-2.0
// Two processes that tell what their completions say, for tests that forge packets between them:
//
//   victim receive PORT                   takes writes, and has receives posted
//   victim send HOST PORT WRITES SIZE     posts writes when it is told to
//
// Each prints "connected QPN PSN": its queue pair and its first PSN. The receiver prints a line for
// each receive that completes, and ends with its peer. The sender reads lines from its standard
// input: "post", "tell" (prints "completed N failed N"), "finish" (waits for the rest, tells,
// ends).
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "mrc/device.hpp"
#include "mrc/exchange.hpp"

namespace {

constexpr std::size_t kMemory = 1 << 20;
constexpr std::uint32_t kReceives = 16;
constexpr auto kPoll = std::chrono::milliseconds(10);
constexpr auto kPatience = std::chrono::seconds(30);

void announce(const mrc::QueuePair& qp, const mrc::ConnectionInfo& own) {
  std::printf("connected 0x%x %u\n", mrc::value(qp.qpn()), own.start_psn.value());
  std::fflush(stdout);
}

void receive(std::uint16_t port) {
  mrc::Device device;
  mrc::TcpListener listener(port);
  auto channel = listener.accept();
  std::vector<std::uint8_t> memory(kMemory);
  auto region =
      device.register_memory(memory, mrc::Access::local_write | mrc::Access::remote_write);
  auto cq = device.create_cq(2 * kReceives);
  mrc::QpOptions options;
  options.send_cq = &cq;
  options.capacity.receive = kReceives;
  auto qp = device.create_qp(options);
  const mrc::ConnectionInfo own = qp.local_info();
  qp.connect(mrc::exchange(channel, own));
  for (std::uint32_t i = 0; i < kReceives; ++i)
    if (qp.post_receive(i) != mrc::Errc::ok) throw std::runtime_error("can't post a receive");
  channel.send_text(std::to_string(region.remote().address) + " " +
                    std::to_string(region.remote().rkey));
  announce(qp, own);
  std::array<mrc::Completion, 16> done;
  while (!channel.peer_closed()) {
    const std::size_t n = cq.wait(done, kPoll);
    for (std::size_t i = 0; i < n; ++i)
      std::printf("receive 0x%x %s\n", done[i].immediate, mrc::to_string(done[i].status));
    std::fflush(stdout);
  }
}

/// The sender's requests and what became of them.
struct Sender {
  mrc::CompletionQueue& cq;
  mrc::QueuePair& qp;
  unsigned posted = 0, completed = 0, failed = 0;

  void poll() {
    std::array<mrc::Completion, 16> done;
    const std::size_t n = cq.wait(done, kPoll);
    for (std::size_t i = 0; i < n; ++i)
      ++(done[i].status == mrc::WcStatus::success ? completed : failed);
  }
  void tell() const {
    std::printf("completed %u failed %u %s\n", completed, failed, qp.error_text().c_str());
    std::fflush(stdout);
  }
  void finish() {
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (completed + failed < posted && std::chrono::steady_clock::now() < end) poll();
    tell();
  }
};

/// The next line of standard input that is complete, or nothing.
std::string next_line(std::string& buffer) {
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) == 1) {
    if (c == '\n') return std::exchange(buffer, {});
    buffer += c;
  }
  return {};
}

void send(const std::string& host, std::uint16_t port, unsigned writes, std::uint32_t size) {
  mrc::Device device;
  auto channel = mrc::TcpChannel::connect(host, port, std::chrono::seconds(10));
  std::vector<std::uint8_t> memory(size);
  auto region = device.register_memory(memory, mrc::Access::none);
  auto cq = device.create_cq(writes + 1);
  mrc::QpOptions options;
  options.send_cq = &cq;
  options.capacity.send = writes;
  auto qp = device.create_qp(options);
  const mrc::ConnectionInfo own = qp.local_info();
  qp.connect(mrc::exchange(channel, own));
  const std::string where = channel.receive_text();
  char* rest = nullptr;
  mrc::RemoteAddress remote;
  remote.address = std::strtoull(where.c_str(), &rest, 10);
  remote.rkey = static_cast<std::uint32_t>(std::strtoul(rest, nullptr, 10));
  announce(qp, own);

  (void)::fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
  Sender sender{cq, qp};
  const mrc::Sge sge{memory.data(), size, region.lkey()};
  std::string buffer;
  for (;;) {
    const std::string line = next_line(buffer);
    sender.poll();
    if (line == "tell") sender.tell();
    if (line == "finish") return sender.finish();
    if (line != "post") continue;
    for (unsigned i = 0; i < writes; ++i)
      sender.posted +=
          qp.post_send({.wr_id = i, .sges = {&sge, 1}, .remote = remote}) == mrc::Errc::ok;
    std::printf("posted %u\n", sender.posted);
    std::fflush(stdout);
  }
}

std::uint16_t number(const char* text) {
  return static_cast<std::uint16_t>(std::strtoul(text, nullptr, 10));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string role = argc > 1 ? argv[1] : "";
  if (role == "receive" && argc == 3)
    receive(number(argv[2]));
  else if (role == "send" && argc == 6)
    send(argv[2], number(argv[3]), number(argv[4]),
         static_cast<std::uint32_t>(std::strtoul(argv[5], nullptr, 10)));
  else
    throw std::runtime_error("usage: see the head of victim.cpp");
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "victim: %s\n", error.what());
  return 1;
}
