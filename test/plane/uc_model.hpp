// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/engine/receive_window.hpp"
#include "mrc/verbs/uc.hpp"

// Messages from one device to another, in virtual time, with payload that a NIC places: UC paths
// that keep order but lose, a UD network that keeps nothing, a receiver that reads completions
// late. UcSender, UcReceiver, the messages between them and ReceiveWindow are the real ones.
namespace mrc::port::test {

/// What a run is like. Times in virtual time.
struct UcModelOptions {
  std::uint64_t seed = 1;
  std::uint32_t qps = 3;
  std::uint32_t messages = 1000;  ///< of each queue pair, 1 .. 6 packets each
  double uc_loss = 0.02;
  double ud_loss = 0.02;
  double ud_duplicate = 0.02;
  double spurious = 0.05;  ///< first transmissions that are soon sent again without need
  double stall = 0.0005;   ///< UC packets that hold up their path, up to 30 ms
  bool markers = true;
  bool obey = true;         ///< the engine keeps the rule: unsettled packets complete nothing
  bool drain = true;        ///< before a reset all completions of the path are read
  double uc_duplicate = 0;  ///< the promise is broken so often
  double uc_overtaken = 0;
  UcSenderOptions sender = {.paths = 4};
  UcReceiverOptions receiver = {.paths = 4};
};

/// One run.
class UcModel {
 public:
  explicit UcModel(const UcModelOptions& options)
      : o_(options), random_(options.seed), sender_(options.sender), receiver_(options.receiver) {
    sender_.add_peer(kPeer, now_);
    for (std::uint32_t q = 0; q < o_.qps; ++q) {
      Qp& qp = qps_.emplace_back();
      qp.first = Psn{random_.below(1u << 24)};
      qp.window.start(qp.first);
      for (std::uint32_t m = 0; m < o_.messages; ++m) {
        for (std::uint32_t n = random_.below(6); n > 0; --n) qp.packets.push_back({.message = m});
        qp.packets.push_back({.message = m, .end = true});
      }
      qp.completed.resize(o_.messages);
    }
  }

  /// Until all messages are complete, and 100 ms longer. False: not all are after `bound`.
  bool run(Duration bound) {
    for (std::uint32_t q = 0; q < o_.qps; ++q) fill(q);
    const Time end = now_ + bound;
    while (!events_.empty() && now_ < end && completed < o_.qps * o_.messages) step();
    took = now_ - Time{};
    const Time silence = now_ + std::chrono::milliseconds{100};
    while (!events_.empty() && events_.top().at <= silence) step();
    return completed == o_.qps * o_.messages;
  }

  [[nodiscard]] const UcReceiver& receiver() const { return receiver_; }
  [[nodiscard]] const UcModelOptions& options() const { return o_; }
  [[nodiscard]] const UcSender& sender() const { return sender_; }

  std::uint64_t completed = 0;         ///< messages
  std::uint64_t wrong = 0;             ///< completions, or headers, that are not what was sent
  std::uint64_t after_completion = 0;  ///< writes into the buffer of a complete message
  std::uint64_t late_writes = 0;       ///< payload written not later than what its path had brought
  std::uint64_t uncounted = 0;         ///< writes after completion that were no such late writes
  std::uint64_t retransmissions = 0;   ///< sent
  std::uint64_t barriers = 0;          ///< those that named all paths
  std::uint64_t unsettled = 0;         ///< packets that were received unsettled
  Duration took{};                     ///< until all messages were complete
  Duration settling{}, longest{};      ///< from received to settled, sum and maximum

 private:
  static constexpr PeerId kPeer{1};
  static constexpr std::uint32_t kRange = 128, kInFlight = 100;

  struct Sent {
    std::uint32_t message = 0;
    bool end = false;
    bool acked = false;
    bool written = false;
    Time unsettled = kNever;  ///< since when, at the receiver
  };
  struct Qp {
    std::vector<Sent> packets;
    std::uint32_t base = 0, next = 0;  ///< sender
    Psn first;
    reliability::ReceiveWindow window{kRange, true};
    std::uint32_t passed = 0;  ///< packets that the window has passed
    std::uint32_t next_message = 0;
    std::vector<bool> completed;
  };
  struct Event {
    Time at;
    std::uint64_t order;
    std::function<void()> act;
    bool operator<(const Event& b) const { return at != b.at ? at > b.at : order > b.order; }
  };
  struct UcPacket {
    UcName name;
    std::uint32_t length = 0;  ///< 0: marker
    std::uint32_t qp = 0, index = 0;
  };
  enum class Kind : std::uint8_t { packet, headers, retransmission };
  struct UdMessage {
    Kind kind;
    std::vector<std::uint8_t> bytes;
    std::uint32_t qp = 0, index = 0;  ///< the packet
  };

  // --- the network ---------------------------------------------------------------------------
  void after(Duration delay, std::function<void()> act) {
    events_.push({now_ + delay, order_++, std::move(act)});
  }
  void step() {
    Event event = std::move(const_cast<Event&>(events_.top()));
    events_.pop();
    now_ = event.at;
    event.act();
  }
  Duration microseconds(std::uint32_t from, std::uint32_t to) {
    return Duration{from * 1000 + random_.below((to - from) * 1000 + 1)};
  }
  void send_uc(const UcPacket& packet) {
    Duration delay = microseconds(20, 60);
    if (random_.chance(o_.stall)) delay += microseconds(0, 30000);
    Time at = now_ + delay;
    Time& last = path_time_[packet.name.path];
    if (o_.uc_overtaken > 0 && random_.chance(o_.uc_overtaken))
      at += microseconds(0, 3000);
    else
      at = last = std::max(at, last + Duration{1});
    if (random_.chance(o_.uc_loss)) return;
    after(at - now_, [this, packet] { arrive(packet); });
    if (o_.uc_duplicate > 0 && random_.chance(o_.uc_duplicate))
      after(at - now_ + microseconds(0, 3000), [this, packet] { arrive(packet); });
  }
  void send_ud(const UdMessage& message) {
    for (int copies = random_.chance(o_.ud_duplicate) ? 2 : 1; copies > 0; --copies) {
      if (random_.chance(o_.ud_loss)) continue;
      after(random_.chance(0.01) ? microseconds(20, 3000) : microseconds(20, 60), [this, message] {
        ud_.push_back(message);
        wake(microseconds(1, 20));
      });
    }
  }
  /// A UC packet reaches the NIC: it writes at once, if the queue pair is still there.
  void arrive(const UcPacket& packet) {
    const UcName& name = packet.name;
    if (name.epoch != receiver_.epoch(name.path)) return;
    std::uint32_t& highest = path_highest_[name.path];
    const bool late = packet.length > 0 && uc_steps(highest, name.seq) <= 0;
    if (uc_steps(highest, name.seq) > 0) highest = name.seq;
    late_writes += late;
    if (packet.length > 0) write(packet.qp, packet.index, late);
    completions_.push_back(packet);
    wake(microseconds(1, 20));
  }
  void write(std::uint32_t qp, std::uint32_t index, bool late) {
    qps_[qp].packets[index].written = true;
    if (!qps_[qp].completed[qps_[qp].packets[index].message]) return;
    ++after_completion;
    uncounted += !late;
  }

  // --- the sender ----------------------------------------------------------------------------
  static Qpn owner(std::uint32_t q) { return Qpn{0x10003 + q}; }
  static std::uint16_t length_of(std::uint32_t index) {
    return static_cast<std::uint16_t>(1024 + index % 3000);
  }
  void fill(std::uint32_t q) {
    Qp& qp = qps_[q];
    while (qp.next < qp.packets.size() && qp.next < qp.base + kInFlight) first(q, qp.next++);
  }
  void first(std::uint32_t q, std::uint32_t i) {
    const Psn psn = qps_[q].first + static_cast<std::int32_t>(i);
    bool by_uc = random_.chance(0.8);
    if (by_uc) {
      const UcName name =
          sender_.assign(kPeer, static_cast<std::uint16_t>(random_.below(o_.sender.paths)));
      by_uc = sender_.remember(owner(q), psn, &name, now_);
      if (by_uc) {
        send_uc({name, length_of(i), q, i});
        append_header(name, q, i);
      } else {
        sender_.take_back(kPeer, name);
      }
    } else {
      (void)sender_.remember(owner(q), psn, nullptr, now_);
    }
    if (!by_uc) send_ud({Kind::packet, {}, q, i});
    if (random_.chance(o_.spurious))
      after(microseconds(0, random_.chance(0.5) ? 5 : 200), [this, q, i] { again(q, i, false); });
    watch(q, i);
  }
  void watch(std::uint32_t q, std::uint32_t i) {
    after(microseconds(500, 1500), [this, q, i] { again(q, i, true); });
  }
  void again(std::uint32_t q, std::uint32_t i, bool timer) {
    Qp& qp = qps_[q];
    if (i < qp.base || (timer && qp.packets[i].acked)) return;
    ++retransmissions;
    UcOrigins origins;
    UcName name;
    switch (sender_.origin(owner(q), qp.first + static_cast<std::int32_t>(i), kPeer, now_, name)) {
      case UcOriginKind::none:
        break;
      case UcOriginKind::name:
        origins.add(name);
        break;
      case UcOriginKind::unknown:
        sender_.barrier(kPeer, origins);
        ++barriers;
        break;
    }
    UdMessage message{origins.count > 0 ? Kind::retransmission : Kind::packet, {}, q, i};
    if (origins.count > 0) {
      message.bytes.resize(uc_origins_size(kMaxUcPaths));
      const std::size_t size = write_uc_origins(message.bytes, origins.all());
      wrong += size == 0;
      message.bytes.resize(size);
      if (o_.markers)
        for (const UcName& origin : origins.all())
          send_uc({sender_.assign(kPeer, origin.path), 0, 0, 0});
    }
    send_ud(message);
    if (timer) watch(q, i);
  }
  void append_header(const UcName& name, std::uint32_t q, std::uint32_t i) {
    std::array<std::uint8_t, 12> bytes{};
    std::memcpy(bytes.data(), &q, 4);
    std::memcpy(bytes.data() + 4, &i, 4);
    const UcHeader header{name, length_of(i), 0, q ^ i, bytes};
    if (!writer_.append(header)) {
      flush_headers();
      wrong += !writer_.append(header);
    }
    if (!flushing_) {
      flushing_ = true;
      after(microseconds(0, 10), [this] {
        flushing_ = false;
        flush_headers();
      });
    }
  }
  void flush_headers() {
    if (writer_.empty()) return;
    const auto end = batch_.begin() + static_cast<std::ptrdiff_t>(writer_.size());
    send_ud({Kind::headers, {batch_.begin(), end}});
    writer_.clear();
  }

  // --- the receiver --------------------------------------------------------------------------
  void wake(Duration delay) {
    if (now_ + delay >= next_poll_) return;
    next_poll_ = now_ + delay;
    after(delay, [this, at = next_poll_] {
      if (at == next_poll_) poll();
    });
  }
  /// Reads a part of what is there; UC and UD have an order of their own each.
  void poll() {
    next_poll_ = kNever;
    for (std::uint32_t n = 1 + random_.below(30); n > 0; --n) {
      const bool uc = random_.chance(0.5);
      if (uc && !completions_.empty()) {
        complete(completions_.front());
        completions_.pop_front();
      } else if (!uc && !ud_.empty()) {
        receive(ud_.front());
        ud_.pop_front();
      }
    }
    take_settled();
    std::uint64_t wanted = receiver_.wants_reset(now_);
    for (std::uint16_t path = 0; wanted != 0; ++path, wanted >>= 1)
      if ((wanted & 1) != 0) reset(path);
    take_settled();
    if (!completions_.empty() || !ud_.empty()) wake(microseconds(1, 10));
    if (receiver_.next_deadline() != kNever)
      wake(std::max(receiver_.next_deadline() - now_, Duration{1}));
  }
  void complete(const UcPacket& p) {
    deliver(receiver_.arrived(p.name.path, p.name.epoch, p.name.seq, p.length, now_));
  }
  void reset(std::uint16_t path) {
    if (o_.drain) {
      for (const UcPacket& p : completions_)
        if (p.name.path == path) complete(p);
      std::erase_if(completions_, [&](const UcPacket& p) { return p.name.path == path; });
    }
    const auto epoch = static_cast<std::uint8_t>(receiver_.epoch(path) + 1);
    wrong += !receiver_.reset(path, epoch);
    path_highest_[path] = ~std::uint32_t{0};
    for (Duration delay : {microseconds(50, 2000), microseconds(50, 6000)})  // said twice
      after(delay, [this, path, epoch] {
        if (!sender_.restart(kPeer, path, epoch)) return;
        if (random_.chance(0.5)) path_time_[path] = now_;  // may overtake what is on its way
      });
  }
  void receive(const UdMessage& message) {
    if (message.kind == Kind::packet) return deliver(message.qp, message.index, false, false);
    if (message.kind == Kind::headers) {
      UcHeadersReader reader(message.bytes);
      UcHeader header;
      while (reader.next(header)) deliver(receiver_.header(header));
      wrong += reader.malformed();
      return;
    }
    UcOrigins origins;
    wrong += read_uc_origins(message.bytes, origins) != message.bytes.size();
    const Psn psn = qps_[message.qp].first + static_cast<std::int32_t>(message.index);
    const auto verdict = receiver_.retransmitted(origins.all(), {Qpn{message.qp}, psn}, now_);
    if (verdict == UcVerdict::drop) return;
    deliver(message.qp, message.index, verdict == UcVerdict::unsettled && o_.obey, false);
  }
  void deliver(const UcJoined* joined) {
    if (joined == nullptr) return;
    std::uint32_t q = 0, i = 0;
    std::memcpy(&q, joined->header.data(), 4);
    std::memcpy(&i, joined->header.data() + 4, 4);
    wrong += joined->check != (q ^ i) || joined->payload_length != length_of(i) ||
             !qps_[q].packets[i].written;
    deliver(q, i, false, true);
  }
  /// A packet reaches the engine.
  void deliver(std::uint32_t q, std::uint32_t i, bool open, bool placed) {
    using Verdict = reliability::ReceiveWindow::Verdict;
    Qp& qp = qps_[q];
    const Psn psn = qp.first + static_cast<std::int32_t>(i);
    const Verdict verdict = qp.window.check(psn);
    if (verdict == Verdict::beyond) return;
    if (open && i >= qp.passed && qp.packets[i].unsettled == kNever) {
      ++unsettled;
      qp.packets[i].unsettled = now_;
    }
    if (verdict == Verdict::duplicate) {
      if (open) qp.window.unsettle(psn);
    } else {
      if (!placed) write(q, i, false);
      advance(q, qp.window.accept(psn, qp.packets[i].end, !open,
                                  [&](Psn, Psn last) { complete_message(qp, last); }));
    }
    if (!random_.chance(o_.ud_loss))
      after(microseconds(20, 60), [this, q, i] { qps_[q].packets[i].acked = true; });
  }
  void complete_message(Qp& qp, Psn last) {
    const Sent& packet = qp.packets[static_cast<std::uint32_t>((last - qp.first))];
    wrong += !packet.end || packet.message != qp.next_message;
    qp.completed[qp.next_message++] = true;
    ++completed;
  }
  void advance(std::uint32_t q, const reliability::ReceiveWindow::Advance& a) {
    if (a.packets == 0) return;
    qps_[q].passed += a.packets;
    after(microseconds(20, 60), [this, q, passed = qps_[q].passed] {
      qps_[q].base = std::max(qps_[q].base, passed);
      fill(q);
    });
  }
  void take_settled() {
    for (const wire::PacketName& name : receiver_.take_settled()) {
      const std::uint32_t q = value(name.qpn);
      Qp& qp = qps_[q];
      Sent& packet = qp.packets[static_cast<std::uint32_t>(name.psn - qp.first)];
      if (packet.unsettled != kNever) {
        settling += now_ - packet.unsettled;
        longest = std::max(longest, now_ - packet.unsettled);
        packet.unsettled = kNever;
      }
      advance(q, qp.window.settle(name.psn, [&](Psn, Psn last) { complete_message(qp, last); }));
    }
  }

  UcModelOptions o_;
  Random random_;
  Time now_{};
  std::uint64_t order_ = 0;
  std::priority_queue<Event> events_;
  UcSender sender_;
  std::vector<Qp> qps_;
  std::vector<std::uint8_t> batch_ = std::vector<std::uint8_t>(900);
  UcHeadersWriter writer_{batch_};
  bool flushing_ = false;
  std::array<Time, kMaxUcPaths> path_time_{};
  std::array<std::uint32_t, kMaxUcPaths> path_highest_ = [] {
    std::array<std::uint32_t, kMaxUcPaths> all{};
    all.fill(~std::uint32_t{0});
    return all;
  }();
  UcReceiver receiver_;
  std::deque<UcPacket> completions_;
  std::deque<UdMessage> ud_;
  Time next_poll_ = kNever;
};

}  // namespace mrc::port::test
