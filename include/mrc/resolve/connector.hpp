// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/host/modules.hpp"
#include "mrc/host/peers.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/resolve/resolution.hpp"

namespace mrc::inline v0_1::detail {

/// Which other addresses devices have told of themselves, by the GID at which they were asked: the
/// owner of an address speaks for itself, and not for the others that it names. One thread.
class AddressBook {
 public:
  /// GIDs that are kept, most; then the book begins anew.
  static constexpr std::size_t kMost = 4096;

  /// The process in that slot at the GID has said where its planes are.
  void learn(const port::IpAddress& gid, std::uint8_t slot,
             std::span<const port::PeerAddress> planes);
  /// What it has said; empty if it is not known.
  [[nodiscard]] std::span<const port::PeerAddress> others(const port::IpAddress& gid,
                                                          std::uint8_t slot) const noexcept;
  /// An OpenMRC device has answered at the GID.
  [[nodiscard]] bool knows(const port::IpAddress& gid) const noexcept;

 private:
  std::map<std::pair<port::IpAddress, std::uint8_t>, std::vector<port::PeerAddress>> told_;
};

/// Connects queue pairs to peers that are known by GID and QPN only: asks the peer's device for the
/// rest (resolve/resolution.hpp), over all planes that are up and at all addresses that it may
/// have, and attaches the queue pair when it is known.
///
/// Silence does not say what the peer is. After a while it is presumed to be another implementation
/// of MRC, as option `peer` says, so that writes to one can go out; but not if an OpenMRC device
/// has ever answered at that GID, nor while something waits that only such a device can do. Whoever
/// answers later is believed, until the first packet of the presumed peer has come.
///
/// Thread contract: under the lane's lock. What the constructor takes must outlive it.
class Connector final : private ResolutionHost {
 public:
  /// Takes the answer to a question: its number, and from where it came.
  using OnAnswer = std::function<void(std::uint64_t, const Contact&)>;

  /// `info`: what the peer of an own queue pair needs to know; `profiles`: those of that queue
  /// pair.
  Connector(const Config& config, const Log& log, OpenedPlanes& planes, engine::Engine& engine,
            Peers& peers, PeerFilter& filter, const Steering& steering,
            const ResolutionOptions& options, std::function<ConnectionInfo(Qpn)> info,
            std::function<PeerProfiles(Qpn)> profiles, OnAnswer on_answer);

  /// A queue pair has gone to RTR with this destination. Throws mrc::Error if no plane leads there.
  void start(Time now, Qpn qpn, const Destination& destination);
  /// It has left RTR and RTS, or is gone.
  void stop(Qpn qpn) noexcept;
  /// What it is connected to, if that was given by GID.
  [[nodiscard]] std::optional<Destination> destination(Qpn qpn) const;
  /// Why resolving it failed; empty if it did not.
  [[nodiscard]] std::string failure(Qpn qpn) const;

  /// Does this packet come from the peer of a queue pair that is not resolved yet
  /// (Engine::early())? If so, that peer is another implementation of MRC, and the queue pair is
  /// connected to it. Not once an OpenMRC device has answered there.
  [[nodiscard]] bool accepts(Time now, const wire::RxPacket& packet) noexcept;
  /// A new number for questions, which nobody can guess.
  [[nodiscard]] std::uint64_t new_question() noexcept { return resolution_.new_nonce(); }
  /// Asks by work() whether the device with queue pair `qpn` answers by that way, for queue pair
  /// `own`; OnAnswer gets the answer.
  void ask(const Contact& way, std::uint64_t question, Qpn qpn, Qpn own) {
    resolution_.ask(way.plane, way.address, question, qpn, own);
  }

  /// Takes the messages that the engine has received, and does what is due.
  void work(Time now) noexcept;
  /// When to call work() at the latest.
  [[nodiscard]] Time next_deadline() const noexcept { return resolution_.next_deadline(); }
  /// Questions of other devices that were answered, and those that were too many.
  [[nodiscard]] std::uint64_t answers() const noexcept { return resolution_.answers(); }
  [[nodiscard]] std::uint64_t refused() const noexcept { return resolution_.refused(); }

 private:
  struct Entry {
    Destination destination;
    std::vector<Contact> ways{};  ///< to ask over, likeliest first
    /// The peer may be told this side's network namespace: all ways to it stay on loopback.
    bool on_host = false;
    bool known = false;      ///< it has a peer
    bool presumed = false;   ///< of which nobody has said what it is
    bool heard = false;      ///< packets have arrived from one of its addresses
    PeerId peer{};           ///< if `known`
    std::uint64_t guid = 0;  ///< of the peer's device
    std::string failure{};
  };

  [[nodiscard]] std::optional<Own> find(Qpn qpn) override;
  [[nodiscard]] bool belongs(const port::IpAddress& address,
                             const Destination& destination) override;
  [[nodiscard]] bool surely_belongs(const port::IpAddress& address,
                                    const Destination& destination) override;
  [[nodiscard]] Interest interest(Qpn qpn, Qpn peer, const port::IpAddress& from) override;
  void on_resolved(Time now, Qpn qpn, const ConnectionInfo& peer, const Resolved& how) override;
  [[nodiscard]] bool on_silence(Time now, Qpn qpn) override;
  void on_answer(std::uint64_t question, Plane plane, const port::PeerAddress& from) override {
    on_answer_(question, {plane, from});
  }
  void on_unanswered(Time now, Qpn qpn) override;
  void on_refused(Time now, Qpn qpn, const std::string& why) override;
  [[nodiscard]] std::uint64_t source_of(Plane plane, const port::IpAddress& ip) override;

  [[nodiscard]] bool stays_on_host(const Destination& destination) const;
  [[nodiscard]] std::vector<Contact> ways_to(const Destination& destination) const;
  [[nodiscard]] bool up(const Contact& way) const;
  [[nodiscard]] std::string address_of(const Contact& way) const;
  [[nodiscard]] std::string text_of(const Contact& way) const;
  [[nodiscard]] std::string gid_of(const Entry& entry) const;
  [[nodiscard]] std::string asked_text(const Entry& entry) const;
  [[nodiscard]] std::string heard_text(const Entry& entry) const;
  [[nodiscard]] static bool is_of(const Entry& entry, const port::IpAddress& address);
  void note_sender(const ResolutionMessage& message);
  void log_answer(const Entry& entry, const Resolved& how) const;
  void forget_doubted(Qpn qpn, Entry& entry) noexcept;
  void presume(Time now, Qpn qpn, Entry& entry);
  [[nodiscard]] ConnectionInfo plain_peer(const Destination& destination) const;
  void attach(Time now, Qpn qpn, Entry& entry, const ConnectionInfo& peer);
  void fail(Qpn qpn, const std::string& why);
  void send_all(Time now);
  void send(Time now, ResolutionMessage& message);
  void send_over(Time now, ResolutionMessage& message, const Contact& way);
  void log_floods(Time now);

  const Config& config_;
  const Log& log_;
  OpenedPlanes& planes_;
  engine::Engine& engine_;
  Peers& peers_;
  PeerFilter& filter_;
  const Steering& steering_;
  const std::function<ConnectionInfo(Qpn)> info_;
  const std::function<PeerProfiles(Qpn)> profiles_;
  const OnAnswer on_answer_;
  const PeerId scratch_;  ///< under which ports know who gets the next message
  const PeerPorts peer_ports_;
  Resolution resolution_;
  std::unordered_map<std::uint32_t, Entry> entries_;  ///< by QPN
  AddressBook book_;
  std::uint64_t refused_logged_ = 0;  ///< of refused(),
  Time flood_logged_ = Time::min();   ///< then
  wire::TxBurst burst_{1, 1};
};

}  // namespace mrc::inline v0_1::detail
