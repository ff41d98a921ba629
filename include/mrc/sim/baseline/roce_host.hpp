// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/sim/baseline/roce_frame.hpp"
#include "mrc/sim/baseline/roce_settings.hpp"
#include "mrc/sim/fabric.hpp"

namespace mrc::inline v0_1::sim::baseline {

/// A host that runs RoCE on simulated ports: RcSenders with DCQCN at one end of its queue pairs,
/// RcReceivers at the other, exchanging packets with real headers. Every queue pair uses one port,
/// as it uses one path. A port serves its senders round robin, packet by packet, while its queue is
/// short; ACKs are sent at once.
///
/// The cost per packet is independent of the number of queue pairs. One thread at a time.
class RoceHost : public Node {
 public:
  /// The application on the host. Called from within events; may post and connect.
  class Application {
   public:
    virtual ~Application() = default;
    /// A message has arrived at the receiver connected with this context.
    virtual void on_delivered(std::uint32_t context, const RcDelivery& delivery) = 0;
    /// A posted message is acknowledged, or its queue pair has failed and with it every message.
    virtual void on_completion(std::uint32_t context, const RcCompletion& completion) = 0;
  };

  /// `number`: its index among the hosts of the fabric. `seed`: for QPNs and first PSNs, and
  /// thereby the paths that ECMP picks. Throws mrc::Error for invalid settings.
  RoceHost(Network& network, unsigned number, const RoceHostSettings& settings, std::uint64_t seed);

  /// Creates its ports. The fabric must outlive it. Throws mrc::Error for invalid DCQCN settings.
  void attach(const Fabric& fabric);
  /// Sets the receiver of events.
  void set_application(Application* application) noexcept { application_ = application; }

  /// Creates a queue pair from one attached host to another, in the plane selected by a hash of its
  /// QPNs. `context` is passed to the applications of both. Returns its index at `from`.
  static std::uint32_t connect(RoceHost& from, RoceHost& to, std::uint32_t context);
  /// RcSender::post() on queue pair `index`. Call work() after the last one.
  Errc post(std::uint32_t index, std::uint64_t message, std::uint32_t bytes, bool notify);
  /// Sends posted messages.
  void work();
  /// Makes the host hang: its links stay up, but it neither sends nor receives any more.
  void kill() noexcept { dead_ = true; }

  /// Index among the hosts of the fabric.
  [[nodiscard]] unsigned number() const noexcept { return number_; }
  /// Its node in the network.
  [[nodiscard]] NodeId node() const noexcept { return node_; }
  /// Counters.
  [[nodiscard]] const RoceHostStats& stats() const noexcept { return stats_; }
  /// Number of senders.
  [[nodiscard]] std::size_t senders() const noexcept { return senders_.size(); }
  /// Number of receivers.
  [[nodiscard]] std::size_t receivers() const noexcept { return receivers_.size(); }
  /// Sender by index.
  [[nodiscard]] const RcSender& sender(std::size_t index) const { return senders_[index].sender; }
  /// The rate limiter of a sender, as of its last event.
  [[nodiscard]] const DcqcnReactionPoint& reaction(std::size_t index) const {
    return senders_[index].reaction;
  }
  /// Receiver by index.
  [[nodiscard]] const RcReceiver& receiver(std::size_t index) const {
    return receivers_[index].receiver;
  }

  void on_packet(LinkId in, PacketId id) override;
  void on_link_ready(LinkId) override { work(); }
  void on_link_state(LinkId, bool) override { work(); }
  void on_timer(std::uint32_t index) override;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  /// Route from a queue pair to its other end.
  struct Way {
    Qpn remote{};
    std::uint32_t peer = 0;  // host
    std::uint16_t source_port = 0;
    std::uint8_t plane = 0;
  };
  struct Sender {
    Way way;
    RcSender sender;
    DcqcnReactionPoint reaction;
    std::uint32_t context = 0;
    std::uint32_t next = kNone;  // next in its port's list
    Time alarm = kNever;         // the valid wake-up; those posted earlier are void
    bool in_line = false;
  };
  struct Receiver {
    Way way;
    RcReceiver receiver;
    std::uint32_t context = 0;
  };
  /// A port, and the senders with packets for it.
  struct Outlet {
    LinkId link{};
    std::uint32_t head = kNone, tail = kNone;
  };
  struct Done {
    std::uint32_t context;
    RcCompletion completion;
  };

  /// QPNs count from first_qpn_; senders have even, receivers odd offsets.
  [[nodiscard]] Qpn qpn(std::size_t index, bool receiver) const noexcept {
    return Qpn{first_qpn_ + static_cast<std::uint32_t>(2 * index + receiver)};
  }
  void on_data(const RoceFrame& frame, Receiver& receiver);
  void on_answer(const RoceHeader& header, std::uint32_t index);
  void update(std::uint32_t index);
  void plan(std::uint32_t index);
  void transmit(Outlet& outlet);
  void emit(const Way& way, const RoceHeader& header, TrafficClass traffic, std::uint8_t dscp,
            Ecn ecn);

  Network& network_;
  unsigned number_;
  RoceHostSettings settings_;
  NodeId node_;
  Random random_;
  std::uint32_t first_qpn_;
  std::vector<Outlet> outlets_;  // by plane
  // Deques: an application may connect while an element is in use.
  std::deque<Sender> senders_;
  std::deque<Receiver> receivers_;
  std::deque<Done> done_;  // events for the application
  Application* application_ = nullptr;
  RoceHostStats stats_;
  bool working_ = false;
  bool dead_ = false;
};

}  // namespace mrc::inline v0_1::sim::baseline
