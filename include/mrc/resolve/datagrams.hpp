// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/datagram.hpp"
#include "mrc/engine/context.hpp"
#include "mrc/engine/queues.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/path/path_entry.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::engine {

/// Where datagrams go, as a queue pair names it (add_destination()).
enum class DestinationId : std::uint32_t {};

/// A posted datagram.
struct DatagramWqe {
  /// How far it has come.
  enum class Progress : std::uint8_t {
    posted,  ///< waits for a port with room
    given,   ///< in the newest burst; ports may still hand it back
    gone,    ///< sent, or lost before it was
  };
  std::uint64_t wr_id = 0;               ///< returned in the completion
  std::uint32_t length = 0;              ///< of the payload, bytes
  std::uint32_t immediate = 0;           ///< used only `with_immediate`
  std::uint32_t q_key = 0;               ///< sent
  Qpn remote{};                          ///< destination queue pair
  DestinationId to{};                    ///< its device
  std::uint32_t path = 0;                ///< chooses the path
  std::uint16_t copies = 0;              ///< copies of its payload that ports still read
  std::uint8_t sges = 0;                 ///< number of local SGEs; 0 if inlined
  std::uint8_t traffic_class = 0;        ///< DSCP and ECN
  Progress progress = Progress::posted;  ///< how far it has come
  bool with_immediate : 1 = false;       ///< has an ImmDt
  bool signaled : 1 = false;             ///< produces a completion on success
  bool solicited : 1 = false;            ///< the peer's completion is solicited
  bool inlined : 1 = false;              ///< its data is in the queue, not in the user's memory
};

/// The send queue of a datagram queue pair. Positions are counters that only grow, modulo 2^32:
/// retired <= sending <= posted. Entries behind sending() are posted; those in front of it were
/// given to ports, except those that came back, to which sending() then returns. Nothing allocates
/// after the constructor. One thread.
class DatagramQueue {
 public:
  /// Room for `capacity` entries with up to `sges` SGEs or `inline_bytes` bytes each.
  /// `keep_slots`: see PolledSlots. Throws std::bad_alloc.
  DatagramQueue(std::uint32_t capacity, std::uint32_t sges, std::uint32_t inline_bytes,
                bool keep_slots = false)
      : capacity_(capacity),
        sge_room_(sges),
        inline_room_(inline_bytes),
        entries_(std::bit_ceil(capacity)),
        sges_(entries_.size() * sges),
        inline_(entries_.size() * inline_bytes),
        slots_(keep_slots) {}

  /// Position behind the newest entry.
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  /// Position from which on entries may have to be sent.
  [[nodiscard]] std::uint32_t sending() const noexcept { return sending_; }
  /// Position of the oldest entry; posted() if there is none.
  [[nodiscard]] std::uint32_t retired() const noexcept { return retired_; }
  /// As in SendQueue.
  [[nodiscard]] std::uint32_t taken() const noexcept { return slots_.taken(posted_, retired_); }
  /// True if post() has no room.
  [[nodiscard]] bool full() const noexcept { return taken() >= capacity_; }
  /// Some entry may have to be sent.
  [[nodiscard]] bool backlog() const noexcept { return sending_ != posted_; }
  /// Is there an entry at that position?
  [[nodiscard]] bool contains(std::uint32_t position) const noexcept {
    return position - retired_ < posted_ - retired_;
  }

  /// An entry, by its position; needs contains().
  [[nodiscard]] DatagramWqe& at(std::uint32_t position) noexcept {
    return entries_[slot(position)];
  }
  /// Room for the SGEs of an entry.
  [[nodiscard]] std::span<LocalSge> sges(std::uint32_t position) noexcept {
    return {sges_.data() + slot(position) * sge_room_, sge_room_};
  }
  /// Room for the inline data of an entry.
  [[nodiscard]] MutableBytes inline_data(std::uint32_t position) noexcept {
    return {inline_.data() + slot(position) * inline_room_, inline_room_};
  }

  /// Appends an entry for the caller to fill; needs !full().
  [[nodiscard]] DatagramWqe& post() noexcept { return at(posted_++) = {}; }
  /// The entry at sending() needs no more: moves on.
  void skip() noexcept { ++sending_; }
  /// A port handed back the entry at that position.
  void return_to(std::uint32_t position) noexcept {
    if (static_cast<std::int32_t>(position - sending_) < 0) sending_ = position;
  }
  /// Removes the oldest entry.
  void retire() noexcept {
    if (retired_++ == sending_) ++sending_;
  }
  /// As SendQueue::make().
  void make() noexcept { slots_.make(); }
  /// As SendQueue::on_polled().
  void on_polled(const Completion& c) noexcept { slots_.on_polled(c, retired_); }
  /// All entries were retired: frees their slots.
  void free_slots() noexcept { slots_.free_all(posted_); }

 private:
  [[nodiscard]] std::size_t slot(std::uint32_t position) const noexcept {
    return position & (entries_.size() - 1);
  }

  std::uint32_t capacity_, sge_room_, inline_room_;
  std::vector<DatagramWqe> entries_;
  std::vector<LocalSge> sges_;        ///< sge_room_ of each entry
  std::vector<std::uint8_t> inline_;  ///< inline_room_ of each entry
  std::uint32_t posted_ = 0, sending_ = 0, retired_ = 0;
  PolledSlots slots_;
};

namespace intrusive = boost::intrusive;

/// What a datagram queue pair is created with.
struct DatagramInit {
  PdId pd{};                 ///< protection domain of all memory it uses
  CqId send_cq{};            ///< for completions of sent datagrams
  CqId receive_cq{};         ///< for completions of receives
  QpCapacity capacity{};     ///< sizes of its queues
  std::uint32_t mtu = 4096;  ///< largest payload: 256, 512, 1024, 2048 or 4096 bytes
  bool signal_all = false;   ///< every datagram is signaled, whatever its flags
  /// Where its receives come from, in place of a queue of its own: capacity.receive and
  /// capacity.receive_sges do not count then.
  std::optional<SrqId> srq{};
  /// Its queues are as in verbs (QpOptions::as_verbs).
  bool as_verbs = false;
};

/// A device that datagrams are sent to, for Engine::add_destination().
struct DestinationSpec {
  PeerId peer{};  ///< under which the ports know how it is reached; not one of Engine::add_peer()
  /// Paths to it. Those of the first one's plane are used, while that is up; then those of the next
  /// plane in the list, and so on.
  std::vector<path::PathSpec> paths;
};

/// A queue pair for unreliable datagrams. It has no connection, no peer, no window and no timer.
struct DatagramState {
  /// Throws std::bad_alloc.
  DatagramState(Qpn number, const DatagramInit& how)
      : qpn(number),
        init(how),
        queue(how.capacity.send, how.capacity.send_sges, how.capacity.inline_bytes, how.as_verbs),
        receives(how.capacity.receive, how.capacity.receive_sges) {}

  /// Link in a list; unlinks itself.
  using Hook = intrusive::list_member_hook<intrusive::link_mode<intrusive::auto_unlink>>;

  const Qpn qpn;                            ///< its number
  const DatagramInit init;                  ///< as created
  QpState state = QpState::reset;           ///< present state
  QpErrorCause cause = QpErrorCause::none;  ///< why it is in ERR
  std::uint32_t q_key = 0;                  ///< that datagrams to it must carry
  /// PSN of the datagram at position 0 of `queue`: PSNs name entries that a port hands back.
  Psn first_psn;
  DatagramQueue queue;           ///< posted datagrams
  ReceiveQueue receives;         ///< posted receives; none with a shared receive queue
  std::uint32_t given_from = 0;  ///< position of the first entry that the newest burst has,
  std::uint32_t given_to = 0;    ///< and behind the last one
  bool error_reported = false;   ///< its qp_error event waits to be polled
  DatagramStats stats;           ///< counters
  Hook ready_hook;               ///< has datagrams to send (DatagramTables)
  Hook given_hook;               ///< has some in the newest burst
};

/// A device that datagrams are sent to.
struct Destination {
  /// Its paths that begin in one plane.
  struct Way {
    Plane plane = 0;          ///< NIC port
    std::uint32_t first = 0;  ///< index in DestinationSpec::paths
    std::uint32_t count = 0;  ///< number of paths, at least 1
  };
  DestinationSpec spec;    ///< as added, sorted by way
  std::vector<Way> ways;   ///< in the order in which they are tried
  std::uint32_t uses = 0;  ///< datagrams in send queues
};

/// Datagram queue pairs, whose numbers are of the same space as those of other queue pairs, and the
/// devices that they send to. It only stores and finds them. One thread.
class DatagramTables {
 public:
  /// `numbers`: where the queue pairs' numbers come from; must outlive the tables.
  explicit DatagramTables(ObjectTables& numbers) : numbers_(numbers) {}

  /// A new queue pair, or Errc::no_resources. Throws std::bad_alloc.
  Result<Qpn> add_qp(const DatagramInit& init);
  /// Destroys a queue pair, which must exist.
  void remove_qp(Qpn qpn) noexcept;
  /// Null when there is no such datagram queue pair.
  [[nodiscard]] DatagramState* qp(Qpn qpn) noexcept {
    const std::uint32_t place = numbers_.place_of(qpn);
    DatagramState* qp = place < qps_.size() ? qps_[place].get() : nullptr;
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  /// The same, read-only.
  [[nodiscard]] const DatagramState* qp(Qpn qpn) const noexcept {
    return const_cast<DatagramTables*>(this)->qp(qpn);
  }
  /// Calls fn(DatagramState&) for each.
  template <class F>
  void for_each_qp(F&& fn) {
    if (count_ == 0) return;
    for (auto& qp : qps_)
      if (qp) fn(*qp);
  }
  /// Number of queue pairs.
  [[nodiscard]] std::uint32_t qp_count() const noexcept { return count_; }

  /// A new destination; needs at least one path. Throws std::bad_alloc.
  DestinationId add_destination(const DestinationSpec& spec);
  /// It has these paths from now on. Throws std::bad_alloc.
  void set_paths(DestinationId id, std::span<const path::PathSpec> paths);
  /// The way that begins in that plane is tried first; nothing if there is none.
  void prefer_plane(DestinationId id, Plane plane) noexcept;
  /// Errc::in_use while datagrams to it are posted.
  Errc remove_destination(DestinationId id) noexcept;
  /// Null when there is no such destination.
  [[nodiscard]] Destination* destination(DestinationId id) noexcept {
    const auto i = static_cast<std::uint32_t>(id);
    return i < destinations_.size() ? destinations_[i].get() : nullptr;
  }

 private:
  ObjectTables& numbers_;
  std::vector<std::unique_ptr<DatagramState>> qps_;  ///< by ObjectTables::place_of()
  std::uint32_t count_ = 0;
  std::vector<std::unique_ptr<Destination>> destinations_;  ///< by DestinationId
};

/// Unreliable datagrams, in and out (RoCEv2's UD, beside MRC): one packet for each message, no
/// acknowledgement, no window, nothing but a port's room to pace them. Nothing that arrives changes
/// the state of a connection, and nothing is allocated for it.
///
/// A datagram's request is complete when a port has taken it and no longer reads its payload. Which
/// packets a port has not taken, on_untransmitted() says before the next burst is filled; settle()
/// takes the others as sent. Datagrams that are handed back go out later, possibly behind newer
/// ones: UD promises no order.
class MRC_LOCAL DatagramService final : public EngineService {
 public:
  /// Both must outlive this object.
  DatagramService(Context& context, Teardown& teardown) : ctx_(context), teardown_(teardown) {}
  /// Discards everything posted, without completions.
  ~DatagramService() override;
  DatagramService(const DatagramService&) = delete;
  DatagramService& operator=(const DatagramService&) = delete;

  /// Queue pairs, and where they send to.
  [[nodiscard]] DatagramTables& tables() noexcept { return tables_; }

  /// Posts a datagram to a device; needs RTS. Nothing is posted when it fails.
  Errc post(DatagramState& qp, const DatagramRequest& request, DestinationId to) noexcept;
  /// Posts a receive request; needs INIT, RTR or RTS.
  Errc post_receive(DatagramState& qp, const ReceiveRequest& request) noexcept;

  /// Moves a queue pair to ERR: everything posted is flushed. Does nothing in ERR.
  void fail(DatagramState& qp, QpErrorCause cause) noexcept;
  /// Discards everything posted, without completions.
  void clear(DatagramState& qp) noexcept;

  void on_datagram(const wire::RxPacket& packet) noexcept override;
  void on_untransmitted(std::span<const wire::TxPacket> packets) noexcept override;
  void on_released(const CopyTable::Request& request) noexcept override;
  void wake() noexcept override { ready_.splice(ready_.end(), blocked_); }
  void settle() noexcept override;
  [[nodiscard]] Turn serve(PlaneMask free_planes, wire::TxBurst& burst) noexcept override;
  [[nodiscard]] bool waiting() const noexcept override { return !ready_.empty(); }
  [[nodiscard]] bool has_output() const noexcept override { return waiting() || !given_.empty(); }
  [[nodiscard]] std::uint32_t qp_count() const noexcept override { return tables_.qp_count(); }
  [[nodiscard]] bool uses_pd(PdId pd) noexcept override;
  void on_polled(const Completion& c) noexcept override;
  Errc complete_send(const Completion& c) noexcept override;
  QpErrorCause on_error_told(Qpn qpn) noexcept override;
  void withdraw(std::uint32_t key) noexcept override;
  void fail_overrun_queues() noexcept override;

 private:
  template <DatagramState::Hook DatagramState::*hook>
  using List = intrusive::list<DatagramState,
                               intrusive::member_hook<DatagramState, DatagramState::Hook, hook>,
                               intrusive::constant_time_size<false>>;

  [[nodiscard]] Errc check(const DatagramState& qp, const DatagramRequest& request,
                           std::uint32_t& length) noexcept;
  [[nodiscard]] std::uint8_t marking(std::uint8_t traffic_class) const noexcept;
  [[nodiscard]] bool send(DatagramState& qp, std::uint32_t position, PlaneMask free_planes,
                          wire::TxBurst& burst) noexcept;
  void emit(DatagramState& qp, std::uint32_t position, PeerId peer, const path::PathSpec& path,
            wire::TxBurst& burst) noexcept;
  void add_payload(DatagramState& qp, std::uint32_t position, wire::TxBurst& burst) noexcept;
  void note_given(DatagramState& qp, std::uint32_t position) noexcept;
  void retire(DatagramState& qp) noexcept;
  void release_memory(DatagramState& qp, std::uint32_t position) noexcept;
  bool complete_receive(DatagramState& qp, ReceiveQueue& receives, const Completion& c) noexcept;
  Errc flush_posted(DatagramState& qp, const DatagramRequest& request, DestinationId to) noexcept;

  Context& ctx_;
  Teardown& teardown_;
  DatagramTables tables_{ctx_.objects};
  List<&DatagramState::ready_hook> ready_;    ///< with datagrams to send, in service order
  List<&DatagramState::ready_hook> blocked_;  ///< the oldest one finds no room, until wake()
  List<&DatagramState::given_hook> given_;    ///< with datagrams in the newest burst
};

class Engine;

// What an engine with datagrams can do, of whose kind one thread at a time uses it.

/// Creates a datagram queue pair in RESET; its number is of the same space as those of others.
/// Errc::invalid_argument if a value is out of its documented range, Errc::not_found if there is
/// no such shared receive queue.
Result<Qpn> create_datagram_qp(Engine& engine, const DatagramInit& init);
/// In any state. What is posted is discarded without completions.
Errc destroy_datagram_qp(Engine& engine, Qpn qpn) noexcept;
/// One step to another state. Errc::invalid_state if the present one does not allow it,
/// Errc::invalid_argument if an attribute belongs to another step.
Errc modify_datagram_qp(Engine& engine, Qpn qpn, const DatagramChange& change) noexcept;
/// Adds a device that datagrams can be sent to. Errc::invalid_argument if it has no paths. Throws
/// std::bad_alloc.
Result<DestinationId> add_destination(Engine& engine, const DestinationSpec& spec);
/// It has these paths from now on; while there are none, datagrams to it are lost. May throw
/// std::bad_alloc.
void set_destination_paths(Engine& engine, DestinationId id, std::span<const path::PathSpec> paths);
/// Its paths that begin in that plane are tried first.
void prefer_plane(Engine& engine, DestinationId id, Plane plane) noexcept;
/// Errc::in_use while datagrams to it are posted.
Errc remove_destination(Engine& engine, DestinationId id) noexcept;
/// Posts a datagram to a device; needs RTS. Nothing is posted when it fails. The GID in
/// request.to is the caller's: it has found `to` by it.
Errc post_datagram(Engine& engine, Qpn qpn, const DatagramRequest& request,
                   DestinationId to) noexcept;
/// Posts a receive request of a datagram queue pair; needs INIT, RTR or RTS. A datagram needs
/// kGrhBytes more memory than it has payload; one that finds less moves the queue pair to ERR.
/// Errc::unsupported if its receives come from a shared queue.
Errc post_datagram_receive(Engine& engine, Qpn qpn, const ReceiveRequest& request) noexcept;
/// A datagram queue pair; null if there is none with this number.
[[nodiscard]] const DatagramState* find_datagram_qp(const Engine& engine, Qpn qpn) noexcept;

}  // namespace mrc::inline v0_1::engine
