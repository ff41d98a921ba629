// SPDX-License-Identifier: Apache-2.0
// A program that sleeps in poll() and serves MRC beside its other descriptors: completions through
// a completion channel, events of the device, and the TCP connection to the peer, whose end says
// that the peer died. docs/guides.md goes through it step by step.
//
//   event_loop --port 7000                           waits for a peer and receives
//   event_loop --port 7000 HOST --messages 100       sends that many messages to it
#include <poll.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "mrc/mrc.hpp"

namespace {

using namespace std::chrono_literals;
constexpr std::uint32_t kDepth = 64;    // receives posted, and messages in flight at most
constexpr std::size_t kMessage = 4096;  // bytes
constexpr auto kHeartbeat = 500ms;      // of a sender that has nothing to say
constexpr std::uint64_t kHeartbeatId = UINT64_MAX;  // its wr_id

struct Peer {
  mrc::Device device;
  mrc::CompletionChannel channel = device.create_channel();
  mrc::CompletionQueue cq = device.create_cq(4 * kDepth, &channel);
  std::array<char, kDepth * kMessage> memory{};
  mrc::MemoryRegion region =
      device.register_memory(memory, mrc::Access::local_write | mrc::Access::remote_write);
  mrc::QueuePair qp =
      device.create_qp({.send_cq = &cq, .capacity = {.send = 2 * kDepth, .receive = kDepth}});
  mrc::TcpChannel tcp;
  mrc::RemoteAddress remote;  // the peer's memory
};

/// Tells the peer how to reach this queue pair and where it may write, and hears the same of it.
void connect(Peer& me) {
  const mrc::RemoteAddress mine = me.region.remote();
  me.qp.connect(mrc::exchange(me.tcp, me.qp.local_info()));
  for (std::uint64_t id = 0; id < kDepth; ++id) (void)me.qp.post_receive(id);
  me.tcp.send_text(nlohmann::json{{"address", mine.address}, {"rkey", mine.rkey}}.dump());
  const auto theirs = nlohmann::json::parse(me.tcp.receive_text());
  me.remote = {theirs.at("address"), theirs.at("rkey")};
}

void send(Peer& me, std::uint64_t number) {
  const std::size_t place = number % kDepth * kMessage;
  const mrc::Sge sge{me.memory.data() + place, kMessage, me.region.lkey()};
  const mrc::SendRequest request{.wr_id = number,
                                 .opcode = mrc::SendOpcode::write_imm,
                                 .sges = {&sge, 1},
                                 .remote = {me.remote.address + place, me.remote.rkey},
                                 .immediate = static_cast<std::uint32_t>(number)};
  if (const mrc::Errc e = me.qp.post_send(request); e != mrc::Errc::ok)
    throw mrc::Error(e, "message " + std::to_string(number));
}

/// A write of no bytes. Its completion says that the peer's device answers; if that is gone, the
/// queue pair goes to ERR.
void send_heartbeat(Peer& me) {
  if (const mrc::Errc e = me.qp.post_send({.wr_id = kHeartbeatId}); e != mrc::Errc::ok)
    throw mrc::Error(e, "heartbeat");
}

/// Progress of either side.
struct State {
  std::uint64_t wanted = 0;  // by the sender; 0: receives until the peer is gone
  std::uint64_t sent = 0, complete = 0, received = 0, heartbeats = 0;
  bool peer_closed = false;
};

void take(Peer& me, State& state, const mrc::Completion& done) {
  if (done.status != mrc::WcStatus::success)
    throw std::runtime_error("the peer is gone: " + me.qp.error_text());
  if (done.opcode == mrc::WcOpcode::recv_write_imm) {
    if (done.immediate != static_cast<std::uint32_t>(state.received++))
      throw std::runtime_error("a message is missing");
    (void)me.qp.post_receive(done.wr_id);
  } else if (done.wr_id == kHeartbeatId) {
    ++state.heartbeats;
  } else {
    ++state.complete;
  }
}

/// Takes all completions. Arms first: what comes after the last poll raises an event then.
void take_completions(Peer& me, State& state) {
  while (const auto queue = me.channel.poll()) me.cq.acknowledge();
  (void)me.cq.arm();
  std::array<mrc::Completion, 16> done;
  while (const std::size_t n = me.cq.poll(done))
    for (std::size_t i = 0; i < n; ++i) take(me, state, done[i]);
}

void take_events(Peer& me) {
  for (mrc::DeviceEvent event; me.device.poll_event(event);) {
    if (event.kind == mrc::DeviceEvent::Kind::qp_error)
      throw std::runtime_error("the peer is gone: " + me.qp.error_text());
    if (event.kind == mrc::DeviceEvent::Kind::plane_down)
      std::printf("plane %u is down; the others carry on\n", unsigned{event.plane});
  }
}

void loop(Peer& me, State& state) {
  bool goodbye = false;  // the sender has nothing more to send
  while (!state.peer_closed) {
    take_completions(me, state);
    while (state.sent < state.wanted && state.sent - state.complete < kDepth)
      send(me, state.sent++);
    if (state.wanted > 0 && state.complete == state.wanted && !goodbye) {
      me.tcp.send_text("bye");  // so that the peer can tell an end from a death
      goodbye = true;
    }
    std::array<pollfd, 3> wait{{{me.channel.fd(), POLLIN, 0},
                                {me.device.event_fd(), POLLIN, 0},
                                {me.tcp.fd(), POLLIN, 0}}};
    const int ready =
        ::poll(wait.data(), wait.size(), std::chrono::milliseconds(kHeartbeat).count());
    if (ready == 0 && state.sent == state.complete) send_heartbeat(me);
    if (wait[1].revents != 0) take_events(me);
    if (wait[2].revents != 0) {
      const auto text = me.tcp.try_receive();  // throws when the peer's process has ended
      state.peer_closed = text.has_value();
      if (text && !goodbye) me.tcp.send_text("bye");
    }
  }
  take_completions(me, state);  // of messages that arrived while the goodbye was read
}

int run(const std::string& host, std::uint16_t port, std::uint64_t messages) {
  Peer me;
  if (host.empty()) {
    mrc::TcpListener listener(port);
    std::printf("waiting on port %u\n", unsigned{listener.port()});
    std::fflush(stdout);
    me.tcp = listener.accept();
  } else {
    me.tcp = mrc::TcpChannel::connect(host, port);
  }
  connect(me);
  State state;
  if (!host.empty()) state.wanted = messages;
  std::printf("connected to %s\n", me.tcp.peer().c_str());
  std::fflush(stdout);
  loop(me, state);
  std::printf("%llu messages sent, %llu received\n",
              static_cast<unsigned long long>(state.complete),
              static_cast<unsigned long long>(state.received));
  return state.complete == state.wanted ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Messages between two processes that sleep in poll() while nothing happens."};
  std::string host;
  std::uint16_t port = 7000;
  std::uint64_t messages = 1000;
  app.add_option("host", host, "the receiver's host; without it, be the receiver");
  app.add_option("--port", port, "TCP port of the receiver");
  app.add_option("--messages", messages, "how many to send")->check(CLI::Range(1, 100'000'000));
  CLI11_PARSE(app, argc, argv);
  try {
    return run(host, port, messages);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "event_loop: %s\n", error.what());
    return 1;
  }
}
