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
class PlaneKind;
struct ChannelEvents;
}  // namespace detail

/// What a shared receive queue is made of.
struct SrqOptions {
  std::uint32_t depth = 128;  ///< receive requests, 1 .. 32,768
  std::uint32_t sges = 1;     ///< SGEs per request, 1 .. 64
  std::optional<PdId> pd{};   ///< of the memory of its requests; default: the device's own
  /// Default: the one with the fewest queue pairs. Errc::invalid_argument if there is no such one.
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
/// DatagramOptions::srq). Each takes the oldest when a message that needs it begins to arrive; the
/// completion goes to its own completion queue. Like its queue pairs it belongs to one lane for
/// life. Move-only. Any thread, but for what ends the handle: see Device.
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

  /// Posts a receive request for whichever queue pair needs one first. Errc::queue_full if
  /// SrqOptions::depth of them wait, else as QueuePair::post_receive(). Never blocks or throws.
  Errc post_receive(const ReceiveRequest& request) noexcept;
  /// Posts several. Stops at the first that fails; `posted` counts the others.
  Errc post_receives(std::span<const ReceiveRequest> requests, std::size_t& posted) noexcept;
  /// The device raises DeviceEvent::Kind::srq_limit as soon as fewer than `limit` receives are
  /// left, now or later, once for each call; 0: never. Errc::invalid_argument above the depth.
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

/// A registered range of memory. Move-only. The destructor deregisters it, and moves queue pairs
/// that still have requests on it to ERR: the memory is never touched again.
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
  /// Byte `offset` of the region, for what a peer writes, reads or changes by atomics as far as the
  /// region's rights allow it.
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

/// Gives the events of all completion queues that were created with it. Copies refer to the same
/// channel. Any thread.
class MRC_API CompletionChannel {
 public:
  CompletionChannel() = default;
  /// Readable while there are events; for poll(), not for reading.
  [[nodiscard]] int fd() const noexcept;
  /// Takes the oldest event, if there is one: which armed queue has got a completion. Each must be
  /// acknowledged (CompletionQueue::acknowledge()).
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

/// A completion queue. Move-only. Any thread, but for what ends the handle: see Device. Polling
/// from the thread that posts is the fast way.
class MRC_API CompletionQueue {
 public:
  CompletionQueue() = default;
  /// Takes the queue over; `other` is empty afterwards.
  CompletionQueue(CompletionQueue&& other) noexcept { swap(other); }
  /// Takes `other` over; the former queue is destroyed.
  CompletionQueue& operator=(CompletionQueue&& other) noexcept;
  ~CompletionQueue();

  /// Takes completions, and returns how many; if there are none yet, after one round of progress in
  /// the lanes whose queue pairs use this queue.
  std::size_t poll(std::span<Completion> out) noexcept;
  /// The same until there is one or the time is over; spins for a short while, then sleeps.
  std::size_t wait(std::span<Completion> out, Duration timeout);
  /// Asks for one event at the next completion, or solicited completion: on the queue's channel if
  /// it has one, else on fd(). Poll once more after arming: what was there raises no event.
  Errc arm(Arm what = Arm::all) noexcept;
  /// An eventfd that becomes readable when an armed queue gets a completion; read 8 bytes to clear.
  [[nodiscard]] int fd() const noexcept;
  /// So many events that the channel has given for this queue are dealt with. The queue can't be
  /// closed before.
  void acknowledge(unsigned events = 1) noexcept;
  /// Names the queue in events.
  [[nodiscard]] CqId id() const noexcept { return id_; }
  /// A completion has found the queue full in a lane, whose queue pairs of it are in ERR then.
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

/// A queue pair. Move-only. Any thread, but for what ends the handle: see Device.
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
  /// From RESET through INIT and RTR to RTS. Throws mrc::Error that names what does not fit. Both
  /// sides must call it before the first message can arrive in full; packets that come too early
  /// are lost and sent again.
  void connect(const ConnectionInfo& peer);
  /// One step to another state, with its attributes. Throws mrc::Error that names what does not
  /// fit, and changes nothing then. With QpChange::destination the queue pair is in RTR at once,
  /// and what is sent or received waits until the peer's device has answered; if it can't be found,
  /// the queue pair moves to ERR (QpErrorCause::unresolved). QpChange::connection may wait some
  /// milliseconds for next hops, in this call only.
  void modify(const QpChange& change);
  /// What is known of it. Throws mrc::Error if it was closed.
  [[nodiscard]] QpInfo query() const;

  /// Posts one request and starts sending it. Never blocks or throws.
  ///
  /// Requests complete in the order of posting: writes and SENDs when the peer has all their bytes,
  /// READs and atomics when the response is in their SGEs (docs/api.md: what is executed in which
  /// order). If it fails, nothing is posted:
  /// * invalid_state unless in RTS, and queue_full while as many requests as the send queue holds
  ///   are not complete (both: see QpOptions::as_verbs);
  /// * invalid_argument against the rules, too_many_sges and too_long above the limits of
  /// QpCapacity
  ///   or kMaxMessage;
  /// * invalid_lkey, access_denied, wrong_pd for SGEs (of READs and atomics: local_write is
  /// needed);
  /// * unsupported for atomics without room for them (QpCapacity::atomics), for SENDs, READs and
  ///   atomics that this side or the peer does not offer, and for READs and atomics where
  ///   QpAttributes::max_rd_atomic, or max_rd_atomic_dest of the peer, is 0. While the device still
  ///   looks for the peer they are accepted; if it does not offer them, the queue pair moves to ERR
  ///   (QpErrorCause::unsupported).
  Errc post_send(const SendRequest& request) noexcept;
  /// Posts several with one doorbell. Stops at the first that fails; `posted` counts the others.
  Errc post_sends(std::span<const SendRequest> requests, std::size_t& posted) noexcept;
  /// Posts a receive request, which one SEND (to its SGEs, in their order) or write with immediate
  /// of the peer consumes. A message without a receive waits for one, and with it those behind that
  /// need one; of a peer that is no OpenMRC device it moves the queue pair to ERR
  /// (QpErrorCause::no_receive). Not for queue pairs with a shared receive queue.
  Errc post_receive(const ReceiveRequest& request) noexcept;
  /// Posts a receive request without memory.
  Errc post_receive(std::uint64_t wr_id) noexcept {
    return post_receive(ReceiveRequest{wr_id, {}});
  }

  /// Says what traffic is to come. With NSCC the congestion window towards the destination starts
  /// at a share: the largest window (1.5 bandwidth-delay products) divided by QpHint::peers, at
  /// least four packets and ExpertConfig::sack_threshold. Then it follows the network: a wrong hint
  /// costs a few round trips. All queue pairs of a lane to one destination share a window, so the
  /// share is smaller by the number of lanes that QpHint::flows_per_peer queue pairs can be in.
  ///
  /// Counts until the first packet leaves for the destination; the newest of several hints counts.
  /// Without effect with other algorithms. Kept by reset(). Errc::not_found if the queue pair was
  /// closed.
  Errc set_hint(const QpHint& hint) noexcept;

  /// What the peer may do through this queue pair, if the memory region allows it, too: any of
  /// Access::remote_write, remote_read and remote_atomic (default: all). A request without the
  /// right moves both queue pairs to ERR (QpErrorCause::bad_access). At any time; kept by reset().
  /// Errc::invalid_argument for other rights, Errc::not_found if the queue pair was closed.
  Errc set_peer_rights(Access rights) noexcept;

  /// Goes on acknowledging what was received, since the peer may not have got the acknowledgement
  /// of its last message, and accepts nothing new: memory and posted receives are not touched any
  /// more. Posted receives are discarded, without completions. Ends with reset(). Errc::not_found
  /// if the queue pair was closed.
  Errc stop_receiving() noexcept;

  /// Completes a send request that the queue pair is not given at once, with that status: for
  /// layers above with states of their own, such as verbs' SQE. Takes a slot of the send queue.
  /// Does not wait for requests posted before. Errc::queue_full; unsupported without
  /// QpOptions::as_verbs.
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
  /// EV and CC profile from INIT on; they must be ONLINE then. Default: the device's own paths and
  /// congestion control. Queue pairs to one destination with the same profiles share both.
  QpProfiles profiles{};
  /// Queues behave as those of verbs (in brackets: by default).
  /// * A slot of the send queue is free when the completion of its request, or of a later one, was
  ///   polled, one of a receive queue, also of a shared one, when its own was: completion queues
  ///   with an entry for each slot are never overrun. (When the request is complete.)
  /// * Requests that are posted in ERR complete with wr_flush_err. (They are refused.)
  /// * Completions that nobody has polled vanish with reset() and close(). (They stay.)
  bool as_verbs = false;
};

/// A device: the planes of this host, one or several engines, and progress. Any thread; handles
/// keep the device alive. A helper thread makes progress while the application does not poll
/// (mrc::Config::helper).
///
/// No other thread may use a handle, of the device or of one of its objects, while it is closed,
/// destroyed, moved from or assigned to. Functions that are noexcept, but for destructors, are no
/// cancellation points; a thread must not be cancelled (pthread_cancel()) in another one.
///
/// A device of several lanes (mrc::Config::lanes) has one engine, with ports, lock, helper and QPNs
/// of its own, in each. A queue pair belongs to one lane; protection domains, memory regions and
/// completion queues serve all. Threads whose completion queues and queue pairs are in different
/// lanes share nothing on the data path. Polling a queue makes progress in the lanes of its queue
/// pairs only: without helper threads, the others stand still.
///
/// A device belongs to the process that opened it. In a child made by fork() every call on it and
/// its objects fails: with Errc::forked, thrown or returned; queue pairs are in ERR, polls bring
/// nothing. What never changes can still be read (key, QPN, configuration, GID). Handles may be
/// destroyed there: that closes the child's copies of the descriptors and leaves the parent's queue
/// pairs, sockets and threads alone; if a thread of the parent was at work in the device at the
/// time of fork(), nothing is freed before the child ends. Until then, or exec(), the child keeps
/// the parent's UDP ports and slots taken. A child may open devices of its own. (One made by a bare
/// clone() or _Fork() is not recognised, and must not touch the device at all.)
class MRC_API Device {
 public:
  /// Opens the planes named by the configuration. Throws mrc::Error that names plane and cause.
  explicit Device(const Config& config = Config::from_environment());
  /// Opens planes of a kind of the program's own (mrc/plane/plane.hpp, docs/architecture.md).
  /// Throws mrc::Error.
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

  /// Registers memory; it must stay valid until the region is closed. Throws mrc::Error.
  ///
  /// `access` says what it may be used for. Any region can be sent from. Receives, and the results
  /// of READs and atomics, need local_write. What peers may do takes remote_write, remote_read or
  /// remote_atomic; a request without the right moves both queue pairs to ERR
  /// (QpErrorCause::bad_access here, nak_remote_access there). Atomics are atomic with respect to
  /// each other, of all queue pairs and lanes of this device, and to atomic operations of the
  /// process on the same 8 bytes, which must be aligned.
  ///
  /// Errc::invalid_argument unless all of the memory is mapped and readable, writable if `access`
  /// lets it be written to, and in front of the end of a file that is mapped there. The check reads
  /// /proc/self/maps, and of a mapped file its last page; without /proc it only finds what is not
  /// mapped.
  ///
  /// Pages are neither touched nor pinned. If the process may not use the memory any more when a
  /// peer's write is placed there or a message from there is sent (it was unmapped or protected, or
  /// a file behind it truncated), SIGSEGV or SIGBUS in the thread that makes progress ends it.
  /// (Where no iCRC is computed over the payload, a socket may refuse to send it: the request fails
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
  /// completions of each lane; those of different lanes come in any order. Throws mrc::Error.
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
  /// Changes an EV profile: which paths queue pairs use. What changes while it is ONLINE (EVs,
  /// their states, event mask) holds for all destinations reached with it when the call returns.
  void modify_ev_profile(ProfileId id, const EvProfileChange& change);
  /// With the states of its EVs. State INIT if there is none.
  [[nodiscard]] EvProfileInfo query_ev_profile(ProfileId id) const;
  /// Changes a CC profile.
  void modify_cc_profile(ProfileId id, const CcProfileChange& change);
  /// State INIT if there is none.
  [[nodiscard]] CcProfileInfo query_cc_profile(ProfileId id) const;
  /// How many profiles and EVs there is room for.
  [[nodiscard]] ProfileLimits profile_limits() const;
  /// The EVs of the paths that the planes of lane 0 have opened, in EvMode::udp: UDP planes can
  /// send no others. Empty where EVs need not be opened. States and counts are those towards the
  /// peers of queue pairs without EV profile: GOOD, ASSUMED_BAD or DENIED if so towards all, else
  /// UNKNOWN.
  [[nodiscard]] std::vector<EvEntry> own_evs() const;
  /// A stream of the EV events from now on, with room for `depth` of them, 1 .. 1,048,576. Throws
  /// mrc::Error.
  [[nodiscard]] EvEventStream create_ev_event_stream(std::uint32_t depth);

  /// One round of progress in each lane: transmit, receive, time. Who polls a completion queue need
  /// not call it. True if anything moved or is still to go out, or another thread is at it. Answers
  /// to what it has received go with the next call, of this or of CompletionQueue::poll(), or when
  /// the helper takes over; without a helper, call until it returns false.
  bool progress() noexcept;

  /// Replaces the injected faults of all planes (faults/schedule.hpp has the syntax; empty: none).
  /// Throws mrc::Error and changes nothing: invalid_argument naming the token that can't be read,
  /// or the plane or path that there is not; unsupported for faults that a single path can't have,
  /// and for `corrupt` where option icrc=auto may leave payload unchecked.
  void set_faults(std::string_view schedule);

  /// Takes a plane (0 .. plane_count() - 1) out of use, or lets it be used again, in all lanes
  /// (mrc-1.0 §7.4): stats.hpp says what that means. When it returns, nothing more leaves in a
  /// disabled plane. Throws mrc::Error: invalid_argument if there is no such plane.
  void set_plane_enabled(unsigned plane, bool enabled);
  /// Whether a plane is enabled, and up, as the last round of progress has seen it. Throws
  /// mrc::Error: invalid_argument if there is no such plane.
  [[nodiscard]] PlaneState plane_state(unsigned plane) const;

  /// Sends EV probes or port status to any hosts, with that DSCP, 0 .. 63 (default: that of control
  /// packets). Blocks until all responses are there, or `timeout` is over, and returns them in
  /// order of arrival. datagram.hpp says who answers, and what is thrown.
  std::vector<EndpointResponse> request_endpoints(EndpointOperation operation,
                                                  std::span<const EndpointRequest> requests,
                                                  Duration timeout,
                                                  std::optional<unsigned> dscp = std::nullopt);

  /// The receiver's penalty (mrc-1.0 §6.7): asks all senders to this device for smaller congestion
  /// windows, because the host can't keep up. 0 .. 127, in 1/128 of the bytes that arrive: 64 for
  /// one round trip halves a window, 127 leaves about one packet, 0 ends it. With `restore` a later
  /// 0 with `restore` gives back the windows from before; without, they grow from where they are.
  /// The greater one counts of this and the device's own while its receive buffers are nearly full
  /// (option cc_receiver_penalty). Until the next call. Throws mrc::Error (invalid_argument) above
  /// 127.
  void set_receiver_penalty(unsigned penalty, bool restore = true);

  /// The address by which peers may name this device, as IPv6 or mapped IPv4: that of plane 0, or
  /// once that is down of the first that is up, as long as it is. Those of other planes do, too.
  [[nodiscard]] port::IpAddress gid() const noexcept;

  /// Readable while there are events; for poll(), not for reading.
  [[nodiscard]] int event_fd() const noexcept;
  /// Takes the oldest event (DeviceEvent::Kind). False if there is none. Events that nobody takes
  /// are dropped when there are many (DeviceStats::events_dropped).
  bool poll_event(DeviceEvent& event) noexcept;

  /// The configuration in force: as given, with what the fabric description adds.
  [[nodiscard]] const Config& config() const noexcept;
  /// Those of queue pairs created without QpOptions::attributes: the configuration's, with the MTU
  /// that the ports carry. For programs that want to change some.
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
  /// The same of a peer, by its lane and number (DeviceStats::connected); none if there is none.
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
