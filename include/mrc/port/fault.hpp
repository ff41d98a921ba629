// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/port/fault_hold.hpp"
#include "mrc/port/fault_spec.hpp"

namespace mrc::inline v0_1::port {

/// False for a fault that can't be made on a single path at the sending side: all but loss,
/// black_hole and down need a packet on its way.
[[nodiscard]] inline bool works_outbound(const FaultSpec& spec) noexcept {
  FaultSpec allowed;
  allowed.loss = spec.loss;
  allowed.black_hole = spec.black_hole;
  allowed.down = spec.down;
  return spec == allowed;
}

/// Throws Error if a value is out of range, or (unsupported) unless works_outbound().
inline void check_outbound(const FaultSpec& spec) {
  check(spec);
  if (!works_outbound(spec))
    throw Error(
        Errc::unsupported,
        "fault on an outgoing path: only loss, blackhole and down work on the sending side; "
        "set the others at the receiver");
}

/// Makes a port misbehave on purpose. It stands between the raw receive and the iCRC check, so
/// that a corrupted packet meets the same check as one that the network has damaged; on the way
/// out it can only make packets vanish. The same seed and the same calls give the same faults.
///
/// The set_*() and clear() calls are set-up: they may allocate, and throw mrc::Error. The rest is
/// data path: without faults it is never entered beyond active(). One thread at a time, the one
/// that owns the port.
class FaultInjector {
 public:
  /// Bytes from BTH that a trim leaves: BTH, METH, TSETH and RETH. The least that a switch keeps
  /// is 28 bytes from UDP on (mrc-1.0 §1.12), which is 20 of these.
  static constexpr std::size_t kTrimKeep = 36;
  /// Packets up to this size (BTH .. iCRC) are never trimmed: no control packet is larger.
  static constexpr std::size_t kTrimMinimum = 64;

  /// `slots`: packets that can be held back at a time; allocated when first needed.
  explicit FaultInjector(std::uint64_t seed, std::uint32_t slots = 2048)
      : random_(seed), slots_(slots) {}

  /// Faults of all packets of the port. A spec without faults ends them.
  void set(const FaultSpec& spec) {
    check(spec);
    port_ = spec;
    update();
  }

  /// Further faults of the received packets with this entropy value.
  void set_inbound(Ev ev, const FaultSpec& spec) {
    check(spec);
    replace(inbound_, ev, spec);
    update();
  }

  /// Further faults of the packets sent on one of the port's own paths: loss and black_hole. A
  /// path that is `down` is a black hole, since only a link's end can tell that it is down. The
  /// others are refused, see check_outbound().
  void set_outbound(std::uint16_t port_path, const FaultSpec& spec) {
    check_outbound(spec);
    replace(outbound_, port_path, spec);
    update();
  }

  /// Ends all faults. Packets that are held back still come at their time.
  void clear() {
    port_ = {};
    inbound_.clear();
    outbound_.clear();
    update();
  }

  /// False: nothing is wrong and nothing is held back, so no other call is needed.
  [[nodiscard]] bool active() const noexcept { return active_; }
  /// True if the port as a whole is set to `down`.
  [[nodiscard]] bool down() const noexcept { return port_.down; }
  [[nodiscard]] const FaultStats& stats() const noexcept { return stats_; }

  /// When release() will have something to deliver, or kNever.
  [[nodiscard]] Time next_release() const noexcept {
    return hold_ == nullptr ? kNever : hold_->next_release();
  }

  /// Sending: the packet (one, on this path) vanishes without a trace.
  [[nodiscard]] bool vanishes(std::uint16_t port_path) noexcept {
    const FaultSpec* path = find(outbound_, port_path);
    if (port_.black_hole || (path != nullptr && (path->black_hole || path->down))) {
      ++stats_.black_holed;
      return true;
    }
    if (path == nullptr || !hits(path->loss)) return false;
    ++stats_.lost;
    return true;
  }
  /// Sending: counts packets that a link which is down refuses.
  void count_refused(std::uint32_t packets) noexcept { stats_.link_down += packets; }

  /// Receiving, first: the packets delivered before are no longer in use; those that are due are
  /// delivered now. `sink` has `bool full()` and `void deliver(const RawPacket&)`.
  template <class Sink>
  void release(Time now, Sink& sink) noexcept {
    if (hold_ == nullptr) return;
    hold_->recycle();
    deliver_due(now, sink);
    if (!any_ && hold_->empty()) active_ = false;
  }

  /// Receiving: one packet has come, and may be damaged. Delivers it, several, or none. What `sink`
  /// has no room for is due at the next release().
  template <class Sink>
  void receive(Time now, RawPacket& packet, Sink& sink) noexcept {
    if (only_loss_) {  // kept cheap, so that what it slows down is the protocol's doing
      if (hits(port_.loss))
        ++stats_.lost;
      else if (!sink.full())
        sink.deliver(packet);
      else
        ++stats_.overflow;
      return;
    }
    const FaultSpec& spec = spec_of(packet.facts.entropy);
    if (hold_ != nullptr) hold_->packet_passed();
    if (survives(spec)) {
      damage(spec, packet);
      pass_on(spec, now, packet, sink);
    }
    if (hold_ != nullptr) deliver_due(now, sink);
  }

 private:
  template <class Key>
  using Table = std::vector<std::pair<Key, FaultSpec>>;

  template <class Key>
  static void replace(Table<Key>& table, Key key, const FaultSpec& spec) {
    std::erase_if(table, [&](const auto& entry) { return entry.first == key; });
    if (!spec.any()) return;
    const auto above = std::find_if(table.begin(), table.end(),
                                    [&](const auto& entry) { return entry.first > key; });
    table.insert(above, {key, spec});
  }

  template <class Key>
  [[nodiscard]] static const FaultSpec* find(const Table<Key>& table, Key key) noexcept {
    const auto at = std::lower_bound(table.begin(), table.end(), key,
                                     [](const auto& entry, Key k) { return entry.first < k; });
    return at != table.end() && at->first == key ? &at->second : nullptr;
  }

  [[nodiscard]] static bool holds_back(const FaultSpec& spec) noexcept {
    return spec.duplicate > 0 || spec.reorder > 0 || spec.delay > Duration{} ||
           spec.jitter > Duration{};
  }

  void update() {
    both_ = inbound_;  // so that a packet needs one look-up and no arithmetic
    bool holds = holds_back(port_);
    for (auto& [ev, spec] : both_) {
      spec = combine(port_, spec);
      holds = holds || holds_back(spec);
    }
    if (holds && hold_ == nullptr) hold_ = std::make_unique<FaultHold>(slots_);
    only_loss_ = port_ == FaultSpec{.loss = port_.loss} && both_.empty() && hold_ == nullptr;
    any_ = port_.any() || !inbound_.empty() || !outbound_.empty();
    active_ = any_ || (hold_ != nullptr && !hold_->empty());
  }

  [[nodiscard]] const FaultSpec& spec_of(Ev ev) const noexcept {
    const FaultSpec* path = both_.empty() ? nullptr : find(both_, ev);
    return path != nullptr ? *path : port_;
  }

  /// Most probabilities are 0: those cost no random number.
  [[nodiscard]] bool hits(double probability) noexcept {
    return probability > 0 && random_.chance(probability);
  }

  [[nodiscard]] bool survives(const FaultSpec& spec) noexcept {
    if (spec.down) {
      ++stats_.link_down;
    } else if (spec.black_hole) {
      ++stats_.black_holed;
    } else if (hits(spec.loss)) {
      ++stats_.lost;
    } else {
      return true;
    }
    return false;
  }

  void damage(const FaultSpec& spec, RawPacket& packet) noexcept {
    if (packet.trimmable && packet.bytes.size() > kTrimMinimum &&
        packet.facts.trim == wire::Trim::none) {
      if (hits(spec.trim))
        trim(packet, wire::Trim::trimmed);
      else if (hits(spec.trim_last_hop))
        trim(packet, wire::Trim::trimmed_last_hop);
    }
    if (hits(spec.corrupt) && packet.bytes.size() > kVariantByte) {
      auto at = random_.below(static_cast<std::uint32_t>(packet.bytes.size()));
      if (at == kVariantByte) ++at;
      if (at == packet.bytes.size()) at = 0;
      packet.bytes[at] = static_cast<std::uint8_t>(packet.bytes[at] ^ (1u << random_.below(8)));
      ++stats_.corrupted;
    }
    // A queue marks only what says that it understands the mark (RFC 3168).
    if (packet.facts.ecn != Ecn::not_ect && hits(spec.ecn)) {
      packet.facts.ecn = Ecn::ce;
      ++stats_.marked;
    }
  }

  void trim(RawPacket& packet, wire::Trim kind) noexcept {
    packet.bytes = packet.bytes.first(kTrimKeep);
    packet.facts.trim = kind;  // udp_length keeps the length before the trim
    ++stats_.trimmed;
  }

  template <class Sink>
  void pass_on(const FaultSpec& spec, Time now, const RawPacket& packet, Sink& sink) noexcept {
    if (hits(spec.duplicate)) {
      ++stats_.duplicated;
      send_once(spec, now, packet, sink, random_.chance(0.5));
    }
    const bool reorder = hits(spec.reorder);
    if (reorder) ++stats_.reordered;
    send_once(spec, now, packet, sink, reorder);
  }

  template <class Sink>
  void send_once(const FaultSpec& spec, Time now, const RawPacket& packet, Sink& sink,
                 bool overtaken) noexcept {
    const bool delayed = spec.delay > Duration{} || spec.jitter > Duration{};
    bool held = true;
    if (delayed) {
      ++stats_.delayed;
      Time due = now + spec.delay + share_of(spec.jitter);
      if (overtaken) due += share_of(FaultHold::kReorderTime);
      held = hold_->until(due, packet);
    } else if (overtaken) {
      held = hold_->overtaken(now, 1 + random_.below(FaultHold::kReorderSpan), packet);
    } else if (!sink.full()) {
      sink.deliver(packet);
    } else {
      held = hold_ != nullptr && hold_->until(now, packet);
    }
    if (!held) ++stats_.overflow;
  }

  /// Uniform in [0, limit).
  [[nodiscard]] Duration share_of(Duration limit) noexcept {
    const auto ns = static_cast<double>(limit.count());
    return Duration{
        static_cast<std::int64_t>(ns * (static_cast<double>(random_.next() >> 11) * 0x1.0p-53))};
  }

  template <class Sink>
  void deliver_due(Time now, Sink& sink) noexcept {
    RawPacket packet;
    while (!sink.full() && hold_->take_due(now, packet)) {
      if (spec_of(packet.facts.entropy).down)
        ++stats_.link_down;  // it was still on its way when the link went down
      else
        sink.deliver(packet);
    }
  }

  /// BTH byte 4 may change in flight and the iCRC leaves it out (mrc-1.0 §1.12): damage there
  /// could not be noticed, and does no harm.
  static constexpr std::size_t kVariantByte = 4;

  Random random_;
  FaultSpec port_;
  Table<Ev> inbound_;
  Table<Ev> both_;  ///< inbound_ with port_ added
  Table<std::uint16_t> outbound_;
  std::unique_ptr<FaultHold> hold_;
  std::uint32_t slots_;
  bool any_ = false;
  bool only_loss_ = true;  ///< nothing but the port's own loss, if that
  bool active_ = false;
  FaultStats stats_;
};

}  // namespace mrc::inline v0_1::port
