// SPDX-License-Identifier: Apache-2.0
// Minimum latency of UDP sockets on this machine: two processes exchange 8 bytes and busy-poll;
// with --sleep 1 the responder waits in poll() for each message. Prints half of the round trip as
// JSON, in microseconds.
#include <poll.h>

#include <atomic>

#include "baseline_util.hpp"
#include "histogram.hpp"

namespace {

struct Flags {
  std::atomic<bool> ready{false};
  std::atomic<bool> stop{false};
};

/// Sends `value`; the kernel accepts it at once, since the socket is otherwise empty.
void send_value(const baseline::UdpSocket& socket, std::uint64_t value) {
  if (send(socket.fd(), &value, sizeof value, MSG_DONTWAIT) != sizeof value)
    baseline::fail_errno("send");
}
bool receive_value(const baseline::UdpSocket& socket, std::uint64_t& value) {
  const auto n = recv(socket.fd(), &value, sizeof value, MSG_DONTWAIT);
  if (n < 0 && errno != EAGAIN && errno != EINTR) baseline::fail_errno("recv");
  return n == sizeof value;
}

void echo(const baseline::UdpSocket& socket, Flags& flags, bool sleep) {
  flags.ready = true;
  std::uint64_t value = 0;
  while (!flags.stop.load(std::memory_order_relaxed)) {
    if (sleep) {
      pollfd message{socket.fd(), POLLIN, 0};
      (void)poll(&message, 1, 100);
    }
    if (receive_value(socket, value)) send_value(socket, value);
  }
}

void measure(const baseline::UdpSocket& socket, Flags& flags, unsigned milliseconds) {
  using baseline::SteadyClock;
  while (!flags.ready) sched_yield();
  mrc::Histogram histogram;
  const auto warm = SteadyClock::now() + std::chrono::milliseconds(100);
  const auto end = warm + std::chrono::milliseconds(milliseconds);
  std::uint64_t sent = 0, lost = 0;
  for (auto start = SteadyClock::now(); start < end;) {
    send_value(socket, ++sent);
    std::uint64_t got = 0;
    auto now = start;
    bool late = false;
    while (!(receive_value(socket, got) && got == sent) && !late) {
      now = SteadyClock::now();
      late = now - start > std::chrono::seconds(1);
    }
    now = SteadyClock::now();
    lost += late;
    if (!late && start >= warm) histogram.record((now - start) / 2);
    start = now;
  }
  flags.stop = true;
  const auto us = [](mrc::Duration d) { return static_cast<double>(d.count()) / 1000; };
  fmt::print(
      "{{\"round_trips\": {}, \"lost\": {}, \"latency_us\": {{\"min\": {:.3f}, \"p50\": {:.3f}, "
      "\"p99\": {:.3f}, \"p99_9\": {:.3f}, \"max\": {:.3f}, \"mean\": {:.3f}}}}}\n",
      histogram.count(), lost, us(histogram.min()), us(histogram.percentile(50)),
      us(histogram.percentile(99)), us(histogram.percentile(99.9)), us(histogram.max()),
      us(histogram.mean()));
}

}  // namespace

int main(int argc, char** argv) {
  const baseline::Arguments arguments(argc, argv, {{"milliseconds", 2000}, {"sleep", 0}});
  const unsigned milliseconds = arguments["milliseconds"];
  const bool sleep = arguments["sleep"] != 0;
  const baseline::UdpSocket here(1), there(1);
  here.connect_to(there.address());
  there.connect_to(here.address());
  auto& flags = baseline::shared<Flags>();
  baseline::run_two([&] { echo(there, flags, sleep); }, [&] { measure(here, flags, milliseconds); },
                    milliseconds / 1000 + 20);
}
