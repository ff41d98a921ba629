// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mrc/core/containers.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/exchange.hpp"
#include "mrc/net/address.hpp"
#include "mrc/resolve/packets.hpp"

namespace mrc::inline v0_1 {

/// What a device has to do with a queue pair that another one asks for.
enum class Interest : std::uint8_t {
  none,   ///< it has no such queue pair
  known,  ///< it has that queue pair
  wanted  ///< and that queue pair connects to the one that asks
};

/// How many questions of a kind are answered, so that floods leave the others their answers:
///
///  * those that a queue pair here waits for have a budget of their own. To spend it, a stranger
///    has to know the numbers of both queue pairs and the address of the one that asks. What came
///    in 100 ms may be answered at once, since on a busy host a device does not run all the time;
///  * of those for other queue pairs here, each source address has a share;
///  * for queue pairs that do not exist there is little: it tells who mistakes a number, or is
///    late, that a device is here, and a flood of guesses drowns nothing else.
///
/// One thread.
class AnswerLimits {
 public:
  static constexpr std::uint32_t kWanted = 20'000;             ///< answers per second,
  static constexpr std::uint32_t kWantedBurst = kWanted / 10;  ///< and at once
  static constexpr std::uint32_t kKnown = 20'000;              ///< likewise, in all,
  static constexpr std::uint32_t kPerShare = 10'000;           ///< and to the sources of one share
  static constexpr std::uint32_t kOthers = 1'000;  ///< for queue pairs that do not exist
  static constexpr std::uint32_t kBurst = 256;     ///< of each of the others at once

  /// `key`: nobody can choose addresses that share with another one without it.
  explicit AnswerLimits(const SipKey& key) noexcept : key_(key) {}

  /// May a question from that address be answered now? If so, it counts as answered.
  [[nodiscard]] bool take(Time now, Interest interest, const port::IpAddress& from) noexcept {
    switch (interest) {
      case Interest::wanted:
        return wanted_.take(now);
      case Interest::known:
        return shares_[siphash(key_, from) % shares_.size()].take(now) && known_.take(now);
      case Interest::none:
        break;
    }
    return others_.take(now);
  }

 private:
  struct Share : TokenBucket {
    Share() noexcept : TokenBucket(kPerShare, kBurst) {}
  };

  SipKey key_;
  TokenBucket wanted_{kWanted, kWantedBurst}, known_{kKnown, kBurst}, others_{kOthers, kBurst};
  std::array<Share, 64> shares_;
};

/// Resolution: what a device needs to know of a queue pair of which a program knows only GID and
/// QPN, asked in band from the peer's device. Sans-IO.

/// A resolution message to send or received.
struct ResolutionMessage {
  Plane plane = 0;                        ///< received: where; to send: with `to`
  std::uint64_t source = 0;               ///< received: RxPacket::source
  std::optional<port::PeerAddress> to{};  ///< to send: there, through `plane`; none: a hello
  /// Of a hello: the queue pair that asks. Its driver knows the ways to the device that is asked.
  Qpn asking{};
  unsigned ways = 1;     ///< of a hello: over so many ways at once
  unsigned attempt = 0;  ///< counts up: path, and way if it is not given, follow from it; hellos,
                         ///< offers and answers have counts of their own
  std::size_t size = 0;  ///< bytes used
  std::array<std::uint8_t, wire::kLongResolution> bytes{};  ///< BTH and all behind it, but the iCRC

  /// To be called before it is sent: where the sender receives in the plane that it is sent in.
  void set_sender(const port::PeerAddress& address) noexcept;
  /// The address that a message names as its sender's, if it is long enough to name one. Whether it
  /// is the sender's, the resolution checks.
  [[nodiscard]] port::IpAddress sender() const noexcept;
};

/// How the peer of a queue pair has become known.
struct Resolved {
  bool asked = false;      ///< the answer to what this side has asked; else the peer has begun
  Plane plane = 0;         ///< through which its message came,
  port::IpAddress from{};  ///< and from which address
};

/// What a resolution asks of the device that it works for. Called from within the resolution's
/// methods.
class ResolutionHost {
 public:
  virtual ~ResolutionHost() = default;
  /// An own queue pair in RTR or RTS that connects, or is connected, by GID.
  struct Own {
    Destination destination;   ///< as it was given
    ConnectionInfo info;       ///< as QueuePair::local_info() gives it
    bool heard = false;        ///< its present peer has sent something that fits
    bool waited_for = false;   ///< something is posted that waits for the peer
    bool known = false;        ///< it has a peer, which may have been presumed
    bool must_answer = false;  ///< it fails if nobody answers, whether something waits or not
    bool can_ask = true;       ///< a plane of this side is up
  };
  /// The own queue pair with that number; nothing if it is not such a one.
  [[nodiscard]] virtual std::optional<Own> find(Qpn qpn) = 0;
  /// Is that address one of the device that the destination's GID names?
  [[nodiscard]] virtual bool belongs(const port::IpAddress& address,
                                     const Destination& destination) = 0;
  /// Is it so for sure? Else it is only likely.
  [[nodiscard]] virtual bool surely_belongs(const port::IpAddress& address,
                                            const Destination& destination) = 0;
  /// What this device has to do with its queue pair of that number, if the peer's queue pair asks
  /// from that address. Fast: strangers may ask as often as they like.
  [[nodiscard]] virtual Interest interest(Qpn qpn, Qpn peer, const port::IpAddress& from) = 0;
  /// The peer of a queue pair is known. Called on every confirmation by the peer.
  virtual void on_resolved(Time now, Qpn qpn, const ConnectionInfo& peer, const Resolved& how) = 0;
  /// Nobody has answered at the destination for a while. True: the device does without an answer
  /// for now; it is asked on, slowly, until the queue pair has heard of its peer. False: it is
  /// asked on as before, and this is called again.
  [[nodiscard]] virtual bool on_silence(Time now, Qpn qpn) = 0;
  /// The patience is over, and something waits for the answer. No OpenMRC device has given one.
  virtual void on_unanswered(Time now, Qpn qpn) = 0;
  /// Somebody has answered what ask() has asked.
  virtual void on_answer(std::uint64_t question, Plane plane, const port::PeerAddress& from) = 0;
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
  unsigned tries = 9;                          ///< messages without answer until on_silence(), and
  Duration silence = std::chrono::seconds(2);  ///< so long, while this side could ask
  unsigned at_once = 32;                       ///< questions to one device, at first,
  unsigned most_at_once = 256;                 ///< and when all are answered
  Duration patience = std::chrono::seconds(10);  ///< until something that waits fails
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
/// A device is asked about a limited number of queue pairs at once, the others take turns, and none
/// is asked again before answers usually come: a host that hardly runs is not buried in questions.
/// Lost messages are sent again; B answers "not ready" until its own queue pair has A as its
/// destination, and then asks A as well, so it does not matter who is first. A, once told so, asks
/// less and less often, in the end once in ResolutionOptions::slow_retry.
///
/// Methods: inputs start(), stop(), on_message(), on_time(); outputs poll_message(),
/// next_deadline(), and the calls of ResolutionHost. Set-up path: allocates, and never throws
/// because of what peers send. One thread.
class Resolution {
 public:
  /// `host` must outlive it.
  Resolution(ResolutionHost& host, const ResolutionOptions& options)
      : host_(host),
        options_(options),
        spread_(options.key[0]),
        hellos_(options.key),
        offers_(options.key) {}

  /// Resolves the destination of an own queue pair, from the beginning if that is under way.
  void start(Time now, Qpn qpn, const Destination& destination);
  /// Gives a resolution up; nothing if there is none.
  void stop(Qpn qpn) noexcept;
  /// A number that nobody can guess, for ask().
  [[nodiscard]] std::uint64_t new_nonce() noexcept { return secret(++nonces_); }
  /// Asks once, through that plane, whether the device with queue pair `qpn` answers there, in the
  /// name of queue pair `own`. ResolutionHost::on_answer() gets the answer if there is one.
  void ask(Plane plane, const port::PeerAddress& to, std::uint64_t question, Qpn qpn, Qpn own);
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
  /// Messages that were dropped: malformed, or unexpected.
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }
  /// Questions of others that were answered, and
  [[nodiscard]] std::uint64_t answers() const noexcept { return answers_; }
  /// those that were not, because there were too many.
  [[nodiscard]] std::uint64_t refused() const noexcept { return refused_; }

 private:
  /// A device that is asked: its GID, and the slot in its queue pairs' numbers.
  using DeviceKey = std::pair<port::IpAddress, std::uint8_t>;
  struct Device {
    unsigned asked = 0;              ///< queue pairs of it that are asked about,
    unsigned open = 0;               ///< those of them that a message under way is about
    unsigned unanswered = 0;         ///< messages to it since it has last answered anything
    Time answered_at = Time::min();  ///< the last time
    unsigned at_once = 0;            ///< at most so many open
    Duration delay{};                ///< of its answers, smoothed
  };
  /// A resolution of an own queue pair.
  struct Asked {
    Qpn qpn{};
    Destination destination;
    Device* device = nullptr;  ///< of the destination
    std::uint64_t nonce = 0;
    std::uint64_t their_nonce = 0;      ///< 0: no challenge was received
    Plane their_plane = 0;              ///< in which it came,
    port::PeerAddress their_address{};  ///< and from where
    Time waiting_since{};               ///< for what is posted, and since the first answer
    Time silent_since{};                ///< nobody has answered, while this side could ask
    Time asked_at{};                    ///< first since the last answer
    unsigned asked_times = 0;           ///< likewise
    Time next{};                        ///< when to send again, if its turn has come
    bool open = false;                  ///< one of Device::open
    unsigned tries = 0;                 ///< messages since the last answer
    unsigned hellos = 0;     ///< sent; count apart, or hellos would keep to the same few planes
    unsigned offers = 0;     ///< likewise
    unsigned not_ready = 0;  ///< answers that said so
    bool answered = false;   ///< by the device asked: so it knows resolution
    bool silent = false;     ///< on_silence() was called
    bool slow = false;       ///< asked in slow_retry, whoever else is asked about
  };

  [[nodiscard]] Duration retry_wait(const Asked& asked, Duration first, unsigned tries,
                                    Duration longest) noexcept;
  [[nodiscard]] Time due(const Asked& asked) const noexcept;
  static void close(Asked& asked) noexcept;
  void note_delay(Time now, Asked& asked) const noexcept;
  void send(Time now, Asked& asked);
  static void write_hello(ResolutionMessage& message, std::uint64_t nonce, Qpn own, Qpn qpn);
  [[nodiscard]] bool silent(Time now, const Asked& asked) const noexcept;
  void note_answer(Time now, Asked& asked, const port::IpAddress& from);
  void on_hello(Time now, const ResolutionMessage& message, const wire::ResolutionPacket& in);
  void on_challenge(Time now, const ResolutionMessage& message, const wire::ResolutionPacket& in);
  void on_offer(Time now, const ResolutionMessage& message, const wire::ResolutionPacket& in);
  void on_answer(Time now, const ResolutionMessage& message, const wire::ResolutionPacket& in);
  [[nodiscard]] Asked* find(const wire::ResolutionPacket& in) noexcept;
  [[nodiscard]] std::uint64_t proof(const wire::ResolutionPacket& in, Plane plane,
                                    std::uint64_t epoch) const noexcept;
  [[nodiscard]] bool may_answer(Time now, AnswerLimits& limits, const wire::ResolutionPacket& in);
  std::list<Asked>::iterator forget(std::list<Asked>::iterator asked) noexcept;
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
  std::list<Asked> asked_;  ///< in order of turns: the one that was sent last is last
  std::map<DeviceKey, Device> devices_;
  std::deque<ResolutionMessage> out_;
  AnswerLimits hellos_, offers_;  ///< a flood of the one leaves the other
  std::uint64_t answers_ = 0, dropped_ = 0, refused_ = 0;
  Time refused_at_ = Time::min();
};

}  // namespace mrc::inline v0_1
