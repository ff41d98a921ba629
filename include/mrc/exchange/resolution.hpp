// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/siphash.hpp"
#include "mrc/core/types.hpp"
#include "mrc/exchange/connection_info.hpp"
#include "mrc/exchange/destination.hpp"
#include "mrc/port/address.hpp"
#include "mrc/wire/resolution.hpp"

/// Resolution: what a device needs to know of a queue pair of which a program knows only GID and
/// QPN, asked in band from the peer's device. Sans-IO.
namespace mrc::inline v0_1 {

/// A resolution message to send or received.
struct ResolutionMessage {
  Plane plane = 0;                        ///< received: where; to send: with `to`
  std::uint64_t source = 0;               ///< received: RxPacket::source
  std::optional<port::PeerAddress> to{};  ///< to send: an answer, through `plane`; none: to `gid`
  port::IpAddress gid{};  ///< to send, without `to`: a device; its driver knows how to reach it
  std::optional<Plane> via{};  ///< likewise: the plane in which the device there has answered
  unsigned attempt = 0;        ///< counts up: path, and plane if it is not given, follow from it;
                               ///< hellos, offers and answers have counts of their own
  std::size_t size = 0;        ///< bytes used
  std::array<std::uint8_t, wire::kLongResolution> bytes{};  ///< BTH and all behind it, but the iCRC

  /// To be called before it is sent: where the sender receives in the plane that it is sent in.
  void set_sender(const port::PeerAddress& address) noexcept;
  /// The address that a message names as its sender's, if it is long enough to name one. Whether it
  /// is the sender's, the resolution checks.
  [[nodiscard]] port::IpAddress sender() const noexcept;
};

/// What a resolution asks of the device that it works for. Called from within the resolution's
/// methods.
class ResolutionHost {
 public:
  virtual ~ResolutionHost() = default;
  /// An own queue pair in RTR or RTS that connects, or is connected, by GID.
  struct Own {
    Destination destination;  ///< as it was given
    ConnectionInfo info;      ///< as QueuePair::local_info() gives it
    bool heard = false;       ///< its present peer has sent something that fits
    bool waited_for = false;  ///< something is posted that waits for the peer
  };
  /// The own queue pair with that number; nothing if it is not such a one.
  [[nodiscard]] virtual std::optional<Own> find(Qpn qpn) = 0;
  /// Is that address one of the device that the destination's GID names?
  [[nodiscard]] virtual bool belongs(const port::IpAddress& address,
                                     const Destination& destination) = 0;
  /// The peer of a queue pair is known. Called again when it says so again. `asked`: it is the
  /// answer to what this side has asked; else the peer has begun.
  virtual void on_resolved(Time now, Qpn qpn, const ConnectionInfo& peer, bool asked) = 0;
  /// Nobody has answered at the destination, as often as it was tried. It is asked on, slowly,
  /// until the queue pair has heard of its peer.
  virtual void on_silence(Time now, Qpn qpn) = 0;
  /// The destination's device has answered for long, while something was waiting, that its queue
  /// pair is not connected to this one; or something that can't be used. `why` says it in words.
  virtual void on_refused(Time now, Qpn qpn, const std::string& why) = 0;
  /// How a message that arrived in a plane is answered: the source tag of packets from an address.
  [[nodiscard]] virtual std::uint64_t source_of(Plane plane, const port::IpAddress& ip) = 0;
};

/// Limits and intervals of a resolution.
struct ResolutionOptions {
  std::uint64_t seed = 1;                                   ///< of nonces
  SipKey key{};                                             ///< of the answers' nonces; secret
  Duration first_retry = std::chrono::milliseconds(2);      ///< doubles with each retry,
  Duration longest_retry = std::chrono::milliseconds(100);  ///< up to this;
  Duration slow_retry = std::chrono::seconds(1);            ///< and after on_silence(), or patience
  unsigned tries = 9;  ///< unanswered messages until on_silence(): with these intervals 0.5 s
  Duration patience = std::chrono::seconds(10);  ///< with a device that is not ready
  unsigned hellos_per_second = 20'000;           ///< of others that are answered, most
  unsigned offers_per_second = 20'000;           ///< likewise; a flood of the one leaves the other
};

/// The resolutions of a device's queue pairs, both sides of them.
///
///     A, whose queue pair goes to RTR        B
///     hello: nonce of A              ──►     keeps nothing
///                                    ◄──     challenge: both nonces
///     offer: both, A's data          ──►     learns A's data if its queue pair is in RTR
///                                    ◄──     answer: both, B's data; or: not ready
///     learns B's data
///
/// A's nonce is random. B's is a keyed hash of A's nonce, address and queue pairs, so B proves that
/// A receives at its address before it stores anything, and no message is answered by a larger one.
/// Lost messages are sent again; B answers "not ready" until its own queue pair has A as its
/// destination, and then asks A as well, so it does not matter who is first.
///
/// Methods: inputs start(), stop(), on_message(), on_time(); outputs poll_message(),
/// next_deadline(), and the calls of ResolutionHost. Set-up path: allocates, and never throws
/// because of what peers send. One thread.
class Resolution {
 public:
  /// `host` must outlive it.
  Resolution(ResolutionHost& host, const ResolutionOptions& options)
      : host_(host), options_(options), spread_(options.key[0]) {}

  /// Resolves the destination of an own queue pair, from the beginning if that is under way.
  void start(Time now, Qpn qpn, const Destination& destination);
  /// Gives a resolution up; nothing if there is none.
  void stop(Qpn qpn) noexcept;
  /// A resolution message has arrived. Any bytes are safe.
  void on_message(Time now, const ResolutionMessage& message);
  /// To be called when next_deadline() is reached.
  void on_time(Time now);

  /// The next message to send. False if there is none.
  bool poll_message(ResolutionMessage& message);
  /// When to call on_time(); kNever if nothing is under way.
  [[nodiscard]] Time next_deadline() const noexcept;
  /// The destination of that own queue pair is being asked, and has not answered anything yet.
  [[nodiscard]] bool unanswered(Qpn qpn) const noexcept {
    for (const Asked& asked : asked_)
      if (asked.qpn == qpn) return !asked.answered;
    return false;
  }
  /// Queue pairs that wait for their peer.
  [[nodiscard]] std::size_t pending() const noexcept { return asked_.size(); }
  /// Messages that were dropped: malformed, unexpected, or too many.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  /// A resolution of an own queue pair.
  struct Asked {
    Qpn qpn{};
    Destination destination;
    std::uint64_t nonce = 0;
    std::uint64_t their_nonce = 0;  ///< 0: no challenge was received
    Plane their_plane = 0;          ///< in which it came
    Time begun{};
    Time next{};            ///< when to send again
    unsigned tries = 0;     ///< messages since the last answer
    unsigned hellos = 0;    ///< sent; count apart, or hellos would keep to the same few planes
    unsigned offers = 0;    ///< likewise
    bool answered = false;  ///< by a device that knows resolution
    bool silent = false;    ///< on_silence() was called
  };

  void send(Time now, Asked& asked);
  void on_hello(Time now, const ResolutionMessage& message, const wire::ResolutionPacket& in);
  void on_challenge(Time now, const ResolutionMessage& message, const wire::ResolutionPacket& in);
  void on_offer(Time now, const ResolutionMessage& message, const wire::ResolutionPacket& in);
  void on_answer(Time now, const ResolutionMessage& message, const wire::ResolutionPacket& in);
  [[nodiscard]] Asked* find(const wire::ResolutionPacket& in) noexcept;
  [[nodiscard]] std::uint64_t proof(const wire::ResolutionPacket& in, Plane plane,
                                    std::uint64_t epoch) const noexcept;
  /// A number of answers per second.
  struct Budget {
    Time second{};         ///< begin of the second
    unsigned answers = 0;  ///< given in it
  };
  [[nodiscard]] bool may_answer(Time now, Budget& budget, unsigned limit) noexcept;
  [[nodiscard]] std::uint64_t secret(std::uint64_t number) const noexcept;
  [[nodiscard]] bool valid(const ResolutionMessage& message, const wire::ResolutionPacket& in);
  [[nodiscard]] ResolutionMessage& answer(const ResolutionMessage& message,
                                          const wire::ResolutionPacket& in,
                                          wire::ResolutionStep step);
  static void put_info(ResolutionMessage& message, const std::vector<std::uint8_t>& info);
  [[nodiscard]] static std::uint64_t epoch_of(Time now) noexcept;

  ResolutionHost& host_;
  const ResolutionOptions options_;
  Random spread_;  ///< of retries over time; nothing secret
  std::uint64_t nonces_ = 0;
  std::vector<Asked> asked_;
  std::deque<ResolutionMessage> out_;
  Budget hellos_, offers_;
  unsigned answers_ = 0;
  std::uint64_t dropped_ = 0;
};

}  // namespace mrc::inline v0_1

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/exchange/impl/resolution.ipp"
#endif
