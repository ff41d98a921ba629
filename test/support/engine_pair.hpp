// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <span>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/engine/engine.hpp"
#include "support/fake_port.hpp"

/// Two engines and a network between them, in virtual time. Everything follows from the seed.
namespace mrc::test {

using engine::Engine;
using engine::EngineOptions;

/// What happens to packets on their way. Probabilities per packet.
struct Faults {
  double loss = 0, duplicate = 0, reorder = 0, corrupt = 0, trim = 0, ecn = 0;
  Duration jitter{};                     ///< uniform extra delay
  PlaneMask black_holes = 0;             ///< planes that swallow everything
  std::set<std::uint32_t> dead_paths;    ///< EVs that swallow everything
  std::uint32_t largest = ~0u;           ///< bytes of payload; packets with more are swallowed
  PlaneMask narrow = ~PlaneMask{0};      ///< planes to which `largest` applies
  std::set<std::uint32_t> narrow_paths;  ///< EVs to which it applies; none: all
  Duration skew{};                       ///< of the paths' delays: evenly spread, by EV
};

class EnginePair {
 public:
  struct Setup {
    unsigned planes = 4;
    unsigned paths = 4;  ///< per plane
    Duration delay = std::chrono::microseconds(5);
    double gbps = 100;  ///< of each plane
    std::uint64_t queue =
        512 * 1024;  ///< bytes that a plane's queue holds before it drops or trims
    bool trimming_switch = false;
    std::uint64_t ecn_threshold = 128 * 1024;
    std::uint64_t plane_window = 0;
    bool tags = true;         ///< false: like peers that are not OpenMRC's
    bool rc = false;          ///< both offer SEND, READ and atomics
    bool parts = false;       ///< both take packet parts
    bool head_check = false;  ///< both leave the payload out of the iCRC
    PortHabits habits;        ///< of all ports
    EngineOptions options{.rtt_probes = 0};
  };

  explicit EnginePair(const Setup& setup, std::uint64_t seed);

  Engine& operator[](unsigned side) { return *engines_[side]; }
  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] PdId pd(unsigned side) const { return pd_[side]; }
  [[nodiscard]] PeerId peer(unsigned side) const { return peer_[side]; }
  /// Registers memory with a side's engine and ports.
  std::uint32_t register_memory(unsigned side, void* address, std::size_t length, Access access);
  /// Payload that a side's ports may still read.
  [[nodiscard]] std::size_t held(unsigned side) const;
  /// Packets whose payload a side's ports have placed.
  [[nodiscard]] std::uint64_t placed(unsigned side) const;

  Faults faults;
  std::uint64_t corrupted_and_caught = 0;

  /// Connects two queue pairs, one on each side. `near_wrap`: their first PSNs are among the last
  /// so many, so that they soon wrap.
  void connect(Qpn a, Qpn b, std::uint32_t near_wrap = 1u << 24);

  /// Runs until `done()` holds or nothing is left to happen before `limit`. True if done.
  bool run(Time limit, const std::function<bool()>& done);
  bool run_for(Duration d, const std::function<bool()>& done) { return run(now_ + d, done); }
  void run_for(Duration d) {
    (void)run(now_ + d, [] { return false; });
  }

  /// Packets under way.
  [[nodiscard]] std::size_t in_flight() const { return wire_.size(); }
  /// Loses what is under way towards a side.
  void drop_in_flight();
  /// The system runs nothing of a side until then: what arrives waits, and nothing leaves, nor does
  /// the rest of a burst that it is sending.
  void stall(unsigned side, Time until) { stalled_until_[side] = until; }
  [[nodiscard]] bool stalled(unsigned side) const { return now_ < stalled_until_[side]; }
  /// A side stops existing: nothing goes in or out of it.
  void kill(unsigned side) { dead_[side] = true; }
  /// Sees every packet that a side sends, before the network touches it.
  std::function<void(unsigned side, const wire::TxPacket&, std::vector<std::uint8_t>&)> tap;
  /// Decides what a side's packet comes to, before the network does: false swallows it.
  std::function<bool(unsigned side, const wire::TxPacket&, const std::vector<std::uint8_t>&)>
      filter;
  /// Ports hand a burst over in one piece where a UDP port does: this is called for each, and for
  /// each packet that leaves by itself, and says how many of the first packets come out of it.
  std::function<std::size_t(unsigned side, std::span<const wire::TxPacket> piece)> pieces;
  /// A port's state, on one side.
  void set_port(unsigned side, Plane plane, bool up);
  /// Puts a packet in front of a side, as if the network had delivered it.
  void inject(unsigned side, const wire::RxPacket& packet) {
    engines_[side]->receive(now_, {&packet, 1});
  }
  [[nodiscard]] static std::uint64_t source_tag(unsigned side, Plane plane) {
    return 0x1000 + side * 0x100 + plane;
  }

 private:
  struct Flying {
    Time when;
    std::uint64_t number;
    unsigned to;
    std::vector<std::uint8_t> bytes;
    std::uint32_t udp_length;
    Ev entropy;
    Plane plane;
    Ecn ecn;
    wire::Trim trim;
    std::uint32_t check;
    bool placeable;  ///< the receiving port may place it
    wire::PacketName name;
    bool operator<(const Flying& o) const {
      return when != o.when ? when > o.when : number > o.number;
    }
  };

  PeerId add_peer(unsigned side);

  /// When a side's engine next acts by itself.
  [[nodiscard]] Time wakes(unsigned side) const;

  void flush();
  void transmit(unsigned side, const wire::TxGroup& group);

  void send(unsigned side, const wire::TxPacket& p, std::vector<std::uint8_t> bytes);

  bool swallowed(unsigned side, const wire::TxPacket& p);

  /// The plane's queue: data waits its turn; a full queue drops, or trims. Control does not wait.
  bool enqueue(unsigned side, Flying& f, bool data);

  /// The packet does not arrive, or not whole.
  void lost(const Flying& f);
  void settle(unsigned side, wire::PacketName name);
  void trim(Flying& f);
  /// Flips a bit; true if the CRC notices, which it always must.
  bool corrupt(std::vector<std::uint8_t>& bytes);

  void deliver();

  /// Everything that a port has for its engine.
  void take_in(unsigned side, unsigned plane);

  Setup setup_;
  Random random_;
  Time now_{std::chrono::seconds(1)};
  std::unique_ptr<Engine> engines_[2];
  PdId pd_[2]{};
  PeerId peer_[2]{};
  bool dead_[2] = {false, false};
  Time stalled_until_[2] = {Time{}, Time{}};
  PlaneMask ports_down_[2] = {0, 0};
  std::vector<Time> busy_until_[2];
  std::priority_queue<Flying> wire_;
  std::vector<FakePort> ports_[2];
  PlaceableCopies copies_[2];  ///< by the side that receives them
  port::RxBurst rx_;
  std::uint64_t number_ = 0;
  bool vanishes_ = false;  ///< what is being sent does not come out of its piece
  wire::TxBurst burst_{64, 1024};
};

}  // namespace mrc::test
