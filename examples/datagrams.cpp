// SPDX-License-Identifier: Apache-2.0
// Two processes play ping-pong with unreliable datagrams (UD).
//
//   datagrams                   prints a line such as: 192.0.2.1 65539 305419896
//                               and reads the other process's line from standard input
//
// One of them sends first, the other answers to the address that the datagrams came from. What is
// lost is sent again: that is the program's business here.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "mrc/device.hpp"

namespace {

constexpr std::uint32_t kDepth = 16, kSlot = 64;  // receives, and bytes of each

// What a program would send its peer by any means it has.
struct Name {
  mrc::port::IpAddress gid;
  std::uint32_t qpn, q_key;

  friend bool operator<(const Name& a, const Name& b) {
    return std::tie(a.gid, a.qpn) < std::tie(b.gid, b.qpn);
  }
};

Name read_name(std::istream& in) {
  std::string line, address;
  Name name{};
  if (!std::getline(in, line)) throw std::runtime_error("the other process's line did not come");
  std::istringstream words(line);
  if (!(words >> address >> name.qpn >> name.q_key))
    throw std::runtime_error("'" + line + "' is not a GID, a queue pair number and a Q_Key");
  name.gid = mrc::port::parse_ip(address);
  return name;
}

class Player {
 public:
  explicit Player(mrc::Device& device)
      : memory_(kDepth * kSlot),
        region_(device.register_memory(memory_, mrc::Access::local_write)),
        cq_(device.create_cq(4 * kDepth)),
        own_{device.gid(), 0, std::random_device{}() & ~mrc::kOwnQKey} {
    mrc::DatagramOptions options;
    options.send_cq = &cq_;
    options.capacity = {.send = kDepth, .receive = kDepth, .inline_bytes = 16, .receive_sges = 1};
    qp_ = device.create_datagram_qp(options);
    if (const mrc::Errc e = qp_.start(own_.q_key); e != mrc::Errc::ok)
      throw mrc::Error(e, "starting");
    own_.qpn = mrc::value(qp_.qpn());
    for (std::uint32_t slot = 0; slot < kDepth; ++slot) receive(slot);
  }
  [[nodiscard]] const Name& own() const { return own_; }

  // The side that sends first: each number until it comes back. Returns how often nothing came.
  std::uint32_t lead(const Name& peer, std::uint32_t rounds) {
    mrc::DatagramRequest request;
    request.to.gid = peer.gid;
    request.remote_qpn = mrc::Qpn{peer.qpn};
    request.remote_q_key = peer.q_key;
    qp_.prepare(request.to, request.remote_qpn);  // finds next hops: the first one is not lost
    std::uint32_t lost = 0;
    for (std::uint32_t i = 0; i < rounds; ++i)
      for (send(request, i); !await(i, std::chrono::milliseconds(100)); send(request, i))
        if (++lost > 1000 + rounds) throw std::runtime_error("nobody answers");
    for (unsigned n = 0; n < 3; ++n) send(request, rounds);  // the end; one at least arrives
    return lost;
  }

  // The other side answers each datagram, until it is told that it was the last.
  void follow(const Name& peer, std::uint32_t rounds) {
    for (std::uint32_t i = 0; i < rounds;) {
      if (!await(std::nullopt, std::chrono::seconds(30)))
        throw std::runtime_error("nothing came within 30 s");
      i = newest_.immediate;
      const auto to = mrc::answer_to({memory_.data() + newest_.wr_id * kSlot, mrc::kGrhBytes});
      if (!to) throw std::runtime_error("a datagram without a sender");
      mrc::DatagramRequest answer;
      answer.to = *to;
      answer.remote_qpn = newest_.source_qpn;
      answer.remote_q_key = peer.q_key;
      if (i < rounds) send(answer, i);
    }
  }

 private:
  void receive(std::uint64_t slot) {
    const mrc::Sge sge{memory_.data() + slot * kSlot, kSlot, region_.lkey()};
    if (const mrc::Errc e = qp_.post_receive({slot, {&sge, 1}}); e != mrc::Errc::ok)
      throw mrc::Error(e, "posting a receive");
  }
  void send(mrc::DatagramRequest request, std::uint32_t number) {
    request.immediate = number;
    request.flags.signaled = false;
    if (const mrc::Errc e = qp_.post_send(request); e != mrc::Errc::ok)
      throw mrc::Error(e, "sending");
  }
  // Waits for a datagram, the one with that number if there is one.
  bool await(std::optional<std::uint32_t> number, mrc::Duration patience) {
    const auto end = mrc::monotonic_now() + patience;
    std::array<mrc::Completion, 1> done;
    while (cq_.wait(done, end - mrc::monotonic_now()) > 0) {
      if (done[0].status != mrc::WcStatus::success)
        throw std::runtime_error(to_string(done[0].status));
      newest_ = done[0];
      receive(newest_.wr_id);  // what it holds is not overwritten before the next one comes
      if (!number || newest_.immediate == *number) return true;
    }
    return false;
  }

  std::vector<std::uint8_t> memory_;
  mrc::MemoryRegion region_;
  mrc::CompletionQueue cq_;
  mrc::DatagramQueuePair qp_;
  mrc::Completion newest_;
  Name own_;
};

int run(std::uint32_t rounds) {
  mrc::Device device(mrc::Config::from_environment(mrc::DefaultPlanes::default_route));
  Player player(device);
  const Name& own = player.own();
  std::printf("%s %u %u\n", mrc::port::format_ip(own.gid).c_str(), own.qpn, own.q_key);
  std::fflush(stdout);
  const Name peer = read_name(std::cin);
  const auto start = mrc::monotonic_now();
  std::uint32_t lost = 0;
  if (own < peer)
    lost = player.lead(peer, rounds);
  else
    player.follow(peer, rounds);
  const std::chrono::duration<double, std::micro> time = mrc::monotonic_now() - start;
  std::printf("%u round trips, %.1f us each\n", rounds, time.count() / rounds);
  std::printf("over %u planes, %u lost\n", device.plane_count(), lost);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Two processes that know each other's GID, queue pair number and Q_Key play ping-pong with\n"
      "unreliable datagrams. Each prints its own line and reads the other's from standard input."};
  std::uint32_t rounds = 1000;
  app.add_option("--rounds", rounds, "round trips")->check(CLI::Range(1u, 100'000'000u));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "datagrams: %s\n", error.what());
    return 1;
  }
}
