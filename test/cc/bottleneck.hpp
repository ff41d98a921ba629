// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "mrc/cc/nscc.hpp"
#include "mrc/core/random.hpp"

/// A closed loop for congestion control alone: senders that always have data share one link in
/// virtual time. No transport: every lost packet is noticed after one base_rtt + target_qdelay.
namespace mrc::test {

struct BottleneckOptions {
  double bytes_per_ns = 12.5;      ///< 100 Gb/s
  Duration one_way{5'800};         ///< each direction; with serialization a bit under 12 us
  double mark_from = 0.2 * 150e3;  ///< bytes of queue at which marking begins ...
  double mark_all = 0.8 * 150e3;   ///< ... and at which every packet is marked
  double capacity = 600e3;         ///< bytes of queue; more is trimmed or lost
  bool trimming = false;
  double random_loss = 0;  ///< of packets, whatever the queue
  std::uint64_t seed = 1;
};

class Bottleneck {
 public:
  static constexpr std::uint32_t kPacket = 4180;

  struct Flow {
    explicit Flow(const cc::NsccOptions& nscc) : cc(nscc) {}
    cc::Nscc cc;
    std::uint64_t delivered = 0;  ///< bytes since reset_statistics()
    bool sending = false;         ///< an event for the next packet is on its way
    bool active = false;
    std::uint32_t unreported = 0;  ///< bytes received since the last SACK
  };
  struct Statistics {
    double queue_sum = 0, queue_max = 0;  ///< bytes, seen by arriving packets
    std::uint64_t packets = 0, marked = 0, trimmed = 0, lost = 0;
    [[nodiscard]] double mean_queue() const { return queue_sum / static_cast<double>(packets); }
  };

  Bottleneck(const BottleneckOptions& options, const cc::NsccOptions& nscc, std::size_t flows)
      : o_(options), random_(options.seed), flows_(flows, Flow(nscc)) {}

  void start(std::size_t flow) {
    flows_[flow].active = true;
    pump(flow);
  }
  void stop(std::size_t flow) { flows_[flow].active = false; }

  void run_until(Time end) {
    while (!events_.empty() && events_.top().at <= end) {
      const Event e = events_.top();
      events_.pop();
      now_ = e.at;
      handle(e);
    }
    now_ = end;
  }

  void reset_statistics() {
    statistics = {};
    for (Flow& f : flows_) f.delivered = 0;
    since_ = now_;
  }
  /// Share of the link that a flow had since reset_statistics().
  [[nodiscard]] double share(std::size_t flow) const {
    return static_cast<double>(flows_[flow].delivered) /
           (o_.bytes_per_ns * static_cast<double>((now_ - since_).count()));
  }
  [[nodiscard]] cc::Nscc& nscc(std::size_t flow) { return flows_[flow].cc; }

  Statistics statistics;

 private:
  enum class Kind : std::uint8_t { send, arrive, deliver, sack, trim, loss };
  struct Event {
    std::size_t flow = 0;
    Time sent{};
    bool wants_ack = false, mark = false;
    std::uint32_t newly = 0;  // bytes that a SACK reports
    Kind kind{};
    Time at{};
    std::uint64_t order = 0;
    friend bool operator<(const Event& a, const Event& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;  // earliest on top
    }
  };

  void post(Event e, Duration delay, Kind kind) {
    e.at = now_ + delay;
    e.order = ++order_;
    e.kind = kind;
    events_.push(e);
  }
  [[nodiscard]] Duration wire_time() const {
    return Duration{static_cast<Duration::rep>(kPacket / o_.bytes_per_ns)};
  }

  void pump(std::size_t flow) {
    Flow& f = flows_[flow];
    if (!f.active || f.sending || !f.cc.can_send(kPacket)) return;
    f.sending = true;
    post({flow}, Duration{0}, Kind::send);
  }

  void handle(const Event& e) {
    Flow& f = flows_[e.flow];
    switch (e.kind) {
      case Kind::send:
        send(e.flow);
        break;
      case Kind::arrive:
        arrive(e);
        break;
      case Kind::deliver:
        deliver(e);
        break;
      case Kind::sack:
        f.cc.on_sack({now_, e.newly, now_ - e.sent, true, e.mark, 0, false});
        break;
      case Kind::trim:
        f.cc.on_nack(kPacket, true, now_);
        break;
      case Kind::loss:
        f.cc.on_loss(kPacket, now_);
        // The packet sent again asks for a SACK; without one, what is held back here would stay
        // in the account for good.
        f.cc.on_sack({.now = now_, .newly = std::exchange(f.unreported, 0)});
        break;
    }
    if (e.kind > Kind::deliver) pump(e.flow);
  }

  // One packet leaves the host; the next may follow when its own link is free again.
  void send(std::size_t flow) {
    Flow& f = flows_[flow];
    f.sending = false;
    if (!f.active || !f.cc.can_send(kPacket)) return;
    f.cc.on_send(kPacket, now_);
    post({flow, now_, f.cc.wants_ack()}, o_.one_way / 2, Kind::arrive);
    f.sending = true;
    post({flow}, wire_time(), Kind::send);
  }

  // At the switch: marked by the queue in front of it, or refused when that is full.
  void arrive(Event e) {
    const double queue =
        std::max(0.0, static_cast<double>((free_at_ - now_).count())) * o_.bytes_per_ns;
    ++statistics.packets;
    statistics.queue_sum += queue;
    statistics.queue_max = std::max(statistics.queue_max, queue);
    const bool overflow = queue + kPacket > o_.capacity;
    if (overflow && o_.trimming) {
      ++statistics.trimmed;
      post(e, o_.one_way / 2 + o_.one_way, Kind::trim);
      return;
    }
    if (overflow || random_.chance(o_.random_loss)) {
      ++statistics.lost;
      const cc::Nscc& cc = flows_[e.flow].cc;
      post(e, cc.base_rtt() + cc.target_qdelay(), Kind::loss);
      return;
    }
    e.mark = random_.chance((queue - o_.mark_from) / (o_.mark_all - o_.mark_from));
    statistics.marked += e.mark;
    free_at_ = std::max(free_at_, now_) + wire_time();
    post(e, free_at_ - now_ + o_.one_way / 2, Kind::deliver);
  }

  // At the responder: a SACK per 16 KiB, on request, and for a mark (mrc-1.0 §2.6).
  void deliver(const Event& e) {
    Flow& f = flows_[e.flow];
    f.delivered += kPacket;
    f.unreported += kPacket;
    if (f.unreported < 16 * 1024 && !e.wants_ack && !e.mark) return;
    Event sack = e;
    sack.newly = f.unreported;
    f.unreported = 0;
    post(sack, o_.one_way, Kind::sack);
  }

  BottleneckOptions o_;
  Random random_;
  std::vector<Flow> flows_;
  std::priority_queue<Event> events_;
  Time now_{}, free_at_{}, since_{};
  std::uint64_t order_ = 0;
};

}  // namespace mrc::test
