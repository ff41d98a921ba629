// SPDX-License-Identifier: Apache-2.0
// Connects two processes as verbs programs do: each knows of the other a GID (an IP address), a
// queue pair number and a PSN, no more. The devices find out the rest in band.
//
//   gid_connect                 prints a line such as: 192.0.2.1 65539 8388607
//                               and reads the other process's line from standard input
//
// Then they play ping-pong with immediate values.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <tuple>

#include "mrc/device.hpp"

namespace {

constexpr std::uint32_t kDepth = 16;  // receives posted at a time

// What a program would send its peer by any means it has.
struct Name {
  mrc::port::IpAddress gid;
  std::uint32_t qpn, psn;

  friend bool operator<(const Name& a, const Name& b) {
    return std::tie(a.gid, a.qpn) < std::tie(b.gid, b.qpn);
  }
};

Name read_name(std::istream& in) {
  std::string line, address;
  Name name{};
  if (!std::getline(in, line)) throw std::runtime_error("the other process's line did not come");
  std::istringstream words(line);
  if (!(words >> address >> name.qpn >> name.psn))
    throw std::runtime_error("'" + line + "' is not a GID, a queue pair number and a PSN");
  name.gid = mrc::port::parse_ip(address);
  return name;
}

void connect(mrc::QueuePair& qp, const Name& own, const Name& peer) {
  mrc::QpChange change;
  change.state = mrc::QpState::init;
  qp.modify(change);
  for (std::uint64_t id = 0; id < kDepth; ++id) (void)qp.post_receive(id);

  change = {};
  change.state = mrc::QpState::rtr;
  change.destination = mrc::Destination{peer.gid, mrc::Qpn{peer.qpn}};
  change.receive_psn = mrc::Psn{peer.psn};
  qp.modify(change);  // at once; the device asks the peer's device in the background

  change = {};
  change.state = mrc::QpState::rts;
  change.rts.send_psn = mrc::Psn{own.psn};
  qp.modify(change);
}

// The next completion of that kind; the others are passed over.
mrc::Completion await(mrc::CompletionQueue& cq, mrc::QueuePair& qp, mrc::WcOpcode opcode) {
  for (;;) {
    std::array<mrc::Completion, 1> done;
    if (cq.wait(done, std::chrono::seconds(30)) == 0)
      throw std::runtime_error("nothing came within 30 s");
    if (done[0].status != mrc::WcStatus::success) throw std::runtime_error(qp.error_text());
    if (done[0].opcode == opcode) return done[0];
  }
}

// The last answer may still be under way, and so may the completions of those before it. The peer
// ends when it has the answer, so that an acknowledgement that is lost does not come again: then
// the answer fails, and nothing else does.
void outlast_answer(mrc::CompletionQueue& cq, std::uint64_t id) {
  std::array<mrc::Completion, 1> done;
  while (cq.wait(done, std::chrono::seconds(30)) != 0)
    if (done[0].status != mrc::WcStatus::success ||
        (done[0].opcode == mrc::WcOpcode::write_imm && done[0].wr_id == id))
      return;
}

void ping_pong(mrc::CompletionQueue& cq, mrc::QueuePair& qp, bool first, std::uint32_t rounds) {
  const auto send = [&](std::uint32_t number) {
    mrc::SendRequest request;  // without data: an immediate value needs no memory
    request.wr_id = number;
    request.opcode = mrc::SendOpcode::write_imm;
    request.immediate = number;
    if (const mrc::Errc e = qp.post_send(request); e != mrc::Errc::ok)
      throw mrc::Error(e, "sending");
  };
  const auto start = mrc::monotonic_now();
  for (std::uint32_t i = 0; i < rounds; ++i) {
    if (first) send(i);
    const auto got = await(cq, qp, mrc::WcOpcode::recv_write_imm);
    if (got.immediate != i)
      throw std::runtime_error("round " + std::to_string(i) + " brought " +
                               std::to_string(got.immediate));
    if (const mrc::Errc e = qp.post_receive(got.wr_id); e != mrc::Errc::ok)
      throw mrc::Error(e, "posting a receive");
    if (!first) send(i);
  }
  const std::chrono::duration<double, std::micro> time = mrc::monotonic_now() - start;
  std::printf("%u round trips, %.1f us each\n", rounds, time.count() / rounds);
  if (!first) outlast_answer(cq, rounds - 1);
}

int run(std::uint32_t rounds) {
  // Without configuration: one plane on the interface of the default route, whose address is the
  // GID.
  mrc::Device device(mrc::Config::from_environment(mrc::DefaultPlanes::default_route));
  mrc::CompletionQueue cq = device.create_cq(4 * kDepth);
  mrc::QpOptions options;
  options.send_cq = &cq;
  options.capacity = {.send = kDepth, .receive = kDepth, .send_sges = 1};
  mrc::QueuePair qp = device.create_qp(options);

  const Name own{device.gid(), mrc::value(qp.qpn()), std::random_device{}() & 0xFFFFFF};
  std::printf("%s %u %u\n", mrc::port::format_ip(own.gid).c_str(), own.qpn, own.psn);
  std::fflush(stdout);
  const Name peer = read_name(std::cin);
  connect(qp, own, peer);
  ping_pong(cq, qp, own < peer, rounds);
  std::printf("over %u planes, %zu paths\n", device.plane_count(), device.paths(qp).size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "Connects two processes that know each other's GID, queue pair number and PSN.\n"
      "Each prints its own line and reads the other's from standard input."};
  std::uint32_t rounds = 1000;
  app.add_option("--rounds", rounds, "round trips")->check(CLI::Range(1u, 100'000'000u));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gid_connect: %s\n", error.what());
    return 1;
  }
}
