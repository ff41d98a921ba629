// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "mrc/net/address.hpp"
#include "mrc/resolve/resolution.hpp"
#include "mrc/wire/transport.hpp"

// Fuzzes resolution: the input is the network between two devices, and what their programs do. It
// delivers, loses, duplicates, delays, replays and changes messages, sends some of its own, and
// lets time pass. Whatever it does, a queue pair is resolved only to the one that is its
// destination, no answer is longer than what it answers, and a device keeps nothing for strangers.
// If it changed nothing, what a side has learnt is what the other has said; and when it stops to
// interfere, both sides find each other.

namespace {

using namespace mrc;
using namespace mrc::fuzz;
using namespace std::chrono_literals;

constexpr unsigned kQps = 3;  ///< of each device

wire::ResolutionStep step_of(const ResolutionMessage& message) {
  wire::ResolutionPacket packet;
  std::memcpy(&packet, message.bytes.data(), sizeof packet);
  return static_cast<wire::ResolutionStep>(packet.header.step);
}

/// A device with a few queue pairs.
struct Device final : ResolutionHost {
  Device(unsigned number)  // NOLINT(google-explicit-constructor): the elements of an array
      : address{port::make_v4(10, 0, 0, static_cast<std::uint8_t>(number + 1)), 4791},
        guid(number + 1),
        resolution(*this, options(number)) {}

  static ResolutionOptions options(unsigned number) {
    ResolutionOptions o;
    o.key = {number * 7 + 1, number * 13 + 2};
    return o;
  }
  static Qpn qpn_of(unsigned i) { return Qpn{0x100 + i}; }

  void connect(Time now, unsigned i, const Device& peer, unsigned remote) {
    Own& o = own[value(qpn_of(i))] = {};
    o.destination = {peer.address.ip, qpn_of(remote)};
    o.info.device_guid = guid;
    o.info.qpn = qpn_of(i);
    o.info.start_psn = Psn{static_cast<std::uint32_t>(guid * 1000 + i)};
    o.info.planes = {address};
    resolved.erase(value(qpn_of(i)));
    resolution.start(now, qpn_of(i), o.destination);
  }
  void disconnect(unsigned i) {
    resolution.stop(qpn_of(i));
    own.erase(value(qpn_of(i)));
    resolved.erase(value(qpn_of(i)));
  }

  std::optional<Own> find(Qpn qpn) override {
    const auto at = own.find(value(qpn));
    if (at == own.end()) return std::nullopt;
    Own found = at->second;
    found.known = resolved.contains(value(qpn));
    return found;
  }
  bool belongs(const port::IpAddress& ip, const Destination& destination) override {
    return ip == destination.gid;
  }
  bool surely_belongs(const port::IpAddress& ip, const Destination& destination) override {
    return belongs(ip, destination);
  }
  Interest interest(Qpn qpn, Qpn peer, const port::IpAddress& from) override {
    const auto at = own.find(value(qpn));
    if (at == own.end()) return Interest::none;
    const Destination& destination = at->second.destination;
    return destination.qpn == peer && belongs(from, destination) ? Interest::wanted
                                                                 : Interest::known;
  }
  void on_resolved(Time, Qpn qpn, const ConnectionInfo& peer, const Resolved&) override {
    const auto at = own.find(value(qpn));
    require(at != own.end() && at->second.destination.qpn == peer.qpn);
    resolved[value(qpn)] = peer;
  }
  bool on_silence(Time, Qpn qpn) override {
    require(own.contains(value(qpn)));
    return value(qpn) % 2 == 0;  // half of them do without an answer for now
  }
  void on_unanswered(Time, Qpn qpn) override {
    require(own.contains(value(qpn)));
    refused = true;
    own.erase(value(qpn));
  }
  // Of what? The one who asks knows the numbers of its questions: nothing was asked here.
  void on_answer(std::uint64_t, Plane, const port::PeerAddress&) override {}
  void on_refused(Time, Qpn qpn, const std::string& why) override {
    require(!why.empty());
    refused = true;
    own.erase(value(qpn));
  }
  std::uint64_t source_of(Plane, const port::IpAddress& ip) override {
    return port::source_tag(ip);
  }

  port::PeerAddress address;
  std::uint64_t guid;
  Resolution resolution;
  std::map<std::uint32_t, Own> own;
  std::map<std::uint32_t, ConnectionInfo> resolved;
  bool refused = false;
};

class Network {
 public:
  explicit Network(Input in) : in_(in), devices_{{{0u}, {1u}}} {}

  void run() {
    while (!in_.done()) step();
    if (changed_ || devices_[0].refused || devices_[1].refused) return;
    check_what_was_learnt();
    check_that_they_meet();
  }

 private:
  struct Flying {
    unsigned to;
    ResolutionMessage message;
  };

  void step() {
    Device& device = devices_[in_.below(2)];
    Device& other = device.guid == 1 ? devices_[1] : devices_[0];
    switch (in_.below(10)) {
      case 0:
        device.connect(now_, in_.below(kQps), other, in_.below(kQps));
        break;
      case 1:
        device.disconnect(in_.below(kQps));
        break;
      case 2:
        pass(Duration{in_.byte()} * 1'000'000);
        break;
      case 3:
        pass(Duration{in_.byte()} * 100'000'000);
        break;
      case 4:
      case 5:
        deliver_one();
        break;
      case 6:
        if (!flying_.empty()) flying_.pop_front();
        break;
      case 7:  // of any age
        if (!seen_.empty()) hand_over(seen_[in_.byte() % seen_.size()]);
        break;
      case 8:
        if (!seen_.empty()) change(seen_[in_.byte() % seen_.size()]);
        break;
      default:
        invent(device);
        break;
    }
    collect();
  }

  /// Takes what the devices send.
  void collect() {
    for (unsigned i = 0; i < 2; ++i) {
      ResolutionMessage m;
      while (devices_[i].resolution.poll_message(m)) fly(devices_[i], m);
    }
  }
  void fly(const Device& from, ResolutionMessage m) {
    m.set_sender(from.address);
    m.source = port::source_tag(from.address.ip);
    port::IpAddress to;
    if (m.to) {
      to = m.to->ip;
    } else {
      const auto asking = from.own.find(value(m.asking));
      if (asking == from.own.end()) return;
      to = asking->second.destination.gid;
    }
    for (unsigned d = 0; d < 2; ++d)
      if (devices_[d].address.ip == to) fly({d, m});
  }
  void fly(const Flying& f) {
    if (flying_.size() == 64) flying_.pop_front();
    flying_.push_back(f);
    if (seen_.size() == 64) seen_.erase(seen_.begin());
    seen_.push_back(f);
  }

  void deliver_one() {
    if (flying_.empty()) return;
    const Flying f = flying_.front();
    flying_.pop_front();
    hand_over(f);
  }

  /// What a message causes at once is no longer than itself, unless it is what the receiver had
  /// waited for: then an offer follows a challenge, to the address that was asked.
  void hand_over(const Flying& f) {
    Device& device = devices_[f.to];
    collect();
    const std::size_t pending = device.resolution.pending();
    device.resolution.on_message(now_, f.message);
    require(device.resolution.pending() <= pending);
    ResolutionMessage m;
    unsigned answers = 0;
    while (device.resolution.poll_message(m)) {
      const bool offer = step_of(m) == wire::ResolutionStep::offer;
      require(++answers == 1);
      require(offer ? step_of(f.message) == wire::ResolutionStep::challenge
                    : m.size <= f.message.size);
      fly(device, m);
    }
  }

  /// Delivers a message with some bytes, its source or its length changed.
  void change(Flying f) {
    changed_ = true;
    for (unsigned n = in_.below(4); n > 0; --n) {
      const std::size_t at = in_.byte() | std::size_t{in_.below(5)} << 8;
      if (at < f.message.bytes.size()) f.message.bytes[at] ^= static_cast<std::uint8_t>(in_.byte());
    }
    if (in_.below(4) == 0) f.message.source = port::source_tag(devices_[f.to].address.ip);
    if (in_.below(4) == 0)
      f.message.size = std::min<std::size_t>(f.message.bytes.size(), in_.byte());
    if (in_.below(4) == 0) f.message.plane = in_.byte() % kMaxPlanes;
    hand_over(f);
  }

  /// A message that neither device has sent, in the form of one.
  void invent(const Device& to) {
    changed_ = true;
    Flying f{static_cast<unsigned>(to.guid - 1), {}};
    const Device& from = devices_[in_.below(2)];
    wire::ResolutionPacket packet{};
    packet.bth = wire::Bth::make(wire::Opcode::resolution, Device::qpn_of(in_.below(kQps)), Psn{});
    packet.header.magic = wire::ResolutionHeader::kMagic;
    packet.header.version = wire::ResolutionHeader::kVersion;
    packet.header.step = in_.byte();
    packet.header.qpn_a = value(Device::qpn_of(in_.below(kQps)));
    packet.header.qpn_b = value(Device::qpn_of(in_.below(kQps)));
    packet.header.nonce_a = in_.byte();
    packet.header.nonce_b = in_.byte();
    packet.header.address = from.address.ip;
    packet.header.udp_port = from.address.udp_port;
    const Bytes data = in_.take(in_.byte());
    packet.header.info_length = static_cast<std::uint16_t>(data.size());
    std::memcpy(f.message.bytes.data(), &packet, sizeof packet);
    std::copy(data.begin(), data.end(), f.message.bytes.begin() + sizeof packet);
    f.message.size = in_.below(2) == 0 ? wire::kLongResolution : sizeof packet + data.size();
    f.message.source = port::source_tag(from.address.ip);
    hand_over(f);
  }

  void pass(Duration time) {
    now_ += time;
    for (Device& d : devices_)
      if (d.resolution.next_deadline() <= now_) d.resolution.on_time(now_);
  }

  void check_what_was_learnt() const {
    for (unsigned d = 0; d < 2; ++d)
      for (const auto& [qpn, peer] : devices_[d].resolved) {
        require(peer.device_guid == devices_[1 - d].guid);
        require(peer.planes.size() == 1 && peer.planes[0] == devices_[1 - d].address);
        require(peer.start_psn ==
                Psn{static_cast<std::uint32_t>(peer.device_guid * 1000 + value(peer.qpn) - 0x100)});
      }
  }

  /// Two queue pairs that are each other's destinations, on a network that works.
  void check_that_they_meet() {
    for (Device& d : devices_)
      for (unsigned i = 0; i < kQps; ++i) d.disconnect(i);
    flying_.clear();
    devices_[0].connect(now_, 0, devices_[1], 1);
    devices_[1].connect(now_, 1, devices_[0], 0);
    const auto met = [this] {
      return devices_[0].resolved.contains(0x100) && devices_[1].resolved.contains(0x101);
    };
    for (int i = 0; i < 2000 && !met(); ++i) {
      collect();
      while (!flying_.empty()) deliver_one();
      pass(1ms);
    }
    require(met());
    check_what_was_learnt();
  }

  Input in_;
  std::array<Device, 2> devices_;
  std::deque<Flying> flying_;
  std::vector<Flying> seen_;
  Time now_{std::chrono::hours(1)};
  bool changed_ = false;  ///< the network has sent what no device has
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Network(Input(data, size)).run();
  return 0;
}
