// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>
#include <vector>

#include "mrc/net/address.hpp"
#include "mrc/resolve/resolution.hpp"
#include "mrc/wire/transport.hpp"

/// Devices that resolve queue pairs by GID and QPN, on a network in virtual time.
namespace mrc::test {

using namespace std::chrono_literals;

/// Devices, each with queue pairs, and what the network does with their messages.
class ResolutionNet {
 public:
  struct Device : ResolutionHost {
    Device(ResolutionNet& net, unsigned number)
        : net_(net),
          number_(number),
          address{port::make_v4(10, 0, 0, static_cast<std::uint8_t>(number + 1)), 4791},
          resolution(*this, options(number)) {}

    static ResolutionOptions options(unsigned number) {
      ResolutionOptions o;
      o.key = {number * 7 + 1, number * 13 + 2};
      return o;
    }
    std::optional<Own> find(Qpn qpn) override {
      const auto at = own.find(value(qpn));
      return at == own.end() ? std::nullopt : std::optional(at->second);
    }
    bool belongs(const port::IpAddress& ip, const Destination& destination) override {
      return ip == destination.gid || likely.count(ip) != 0;
    }
    bool surely_belongs(const port::IpAddress& ip, const Destination& destination) override {
      return ip == destination.gid;
    }
    Interest interest(Qpn qpn, Qpn peer, const port::IpAddress& from) override {
      const auto at = own.find(value(qpn));
      if (at == own.end()) return Interest::none;
      const Destination& d = at->second.destination;
      return d.qpn == peer && belongs(from, d) ? Interest::wanted : Interest::known;
    }
    void on_resolved(Time, Qpn qpn, const ConnectionInfo& peer, const Resolved& how) override {
      resolved[value(qpn)] = peer;
      answered_by = how.from;
      ++calls;
    }
    bool on_silence(Time when, Qpn qpn) override {
      if (!content) return false;
      silent[value(qpn)] = when;
      if (const auto at = own.find(value(qpn)); at != own.end()) at->second.known = true;
      return true;
    }
    void on_unanswered(Time, Qpn qpn) override {
      refused[value(qpn)] = "unanswered";
      own.erase(value(qpn));
    }
    void on_answer(std::uint64_t question, Plane, const port::PeerAddress& from) override {
      heard[question] = from;
    }
    void on_refused(Time, Qpn qpn, const std::string& why) override { refused[value(qpn)] = why; }
    std::uint64_t source_of(Plane, const port::IpAddress& ip) override {
      return port::source_tag(ip);
    }

    /// As modify(RTR) does.
    void connect(Qpn qpn, const Device& peer, Qpn remote) {
      Own& o = own[value(qpn)];
      o.destination = {peer.address.ip, remote};
      o.info.device_guid = number_ + 1;
      o.info.qpn = qpn;
      o.info.planes = {address};
      resolution.start(net_.now, qpn, o.destination);
    }

    ResolutionNet& net_;
    unsigned number_;
    port::PeerAddress address;
    Resolution resolution;
    std::map<std::uint32_t, Own> own;
    std::map<std::uint32_t, ConnectionInfo> resolved;
    std::map<std::uint32_t, Time> silent;
    std::map<std::uint32_t, std::string> refused;
    std::map<std::uint64_t, port::PeerAddress> heard;  ///< answers to questions of ask()
    std::set<port::IpAddress> likely;                  ///< may be other addresses of anybody's peer
    port::IpAddress answered_by{};
    bool content = true;  ///< does without an answer
    unsigned calls = 0;
  };

  explicit ResolutionNet(std::uint64_t seed = 1, unsigned devices = 2) : random(seed) {
    for (unsigned i = 0; i < devices; ++i) list.push_back(std::make_unique<Device>(*this, i));
  }
  Device& operator[](unsigned i) { return *list[i]; }

  void run(Duration time) {
    const Time end = now + time;
    if (period.count() > 0) return run_in_turns(end);
    for (;;) {
      for (unsigned i = 0; i < list.size(); ++i) flush(i);
      Time next = flying_.empty() ? kNever : flying_.top().when;
      for (auto& d : list) next = std::min(next, d->resolution.next_deadline());
      if (next > end) break;
      now = std::max(now, next);
      while (!flying_.empty() && flying_.top().when <= now) {
        const Flying f = flying_.top();
        flying_.pop();
        list[f.to]->resolution.on_message(now, f.message);
      }
      for (auto& d : list)
        if (d->resolution.next_deadline() <= now) d->resolution.on_time(now);
    }
    now = end;
  }

  Time now{std::chrono::hours(1)};
  Random random;
  double loss = 0, duplicate = 0;
  Duration jitter{};
  /// Not 0: devices run only once in so long, each at another time, and take in so many messages
  /// then, of 4,096 that their sockets hold.
  Duration period{};
  std::size_t per_period = 256;
  std::size_t longest_queue = 0;  ///< of messages in a socket
  std::vector<std::unique_ptr<Device>> list;
  std::set<unsigned> deaf;  ///< devices that do not hear
  /// Sees each message: from, to, step, size.
  std::function<void(unsigned, unsigned, ResolutionMessage&)> tap;
  std::uint64_t sent = 0;

 private:
  struct Flying {
    Time when;
    std::uint64_t number;
    unsigned to;
    ResolutionMessage message;
    bool operator<(const Flying& o) const {
      return when != o.when ? when > o.when : number > o.number;
    }
  };
  void run_in_turns(Time end) {
    const auto devices = static_cast<unsigned>(list.size());
    std::vector<std::deque<ResolutionMessage>> sockets(devices);
    for (unsigned i = 0; now < end; i = (i + 1) % devices) {
      now += period / devices;
      for (; !flying_.empty() && flying_.top().when <= now; flying_.pop()) {
        auto& socket = sockets[flying_.top().to];
        if (socket.size() < 4096) socket.push_back(flying_.top().message);
      }
      longest_queue = std::max(longest_queue, sockets[i].size());
      for (std::size_t n = 0; n < per_period && !sockets[i].empty(); ++n, sockets[i].pop_front())
        list[i]->resolution.on_message(now, sockets[i].front());
      list[i]->resolution.on_time(now);
      flush(i);
    }
  }
  void flush(unsigned from) {
    ResolutionMessage m;
    while (list[from]->resolution.poll_message(m)) {
      ++sent;
      m.set_sender(list[from]->address);
      const port::IpAddress ip = m.to ? m.to->ip : list[from]->own[value(m.asking)].destination.gid;
      m.source = port::source_tag(list[from]->address.ip);
      const unsigned to = ip[15] - 1u;
      if (tap) tap(from, to, m);
      if (to >= list.size() || deaf.count(to) != 0 || random.chance(loss)) continue;
      for (int copies = random.chance(duplicate) ? 2 : 1; copies > 0; --copies) {
        Duration delay = 20us;
        if (jitter.count() > 0)
          delay += Duration{random.below(static_cast<std::uint32_t>(jitter.count()))};
        flying_.push({now + delay, ++number_, to, m});
      }
    }
  }
  std::priority_queue<Flying> flying_;
  std::uint64_t number_ = 0;
};

inline constexpr Qpn kA{0x000010}, kB{0x010020};

inline wire::ResolutionPacket packet_of(const ResolutionMessage& m) {
  wire::ResolutionPacket p;
  std::memcpy(&p, m.bytes.data(), sizeof p);
  return p;
}

}  // namespace mrc::test
