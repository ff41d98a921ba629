// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/config.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/datagram.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/exchange.hpp"
#include "mrc/profile_types.hpp"
#include "mrc/qp_change.hpp"
#include "mrc/stats.hpp"

namespace mrc::inline v0_1 {

class Device;
namespace detail {
class DeviceCore;
class Lane;
}  // namespace detail

/// What a shared receive queue is made of.
struct SrqOptions {
  std::uint32_t depth = 128;  ///< receive requests, 1 .. 32,768
  std::uint32_t sges = 1;     ///< SGEs per request, 1 .. 64
  std::optional<PdId> pd{};   ///< of the memory of its requests; default: the device's own
  /// Default: the lane with the fewest queue pairs. Errc::invalid_argument if there is no such
  /// lane.
  std::optional<unsigned> lane{};
};

/// What is known of a shared receive queue.
struct SrqInfo {
  PdId pd{};                 ///< protection domain
  std::uint32_t depth = 0;   ///< most requests
  std::uint32_t sges = 0;    ///< most SGEs per request
  std::uint32_t posted = 0;  ///< requests that no queue pair has taken yet
  std::uint32_t limit = 0;   ///< an event is raised when fewer are left; 0: none
  std::uint32_t users = 0;   ///< queue pairs
};

/// A shared receive queue: receive requests for several queue pairs (QpOptions::srq,
/// DatagramOptions::srq). Each takes the oldest one when a message that needs it begins to arrive;
/// the completion goes to the queue pair's own completion queue. It belongs to one lane for life,
/// and so do its queue pairs.
///
/// Move-only. Methods may be called from any thread, but for those that end the handle: see Device.
class MRC_API SharedReceiveQueue {
 public:
  SharedReceiveQueue() = default;
  /// Takes the queue over; `other` is empty afterwards.
  SharedReceiveQueue(SharedReceiveQueue&& other) noexcept { swap(other); }
  /// Takes `other` over; the former queue is destroyed.
  SharedReceiveQueue& operator=(SharedReceiveQueue&& other) noexcept;
  ~SharedReceiveQueue();

  /// Names the queue in events.
  [[nodiscard]] SrqId id() const noexcept;
  /// Which lane of the device it belongs to: 0 .. Device::lane_count() - 1.
  [[nodiscard]] unsigned lane() const noexcept;

  /// Posts a receive request for whichever of the queue pairs needs one first. Errc::queue_full if
  /// SrqOptions::depth of them wait, as other errors QueuePair::post_receive(). Never blocks, never
  /// throws.
  Errc post_receive(const ReceiveRequest& request) noexcept;
  /// Posts several. Stops at the first that fails; `posted` counts the others.
  Errc post_receives(std::span<const ReceiveRequest> requests, std::size_t& posted) noexcept;
  /// As soon as fewer than `limit` receives are left, the device raises
  /// DeviceEvent::Kind::srq_limit, once for each call; 0: never. At once if fewer are left now.
  /// Errc::invalid_argument if it is larger than the depth.
  Errc set_limit(std::uint32_t limit) noexcept;
  /// What is known of it. Throws mrc::Error if it was closed.
  [[nodiscard]] SrqInfo query() const;

  /// Destroys the queue; posted requests vanish without completions. Errc::in_use while a queue
  /// pair uses it (nothing happens then).
  Errc close() noexcept;

 private:
  friend class Device;
  SharedReceiveQueue(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane, SrqId srq);
  void swap(SharedReceiveQueue& other) noexcept;

  std::shared_ptr<detail::DeviceCore> core_;
  detail::Lane* lane_ = nullptr;
  SrqId srq_{};  ///< number in the lane's engine
};

class Device;
namespace detail {
class DeviceCore;
class Lane;
class PlaneKind;
struct ChannelEvents;
}  // namespace detail

/// A registered range of memory. Move-only; the destructor deregisters it, and moves queue pairs
/// that still have requests on it to ERR, so the memory is never touched again afterwards.
class MRC_API MemoryRegion {
 public:
  MemoryRegion() = default;
  /// Takes the region over; `other` is empty afterwards.
  MemoryRegion(MemoryRegion&& other) noexcept { swap(other); }
  /// Takes `other` over; the former region is deregistered.
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  ~MemoryRegion();

  /// Local key, for Sge::lkey.
  [[nodiscard]] std::uint32_t lkey() const noexcept { return key_; }
  /// Remote key, for RemoteAddress::rkey at the peer.
  [[nodiscard]] std::uint32_t rkey() const noexcept { return key_; }
  /// What a peer writes, reads or changes by atomics, as far as the region's rights allow it: the
  /// address of byte `offset` of the region, and its key.
  [[nodiscard]] RemoteAddress remote(std::uint64_t offset = 0) const noexcept {
    return {reinterpret_cast<std::uint64_t>(address_) + offset, key_};
  }
  /// First byte of the region.
  [[nodiscard]] void* address() const noexcept { return address_; }
  /// Length of the region in bytes.
  [[nodiscard]] std::size_t length() const noexcept { return length_; }

  /// Deregisters. Errc::in_use while posted requests refer to it (nothing happens then).
  Errc close() noexcept;

 private:
  friend class Device;
  MemoryRegion(std::shared_ptr<detail::DeviceCore> core, void* address, std::size_t length,
               std::uint32_t key);
  void swap(MemoryRegion& other) noexcept;

  std::shared_ptr<detail::DeviceCore> core_;
  void* address_ = nullptr;
  std::size_t length_ = 0;
  std::uint32_t key_ = 0;
};

/// A completion channel: gives the events of all completion queues that were created with it.
/// Copies refer to the same channel. Any thread.
class MRC_API CompletionChannel {
 public:
  CompletionChannel() = default;
  /// Readable while there are events; for poll(), not for reading.
  [[nodiscard]] int fd() const noexcept;
  /// Takes the oldest event: which armed queue has got a completion. Each has to be acknowledged
  /// (CompletionQueue::acknowledge()). Nothing if there is none.
  std::optional<CqId> poll() noexcept;
  /// The same; sleeps until there is one, or the time is over.
  std::optional<CqId> wait(Duration timeout) noexcept;

 private:
  friend class Device;
  CompletionChannel(std::shared_ptr<detail::DeviceCore> core,
                    std::shared_ptr<detail::ChannelEvents> events);

  std::shared_ptr<detail::DeviceCore> core_;
  std::shared_ptr<detail::ChannelEvents> events_;
};

/// A completion queue. Move-only. Methods may be called from any thread, but for those that end the
/// handle (see Device); polling from the thread that posts is the fast way.
class MRC_API CompletionQueue {
 public:
  CompletionQueue() = default;
  /// Takes the queue over; `other` is empty afterwards.
  CompletionQueue(CompletionQueue&& other) noexcept { swap(other); }
  /// Takes `other` over; the former queue is destroyed.
  CompletionQueue& operator=(CompletionQueue&& other) noexcept;
  ~CompletionQueue();

  /// Takes completions; if there are none yet, after one round of progress in the lanes whose queue
  /// pairs use this queue. Returns how many; 0 if none.
  std::size_t poll(std::span<Completion> out) noexcept;

  /// Polls until there is at least one completion or the time is over; spins for a short while,
  /// then sleeps. Returns how many were taken.
  std::size_t wait(std::span<Completion> out, Duration timeout);

  /// Asks for one event at the next completion, or at the next solicited one: on the queue's
  /// channel if it has one, else on fd(). Poll once more after arming, since completions that were
  /// already there produce no event.
  Errc arm(Arm what = Arm::all) noexcept;
  /// An eventfd that becomes readable when an armed queue gets a completion; read 8 bytes to clear.
  [[nodiscard]] int fd() const noexcept;
  /// Says that `events` events which the channel has given for this queue are dealt with. The queue
  /// can't be closed before.
  void acknowledge(unsigned events = 1) noexcept;
  /// Names the queue in events.
  [[nodiscard]] CqId id() const noexcept { return id_; }

  /// True once a completion found the queue full, in any lane; its queue pairs of that lane are in
  /// ERR then.
  [[nodiscard]] bool overrun() const noexcept;
  /// Destroys the queue. Errc::in_use while a queue pair uses it, or an event of it is not
  /// acknowledged (nothing happens then).
  Errc close() noexcept;

 private:
  friend class Device;
  friend class QueuePair;
  CompletionQueue(std::shared_ptr<detail::DeviceCore> core, CqId id, int fd);
  void swap(CompletionQueue& other) noexcept;

  std::shared_ptr<detail::DeviceCore> core_;
  CqId id_{};
  int fd_ = -1;
};

/// A queue pair. Move-only. Methods may be called from any thread, but for those that end the
/// handle (see Device).
class MRC_API QueuePair {
 public:
  QueuePair() = default;
  /// Takes the queue pair over; `other` is empty afterwards.
  QueuePair(QueuePair&& other) noexcept { swap(other); }
  /// Takes `other` over; the former queue pair is destroyed.
  QueuePair& operator=(QueuePair&& other) noexcept;
  ~QueuePair();

  /// Queue pair number, 24 bits; the top 8 are the slot of its lane.
  [[nodiscard]] Qpn qpn() const noexcept { return qpn_; }
  /// Which lane of the device it belongs to, for life: 0 .. Device::lane_count() - 1.
  [[nodiscard]] unsigned lane() const noexcept;
  /// Current state; calls that it does not allow return Errc::invalid_state.
  [[nodiscard]] QpState state() const noexcept;
  /// What the peer needs to connect to this queue pair. Send it to the peer by any means.
  [[nodiscard]] ConnectionInfo local_info() const;
  /// Takes the queue pair from RESET through INIT and RTR to RTS. Throws mrc::Error that names
  /// what does not fit. Both sides must have called it before the first message arrives in full;
  /// packets that come too early are lost and sent again.
  void connect(const ConnectionInfo& peer);

  /// One step to another state, with its attributes. Never waits: with QpChange::destination the
  /// queue pair is in RTR at once, and what is sent or received waits until the peer's device has
  /// answered. If it can't be found, the queue pair moves to ERR (QpErrorCause::unresolved). Throws
  /// mrc::Error that names what does not fit, and changes nothing then. QpChange::connection may
  /// wait some milliseconds for next hops, in this call only.
  void modify(const QpChange& change);
  /// What is known of it. Throws mrc::Error if it was closed.
  [[nodiscard]] QpInfo query() const;

  /// Posts one request and starts sending it. Never blocks, never throws.
  ///
  /// Requests complete in the order in which they were posted: writes and SENDs when the peer has
  /// all their bytes, READs and atomics when the response is in their SGEs. docs/api.md says what
  /// is executed in which order.
  ///
  /// Nothing is posted if it fails: Errc::invalid_state unless in RTS; queue_full while as many
  /// requests as the send queue holds are not complete (both: see QpOptions::as_verbs);
  /// invalid_argument for a request against the rules, too_many_sges and too_long for one above the
  /// limits of QpCapacity or kMaxMessage; invalid_lkey, access_denied and wrong_pd for SGEs (those
  /// of READs and atomics need local_write access); unsupported for atomics without room for them
  /// (QpCapacity::atomics), for SENDs, READs and atomics if this side or the peer does not offer
  /// them, and for READs and atomics where QpAttributes::max_rd_atomic, or max_rd_atomic_dest of
  /// the peer, is 0. While the device still looks for the peer they are accepted; if it turns out
  /// not to offer them, the queue pair moves to ERR (QpErrorCause::unsupported).
  Errc post_send(const SendRequest& request) noexcept;
  /// Posts several with one doorbell. Stops at the first that fails; `posted` counts the others.
  Errc post_sends(std::span<const SendRequest> requests, std::size_t& posted) noexcept;
  /// Posts a receive request: one SEND or write with immediate of the peer consumes it. A SEND goes
  /// to its SGEs, in their order. A message that finds no receive waits for one, and with it those
  /// that need one and come after it; with a peer that is no OpenMRC device the queue pair moves to
  /// ERR (QpErrorCause::no_receive). Not for queue pairs with a shared receive queue.
  Errc post_receive(const ReceiveRequest& request) noexcept;
  /// Posts a receive request without memory.
  Errc post_receive(std::uint64_t wr_id) noexcept {
    return post_receive(ReceiveRequest{wr_id, {}});
  }

  /// Says what traffic is to come, before or after the queue pair is connected. With NSCC the
  /// congestion window towards its destination then starts at a share: the largest window (1.5
  /// bandwidth-delay products) divided by QpHint::peers, but no less than four packets and
  /// ExpertConfig::sack_threshold. From there it follows the network's signals like any other: a
  /// hint that is wrong costs a few round trips. All queue pairs of a lane to one destination share
  /// a window, however many they are; those in other lanes have windows of their own, so the share
  /// is smaller by the number of lanes that QpHint::flows_per_peer queue pairs can be in.
  ///
  /// A hint counts until the first packet leaves for the destination, and changes nothing
  /// afterwards; the newest counts if several queue pairs to one destination have hints. Without
  /// effect with the other algorithms. Kept by reset(). Errc::not_found if the queue pair was
  /// closed.
  Errc set_hint(const QpHint& hint) noexcept;

  /// What peers may do through this queue pair: any of Access::remote_write, remote_read and
  /// remote_atomic (default: all). The memory region must allow it, too. A request without the
  /// right moves both queue pairs to ERR (QpErrorCause::bad_access). At any time; kept by reset().
  /// Errc::invalid_argument for other rights, Errc::not_found if the queue pair was closed.
  Errc set_peer_rights(Access rights) noexcept;

  /// Goes on acknowledging what was received and accepts nothing new, so that the application's
  /// memory and posted receives are not touched any more: for the last moments of a queue pair,
  /// whose peer may not have got the acknowledgement of its last message. Posted receives are
  /// discarded, without completions. Ends with reset().
  /// Errc::not_found if the queue pair was closed.
  Errc stop_receiving() noexcept;

  /// Completes a send request at once, with that status, that the queue pair is not given: for
  /// layers above that have states of their own, such as verbs' SQE. Takes a slot of the send queue
  /// as others do. Does not wait for requests that were posted before. Errc::queue_full;
  /// Errc::unsupported without QpOptions::as_verbs.
  Errc complete_send(std::uint64_t wr_id, SendOpcode opcode, WcStatus status) noexcept;
  /// Completions of this queue pair that nobody has polled vanish, as when it is closed.
  /// Errc::unsupported without QpOptions::as_verbs.
  Errc discard_completions() noexcept;

  /// Moves to ERR: every posted request completes with wr_flush_err.
  Errc to_error() noexcept;
  /// Moves to RESET: drops everything posted, without completions.
  Errc reset() noexcept;
  /// Why the queue pair is in ERR, in words that name the peer and what was tried. Empty if not.
  [[nodiscard]] std::string error_text() const;
  /// Why the queue pair is in ERR; QpErrorCause::none if it is not.
  [[nodiscard]] QpErrorCause error_cause() const noexcept;
  /// Counters since the queue pair was created.
  [[nodiscard]] QpStats stats() const;

  /// Destroys the queue pair; posted requests vanish without completions.
  Errc close() noexcept;

 private:
  friend class Device;
  QueuePair(std::shared_ptr<detail::DeviceCore> core, detail::Lane* lane, Qpn qpn);
  void swap(QueuePair& other) noexcept;

  std::shared_ptr<detail::DeviceCore> core_;
  detail::Lane* lane_ = nullptr;
  Qpn qpn_{};
};

/// What a queue pair is made of.
struct QpOptions {
  const CompletionQueue* send_cq = nullptr;     ///< required
  const CompletionQueue* receive_cq = nullptr;  ///< default: send_cq
  QpCapacity capacity{};                        ///< sizes of its queues
  std::optional<QpAttributes> attributes{};     ///< default: from the device's Config
  std::optional<PdId> pd{};                     ///< default: the device's own
  bool signal_all = false;                      ///< every request completes, flags or not
  /// Where its receives come from; default: a receive queue of its own, of capacity.receive. The
  /// queue pair goes to the lane of this queue, and needs QpAttributes::rc (Errc::unsupported).
  const SharedReceiveQueue* srq = nullptr;
  /// Default: the lane of `srq`, or else the one with the fewest queue pairs.
  /// Errc::invalid_argument if there is no such lane, or `srq` is in another one.
  std::optional<unsigned> lane{};
  /// EV and CC profile from INIT on; they must be ONLINE then. Default: the device's own paths, and
  /// its congestion control. Queue pairs to the same destination share paths and congestion window
  /// if both of their profiles are the same.
  QpProfiles profiles{};
  /// Queues behave as those of verbs:
  /// * A slot of the send queue is free when the completion of its request, or of a later one, was
  ///   polled, and one of a receive queue, also of a shared one, when its own was. So completion
  ///   queues with an entry for each slot are never overrun. By default it is free when the request
  ///   is complete, and a completion queue must be polled in time.
  /// * Requests that are posted in ERR complete with wr_flush_err. By default they are refused.
  /// * With reset() and close() completions that nobody has polled vanish. By default they stay.
  bool as_verbs = false;
};

/// A device: the planes of this host, one or several engines, and progress. Methods may be called
/// from any thread; handles keep the device alive. A helper thread makes progress while the
/// application does not poll (mrc::Config::helper).
///
/// No other thread may use a handle, of the device or of one of its objects, while it is closed,
/// destroyed, moved from or assigned to. Functions that are noexcept, but for destructors, are no
/// cancellation points; a thread must not be cancelled (pthread_cancel()) in another one.
///
/// A device of several lanes (mrc::Config::lanes) has one engine, with ports, lock, helper and QPNs
/// of its own, in each. A queue pair belongs to one lane; protection domains, memory regions and
/// completion queues serve all of them. Threads with completion queues of their own, whose queue
/// pairs are in different lanes, do not share anything on the data path. Polling a queue makes
/// progress in the lanes of its queue pairs only: without helper threads, the others stand still.
///
/// A device belongs to the process that opened it. In a child made by fork() every call on it and
/// on its objects fails: those that throw do so with Errc::forked, those that return an Errc return
/// that, queue pairs are in ERR, and polls bring nothing. What never changes can still be read
/// (key, QPN, configuration, GID). Handles may be destroyed there, which closes the child's copies
/// of the device's descriptors and otherwise leaves the parent's queue pairs, sockets and threads
/// alone; if a thread of the parent was at work in the device at the time of fork(), nothing is
/// freed before the child ends. Until it has destroyed them, or called exec(), it keeps the
/// parent's UDP ports and slots taken. The parent notices nothing. A child may open devices of its
/// own. (A child made by a bare clone() or by _Fork() is not recognised, and must not touch the
/// device at all.)
class MRC_API Device {
 public:
  /// Opens the planes named by the configuration. Throws mrc::Error that names plane and cause.
  explicit Device(const Config& config = Config::from_environment());
  /// Opens planes of another kind than OpenMRC brings (mrc/plane/plane.hpp;
  /// docs/architecture.md says how to add one). Throws mrc::Error.
  Device(const Config& config, std::unique_ptr<detail::PlaneKind> kind);
  /// A copy is a second handle of the same device. Moving copies, so no handle is ever empty.
  Device(const Device&) = default;
  /// As the copy constructor: refers to the same device.
  Device& operator=(const Device&) = default;

  /// The protection domain of objects that name none.
  [[nodiscard]] PdId default_pd() const noexcept;
  /// A new protection domain. Throws mrc::Error at the limit, Config::max_pds.
  PdId alloc_pd();
  /// Errc::in_use while memory regions or queue pairs belong to it.
  Errc dealloc_pd(PdId pd) noexcept;

  /// Registers memory; it must stay valid until the region is closed. Throws mrc::Error, also if it
  /// is not all mapped.
  ///
  /// `access` says what it may be used for. Any region can be sent from. Receives, and the results
  /// of READs and atomics, need local_write. What peers may do takes remote_write, remote_read or
  /// remote_atomic; a request without the right moves both queue pairs to ERR
  /// (QpErrorCause::bad_access here, nak_remote_access there). Atomics are atomic with respect to
  /// each other, of all queue pairs and lanes of this device, and to atomic operations of the
  /// process on the same 8 bytes, which must be aligned.
  ///
  /// The memory must be mapped and readable, writable if `access` lets it be written to, and lie in
  /// front of the end of a file that is mapped there: otherwise Errc::invalid_argument. These
  /// checks read /proc/self/maps, and of a mapped file its last page; without /proc it is only
  /// checked that the memory is mapped.
  ///
  /// Pages are neither touched nor pinned. Whatever the process may not do with the memory when it
  /// is used, because it was unmapped or protected later, or a file behind it was truncated, ends
  /// the process as if the program itself had done it: with SIGSEGV or SIGBUS, in the thread that
  /// makes progress, when a peer's write is placed there or a message from there is sent. (Where no
  /// iCRC is computed over the payload, a socket may refuse to send it instead: the request fails
  /// as if the peer did not answer.) If other memory was mapped there meanwhile, peers write to
  /// that. So close the region first.
  MemoryRegion register_memory(void* address, std::size_t length, Access access,
                               std::optional<PdId> pd = std::nullopt);
  /// Registers the elements of a vector, an array, a span or the like.
  template <class R>
  requires requires(R& elements) { std::span(elements); }
  MemoryRegion register_memory(R&& elements, Access access) {
    const std::span memory(elements);
    return register_memory(memory.data(), memory.size_bytes(), access);
  }
  /// Creates a completion queue whose events go to `channel` if there is one. It holds `depth`
  /// completions of each lane; those of different lanes come in any order.
  /// Throws mrc::Error.
  CompletionQueue create_cq(std::uint32_t depth, const CompletionChannel* channel = nullptr);
  /// Creates a completion channel. Throws mrc::Error.
  CompletionChannel create_channel();
  /// Creates a shared receive queue. Throws mrc::Error that names what is wrong.
  SharedReceiveQueue create_srq(const SrqOptions& options = {});
  /// Creates a queue pair in RESET. Throws mrc::Error that names what is wrong or the limit.
  QueuePair create_qp(const QpOptions& options);
  /// The same for datagrams; it can send to any address that a plane leads to.
  DatagramQueuePair create_datagram_qp(const DatagramOptions& options);
  /// As DatagramQueuePair::prepare(), for the whole device and before there is a queue pair.
  void prepare(const AddressHandle& to, Duration patience = std::chrono::milliseconds(100)) const;

  // Profiles (mrc-1.0 §3.2, §7.5, §7.7; docs/profiles.md). All throw mrc::Error: invalid_argument
  // and invalid_state where the API has EINVAL, in_use for EBUSY, no_resources for E2BIG, not_found
  // for ENOENT, unsupported for EVs that the device's ports can't send.

  /// Changes a format profile: how many bits of an EV are in which packet field.
  void modify_format_profile(ProfileId id, const FormatProfileChange& change);
  /// State INIT if there is none.
  [[nodiscard]] FormatProfileInfo query_format_profile(ProfileId id) const;
  /// Changes an EV profile: which paths queue pairs use. What is changed while it is ONLINE (states
  /// of EVs, other EVs, event mask) holds for all destinations that are reached with it when the
  /// call returns.
  void modify_ev_profile(ProfileId id, const EvProfileChange& change);
  /// With the states of its EVs. State INIT if there is none.
  [[nodiscard]] EvProfileInfo query_ev_profile(ProfileId id) const;
  /// Changes a CC profile.
  void modify_cc_profile(ProfileId id, const CcProfileChange& change);
  /// State INIT if there is none.
  [[nodiscard]] CcProfileInfo query_cc_profile(ProfileId id) const;
  /// How many profiles and EVs there is room for.
  [[nodiscard]] ProfileLimits profile_limits() const;
  /// The EVs of the paths that the planes have opened, in EvMode::udp, for profiles of UDP planes,
  /// which can send no others: those of lane 0. Empty where EVs need not be opened. States and
  /// counts are those towards the peers of queue pairs without EV profile: GOOD, ASSUMED_BAD or
  /// DENIED if it is so towards all, UNKNOWN otherwise.
  [[nodiscard]] std::vector<EvEntry> own_evs() const;
  /// A stream of the EV events from now on, with room for `depth` of them, 1 .. 1,048,576. Throws
  /// mrc::Error.
  [[nodiscard]] EvEventStream create_ev_event_stream(std::uint32_t depth);

  /// One round of progress in each lane: transmit, receive, time. Answers to what it has received
  /// go with the next call, of this or of CompletionQueue::poll(), or when the helper takes over;
  /// without a helper, call until it returns false. Returns true if anything moved or is still to
  /// go out, or if another thread is at it. Applications that poll a completion queue need not call
  /// it.
  bool progress() noexcept;

  /// Replaces the injected faults of all planes (faults/schedule.hpp has the syntax); an empty text
  /// removes them. Throws mrc::Error and changes nothing: invalid_argument naming the token that
  /// can't be read, or the plane or path that the device does not have; unsupported for faults that
  /// a single path can't have, and for `corrupt` where option icrc=auto may leave payload
  /// unchecked.
  void set_faults(std::string_view schedule);

  /// Takes a plane (0 .. plane_count() - 1) out of use, or lets it be used again, in all lanes
  /// (mrc-1.0 §7.4): stats.hpp says what that means. When it returns, nothing more leaves in a
  /// disabled plane. Throws mrc::Error: invalid_argument if there is no such plane.
  void set_plane_enabled(unsigned plane, bool enabled);
  /// Whether a plane is enabled, and up, as the last round of progress has seen it. Throws
  /// mrc::Error: invalid_argument if there is no such plane.
  [[nodiscard]] PlaneState plane_state(unsigned plane) const;

  /// Sends EV probes or port status to any hosts, also ones without a queue pair here, with that
  /// DSCP, 0 .. 63 (default: that of control packets). Blocks until all responses are there, or
  /// `timeout` is over, and returns them in order of arrival. datagram.hpp says who answers, and
  /// what is thrown.
  std::vector<EndpointResponse> request_endpoints(EndpointOperation operation,
                                                  std::span<const EndpointRequest> requests,
                                                  Duration timeout,
                                                  std::optional<unsigned> dscp = std::nullopt);

  /// The receiver's penalty (mrc-1.0 §6.7): asks all senders to this device for smaller congestion
  /// windows, because the host can't keep up. 0 .. 127, in 1/128 of the bytes that arrive: 64 for
  /// one round trip halves a window, 127 leaves about one packet, 0 ends it. With `restore` senders
  /// remember the window that they had before the penalty, and a 0 with `restore` gives it back;
  /// without, they grow from where they are. The device has a penalty of its own while its receive
  /// buffers are nearly full (option cc_receiver_penalty); the greater one counts. In force until
  /// the next call. Throws mrc::Error (invalid_argument) above 127.
  void set_receiver_penalty(unsigned penalty, bool restore = true);

  /// The address by which peers may name this device, as IPv6 or mapped IPv4: that of plane 0, or
  /// after that plane has gone down of the first that is up, as long as it is. The addresses of its
  /// other planes name it, too.
  [[nodiscard]] port::IpAddress gid() const noexcept;

  /// Readable while there are events; for poll(), not for reading.
  [[nodiscard]] int event_fd() const noexcept;
  /// Takes the oldest event: queue pairs that failed, completion queues that overran, planes that
  /// went or came, shared receive queues below their limit, queue pairs that take no more from one.
  /// False if there is none. Events that nobody takes are dropped when there are many
  /// (DeviceStats::events_dropped).
  bool poll_event(DeviceEvent& event) noexcept;

  /// The configuration in force: as given, with what the fabric description adds.
  [[nodiscard]] const Config& config() const noexcept;
  /// The attributes of queue pairs that are created without QpOptions::attributes: those of the
  /// configuration, with the MTU that the ports carry. For programs that want to change some.
  [[nodiscard]] QpAttributes default_attributes() const noexcept;
  /// Number of lanes: those asked for by option lanes, or fewer if there was not room for them.
  [[nodiscard]] unsigned lane_count() const noexcept;
  /// Number of planes, 1 .. 32.
  [[nodiscard]] unsigned plane_count() const noexcept;
  /// Address and UDP port of each plane, as text; the ports are those of lane 0.
  [[nodiscard]] std::vector<std::string> plane_names() const;
  /// A copy of all counters.
  [[nodiscard]] DeviceStats stats() const;
  /// Health and counters of the paths towards the peer of a queue pair; none if it is not connected
  /// or not of this device.
  [[nodiscard]] std::vector<PathReport> paths(const QueuePair& qp) const;
  /// The same of a peer, by its lane and number (DeviceStats::connected); none if there is no such
  /// peer.
  [[nodiscard]] std::vector<PathReport> paths(unsigned lane, std::uint32_t peer) const;
  /// What each queue pair does, and what it waits for; without those for datagrams. A lane's lock
  /// is taken once for each.
  [[nodiscard]] std::vector<QpReport> queue_pairs() const;

 private:
  [[nodiscard]] std::optional<SrqId> use(const SharedReceiveQueue* srq,
                                         std::optional<unsigned>& lane, const char* option) const;

  std::shared_ptr<detail::DeviceCore> core_;
};

}  // namespace mrc::inline v0_1
