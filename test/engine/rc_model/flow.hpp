// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/rc_model/model.hpp"
#include "support/engine_pair.hpp"

namespace mrc::test::rc {

/// What requests name beside the buffers of their flow, on the side of the responder.
struct Shore {
  CqId send_cq{}, receive_cq{};
  alignas(8) std::uint64_t counter = 0;  ///< atomics of all flows to this side count here
  std::uint32_t counter_key = 0;
  std::set<std::uint64_t> counted;  ///< what they have found there
  Buffer locked;                    ///< memory of which a right, or the domain, is wrong
  std::uint32_t no_write = 0, no_read = 0, no_atomic = 0, other_domain = 0;  ///< its keys
};

/// Receives that all queue pairs of a side share. A slot is posted again once it was used.
struct SharedReceives {
  SrqId srq{};
  std::vector<std::vector<Slice>> slots;
  Buffer inbox;
  std::uint32_t key = 0;
  std::vector<bool> posted;
};

/// What a completion is about, in its wr_id.
struct WrId {
  bool receive = false, shared = false;
  std::uint32_t connection = 0, index = 0;

  [[nodiscard]] static WrId of(std::uint64_t id) {
    return {(id >> 63) != 0, (id >> 62 & 1) != 0, static_cast<std::uint32_t>(id >> 32 & 0xFFFF),
            static_cast<std::uint32_t>(id)};
  }
  [[nodiscard]] std::uint64_t id() const {
    return std::uint64_t{receive} << 63 | std::uint64_t{shared} << 62 |
           std::uint64_t{connection} << 32 | index;
  }
};

/// Two engines run one flow of a program: posts its requests and receives, and compares what comes
/// of them with the model. Throws Mismatch.
class FlowRun {
 public:
  /// The ends of its connection, by side.
  struct Ends {
    std::array<Qpn, 2> qpn;
    std::array<Shore*, 2> shore;
    std::array<bool, 2> signal_all;
    unsigned reads_in_flight;  ///< READs and atomics, most
  };

  FlowRun(EnginePair& pair, const Flow& flow, unsigned side, std::uint32_t connection,
          const Ends& ends, std::uint64_t seed)
      : pair_(pair),
        flow_(flow),
        side_(side),
        connection_(connection),
        ends_(ends),
        expected_(execute(flow)),
        memory_(flow.before),
        inbox_(flow.inbox, kFill),
        random_(seed) {
    memory_.target.insert(memory_.target.end(), kGuard, kFill);
    const auto order = flow.relaxed ? Access::relaxed_ordering : Access::none;
    source_key_ = register_at(side, memory_.source, memory_.source.size(), Access::none);
    landing_key_ =
        register_at(side, memory_.landing, memory_.landing.size(), Access::local_write | order);
    inbox_key_ = register_at(1 - side, inbox_, inbox_.size(), Access::local_write | order);
    target_key_ =
        register_at(1 - side, memory_.target, flow.before.target.size(),
                    Access::remote_write | Access::remote_read | Access::remote_atomic | order);
  }
  FlowRun(const FlowRun&) = delete;
  FlowRun& operator=(const FlowRun&) = delete;

  /// Posts some of what is left to post.
  void post();
  /// A completion of a request.
  void on_sent(const Completion& c);
  /// A completion of a receive; `inbox` and `room` are its memory.
  void on_received(const Completion& c, Buffer& inbox, const std::vector<Slice>& room);
  void on_received(const Completion& c);
  /// A packet of either side, before the network touches it.
  void on_packet(unsigned from, Bytes bytes);
  /// Nothing more can come.
  [[nodiscard]] bool finished() const;
  /// When nothing more can come: states, memory.
  void check() const;

  [[nodiscard]] const Flow& flow() const { return flow_; }
  [[nodiscard]] bool in_error(unsigned side) const { return qp(side).state == QpState::err; }
  [[nodiscard]] std::string text() const {
    const std::string wrong = flow_.fails ? ", wrong is " + std::to_string(*flow_.fails) : "";
    return name() + ": posted " + std::to_string(posted_) + " of " +
           std::to_string(flow_.ops.size()) + wrong + ", complete " + std::to_string(done_) +
           ", delivered " + std::to_string(delivered_) + " of " +
           std::to_string(expected_.deliveries.size()) + ", receives posted " +
           std::to_string(receives_posted_) + ", flushed " + std::to_string(flushed_) +
           ", requester " + to_string(qp(side_).state) + " (" + to_string(qp(side_).cause) +
           "), responder " + to_string(qp(1 - side_).state) + " (" +
           to_string(qp(1 - side_).cause) + ")";
  }

 private:
  static constexpr std::size_t kGuard = 64;  ///< bytes after the target that nobody may touch

  [[nodiscard]] std::uint32_t register_at(unsigned side, Buffer& bytes, std::size_t length,
                                          Access access) {
    if (bytes.empty()) bytes.resize(8);
    return pair_.register_memory(side, bytes.data(), std::max<std::size_t>(length, 8), access);
  }
  [[nodiscard]] const engine::QueuePairState& qp(unsigned side) const {
    return *pair_[side].find_qp(ends_.qpn[side]);
  }
  [[nodiscard]] std::string name() const {
    return "connection " + std::to_string(connection_) + " from side " + std::to_string(side_);
  }
  [[nodiscard]] std::string name(std::size_t i) const {
    return name() + ", request " + std::to_string(i) + " (" + flow_.ops[i].text() + ")";
  }
  [[nodiscard]] bool signaled(std::size_t i) const {
    return flow_.ops[i].flags.signaled || ends_.signal_all[side_];
  }

  void post_receives();
  [[nodiscard]] Errc post_request(std::size_t index);
  [[nodiscard]] RemoteAddress remote_of(const Op& op);
  void settle_before(std::size_t index);
  void settle(std::size_t index);
  void settle_counter(const Op& op, std::size_t index);
  void look_at_target(std::size_t end);
  void check_states() const;
  void check_target() const;
  void check_landing() const;
  /// The first request that need not have been executed: that which failed, or the first that was
  /// not posted. Without a failed one the queue pair may be in ERR all the same: what was
  /// acknowledged before that succeeds, even if its completion has to wait for a port.
  [[nodiscard]] std::size_t first_open() const { return failed_.value_or(posted_); }

  EnginePair& pair_;
  const Flow& flow_;
  unsigned side_;  ///< of the requester
  std::uint32_t connection_;
  Ends ends_;
  Outcome expected_;
  Memory memory_;
  Buffer inbox_;
  Random random_;
  std::uint32_t source_key_ = 0, landing_key_ = 0, inbox_key_ = 0, target_key_ = 0;
  std::size_t posted_ = 0, done_ = 0;
  std::size_t receives_posted_ = 0, delivered_ = 0, flushed_ = 0;
  std::size_t looked_at_ = 0;          ///< requests whose target was looked at
  std::optional<std::size_t> failed_;  ///< the first request that failed
  std::optional<std::uint64_t> last_counted_;
  std::set<std::uint16_t> asked_, answered_;  ///< READs and atomics, by number
};

// --- posting

inline void FlowRun::post() {
  post_receives();
  if (qp(side_).state != QpState::rts) return;
  while (posted_ < flow_.ops.size()) {
    // Only after one whose completion is an occasion to go on.
    if (posted_ > done_ && signaled(posted_ - 1) && random_.chance(0.2)) return;
    const Errc error = post_request(posted_);
    if (error == Errc::queue_full) return;
    expect(error == Errc::ok,
           [&] { return name(posted_) + " was refused: " + mrc::to_string(error); });
    ++posted_;
  }
}

inline void FlowRun::post_receives() {
  const QpState state = qp(1 - side_).state;
  if (flow_.shared || state == QpState::err) return;
  // A requester that does not wait for ever has to find all receives that it will ever find.
  const bool at_once = flow_.fails && flow_.ops[*flow_.fails].wrong == Wrong::not_ready;
  while (receives_posted_ < flow_.receives.size()) {
    if (!at_once && random_.chance(0.5)) return;
    std::vector<Sge> sges;
    for (const Slice& s : flow_.receives[receives_posted_])
      sges.push_back({inbox_.data() + s.at, s.length, inbox_key_});
    const WrId id{true, false, connection_, static_cast<std::uint32_t>(receives_posted_)};
    const Errc error = pair_[1 - side_].post_receive(ends_.qpn[1 - side_], {id.id(), sges});
    if (error == Errc::queue_full) return;
    expect(error == Errc::ok,
           [&] { return name() + ": a receive was refused: " + mrc::to_string(error); });
    ++receives_posted_;
  }
}

inline Errc FlowRun::post_request(std::size_t index) {
  const Op& op = flow_.ops[index];
  const bool lands = has_response(op.opcode) || op.from_landing;
  Buffer& from = lands ? memory_.landing : memory_.source;
  Buffer copies;
  copies.reserve(op.length);
  std::vector<Sge> sges;
  for (const Slice& s : op.local) {
    const std::uint8_t* data = from.data() + s.at;
    if (op.flags.inline_data) {
      const std::size_t at = copies.size();
      copies.insert(copies.end(), data, data + s.length);
      sges.push_back({copies.data() + at, s.length, 0});
    } else {
      sges.push_back({data, s.length, lands ? landing_key_ : source_key_});
    }
  }
  SendRequest r;
  r.wr_id = WrId{false, false, connection_, static_cast<std::uint32_t>(index)}.id();
  r.opcode = op.opcode;
  r.sges = sges;
  if (!op.is_send()) r.remote = remote_of(op);
  r.immediate = op.immediate;
  r.flags = op.flags;
  r.compare_add = op.compare_add;
  r.swap = op.swap;
  const Errc error = pair_[side_].post_send(ends_.qpn[side_], r, pair_.now());
  std::fill(copies.begin(), copies.end(), kReused);  // inline data is the program's again
  return error;
}

inline RemoteAddress FlowRun::remote_of(const Op& op) {
  Shore& there = *ends_.shore[1 - side_];
  const auto address = [](const void* p) { return reinterpret_cast<std::uint64_t>(p); };
  if (op.counter) return {address(&there.counter), there.counter_key};
  const std::uint64_t locked = address(there.locked.data()) + op.remote;
  switch (op.wrong) {
    case Wrong::key:
      return {address(memory_.target.data()) + op.remote, target_key_ ^ 0x5A5A};
    case Wrong::domain:
      return {locked, there.other_domain};
    case Wrong::right:
      return {locked, op.is_atomic()                  ? there.no_atomic
                      : op.opcode == SendOpcode::read ? there.no_read
                                                      : there.no_write};
    default:
      return {address(memory_.target.data()) + op.remote, target_key_};
  }
}

// --- completions

inline void FlowRun::on_sent(const Completion& c) {
  const std::size_t index = WrId::of(c.wr_id).index;
  expect(index < flow_.ops.size() && index >= done_ && index < posted_, [&] {
    return name() + ": a completion of request " + std::to_string(index) + " after " +
           std::to_string(done_) + " of " + std::to_string(posted_) + " were complete";
  });
  const Op& op = flow_.ops[index];
  expect(c.qpn == ends_.qpn[side_], [&] { return name(index) + ": QPN of another queue pair"; });
  settle_before(index);
  done_ = index + 1;
  if (c.status == WcStatus::success) {
    expect(!failed_, [&] { return name(index) + " succeeded after a failure"; });
    expect(index < flow_.good(), [&] { return name(index) + " succeeded"; });
    expect(signaled(index), [&] { return name(index) + ": a completion, though not signaled"; });
    constexpr WcOpcode kOpcodes[] = {
        WcOpcode::write, WcOpcode::write_imm,    WcOpcode::send,     WcOpcode::send,
        WcOpcode::read,  WcOpcode::compare_swap, WcOpcode::fetch_add};
    expect(c.opcode == kOpcodes[static_cast<unsigned>(op.opcode)],
           [&] { return name(index) + ": wrong opcode in the completion"; });
    expect(!has_response(op.opcode) || c.byte_len == op.length, [&] {
      return name(index) + ": the completion says " + std::to_string(c.byte_len) + " bytes";
    });
    return settle(index);
  }
  const auto fails = [&] {
    return name(index) + " failed: " + to_string(c.status) + "\n" + text();
  };
  if (failed_) return expect(c.status == WcStatus::wr_flush_err || flow_.open_end, fails);
  failed_ = index;
  if (flow_.open_end) return expect(index <= flow_.good(), fails);
  expect(flow_.fails == index && c.status == status_of(op.wrong), fails);
}

/// Requests without completions before this one: all is well with them.
inline void FlowRun::settle_before(std::size_t index) {
  for (; done_ < index; ++done_) {
    expect(!failed_ && !signaled(done_) && done_ < flow_.good(),
           [&] { return name(done_) + ": its completion is missing"; });
    settle(done_);
  }
}

/// A request is complete with success.
inline void FlowRun::settle(std::size_t index) {
  const Op& op = flow_.ops[index];
  look_at_target(index + 1);
  if (op.counter) return settle_counter(op, index);
  for (const Slice& s : op.local) {
    if (!has_response(op.opcode)) {
      if (!op.from_landing) std::fill_n(memory_.source.begin() + s.at, s.length, kReused);
      continue;
    }
    Buffer& right = expected_.after.landing;
    expect(std::memcmp(memory_.landing.data() + s.at, right.data() + s.at, s.length) == 0,
           [&] { return name(index) + " is complete, and has brought something else"; });
    if (op.kept) continue;
    // A late packet would show.
    std::fill_n(memory_.landing.begin() + s.at, s.length, kReused);
    std::fill_n(right.begin() + s.at, s.length, kReused);
  }
}

/// Each atomic on a counter finds another number, and of one flow ever larger ones.
inline void FlowRun::settle_counter(const Op& op, std::size_t index) {
  Buffer brought;
  for (const Slice& s : op.local) {
    const auto at = memory_.landing.begin() + s.at;
    brought.insert(brought.end(), at, at + s.length);
    std::fill_n(at, s.length, kFill);
  }
  std::uint64_t found = 0;
  std::memcpy(&found, brought.data(), sizeof found);
  const auto text = [&] { return name(index) + " has found " + std::to_string(found); };
  expect(!last_counted_ || found > *last_counted_, [&] { return text() + ", out of order"; });
  expect(ends_.shore[1 - side_]->counted.insert(found).second, [&] { return text() + " again"; });
  last_counted_ = found;
}

/// All requests before `end` have been executed at the responder, as one of the sides was told.
inline void FlowRun::look_at_target(std::size_t end) {
  for (; looked_at_ < end; ++looked_at_) {
    const Op& op = flow_.ops[looked_at_];
    if (!op.visible) continue;
    expect(std::memcmp(memory_.target.data() + op.remote, expected_.after.target.data() + op.remote,
                       op.length) == 0,
           [&] { return name(looked_at_) + " is not to be seen, though a later completion is"; });
  }
}

inline void FlowRun::on_received(const Completion& c) {
  const std::size_t index = WrId::of(c.wr_id).index;
  expect(index == delivered_ + flushed_ && index < receives_posted_, [&] {
    return name() + ": a completion of receive " + std::to_string(index) + ", after " +
           std::to_string(delivered_ + flushed_);
  });
  on_received(c, inbox_, flow_.receives[index]);
}

inline void FlowRun::on_received(const Completion& c, Buffer& inbox,
                                 const std::vector<Slice>& room) {
  const auto where = [&] { return name() + ", delivery " + std::to_string(delivered_); };
  expect(c.qpn == ends_.qpn[1 - side_], [&] { return where() + ": QPN of another queue pair"; });
  if (c.status == WcStatus::wr_flush_err) {
    expect(in_error(1 - side_), [&] { return where() + ": flushed without an error"; });
    ++flushed_;
    return;
  }
  expect(delivered_ < expected_.deliveries.size() && flushed_ == 0,
         [&] { return where() + " is one too many: " + to_string(c.status); });
  const Delivery& d = expected_.deliveries[delivered_++];
  const Op& op = flow_.ops[d.op];
  const auto wrong = [&](const char* what) { return name(d.op) + ", its receive: wrong " + what; };
  expect(d.op < posted_, [&] { return name(d.op) + " was received before it was posted"; });
  look_at_target(d.op);
  expect(c.status == (d.too_long ? WcStatus::loc_len_err : WcStatus::success),
         [&] { return wrong("status: ") + to_string(c.status); });
  if (d.too_long) return;
  expect(c.opcode == (op.is_send() ? WcOpcode::recv : WcOpcode::recv_write_imm),
         [&] { return wrong("opcode"); });
  expect(c.byte_len == op.length, [&] { return wrong("length: ") + std::to_string(c.byte_len); });
  expect(
      c.has_immediate == op.has_immediate() && (!op.has_immediate() || c.immediate == op.immediate),
      [&] { return wrong("immediate"); });
  expect(c.solicited == op.flags.solicited, [&] { return wrong("solicited event"); });
  std::size_t done = 0;
  for (const Slice& s : room)
    for (std::uint32_t i = 0; i < s.length; ++i, ++done) {
      const std::uint8_t right = done < d.payload.size() ? d.payload[done] : kFill;
      expect(inbox[s.at + i] == right, [&] { return wrong("byte ") + std::to_string(done); });
      inbox[s.at + i] = kFill;  // a late packet would show
    }
}

/// No more READs and atomics are in flight than agreed.
inline void FlowRun::on_packet(unsigned from, Bytes bytes) {
  const wire::Opcode opcode = wire::view_as<wire::Bth>(bytes).opcode();
  if (!wire::is_request(opcode) && !wire::is_response(opcode)) return;
  const wire::WriteView packet = wire::view_write(bytes);
  if (packet.bth->dqp() != ends_.qpn[1 - from]) return;
  const std::uint16_t number = packet.meth->rqmsn.value();
  if (from == side_ && wire::is_request(opcode) && asked_.insert(number).second)
    expect(asked_.size() <= answered_.size() + ends_.reads_in_flight, [&] {
      return name() + ": more READs and atomics in flight than " +
             std::to_string(ends_.reads_in_flight);
    });
  if (from != side_ && wire::is_response(opcode) && wire::is_last(opcode)) answered_.insert(number);
}

// --- the end

inline bool FlowRun::finished() const {
  const bool all = delivered_ == expected_.deliveries.size();
  const bool broken = in_error(side_) && done_ == posted_;
  if (in_error(1 - side_) && !flow_.shared && delivered_ + flushed_ < receives_posted_)
    return false;
  if (flow_.fails && !flow_.open_end) return broken && failed_ && all;
  return (all && done_ == flow_.ops.size()) || (flow_.open_end && broken);
}

inline void FlowRun::check() const {
  check_states();
  check_target();
  check_landing();
}

inline void FlowRun::check_states() const {
  const auto require = [&](unsigned side, bool ok) {
    expect(ok, [&] {
      return name() + ": at the end side " + std::to_string(side) + " is in " +
             to_string(qp(side).state) + " (" + to_string(qp(side).cause) + ")";
    });
  };
  if (flow_.fails && !flow_.open_end) {
    const Wrong wrong = flow_.ops[*flow_.fails].wrong;
    require(side_, qp(side_).cause == requester_cause(wrong));
    if (responder_cause(wrong) != QpErrorCause::none)
      require(1 - side_, qp(1 - side_).cause == responder_cause(wrong));
  } else if (!flow_.open_end) {
    require(side_, qp(side_).state == QpState::rts);
    require(1 - side_, qp(1 - side_).state == QpState::rts);
  }
  expect(qp(side_).tx.window.empty() && qp(side_).tx.inflight == 0,
         [&] { return name() + ": packets are in flight at the end"; });
}

inline void FlowRun::check_target() const {
  std::vector<bool> open(memory_.target.size(), false);
  // What was under way when the connection broke may have been executed or not. A responder that
  // refuses a request executes no later READ or atomic; but WRITEs are placed as they come.
  for (std::size_t i = first_open(); i < flow_.ops.size(); ++i) {
    const Op& op = flow_.ops[i];
    if (!op.changes() || (!flow_.open_end && op.is_atomic())) continue;
    for (std::size_t at = op.remote; at < op.target().end() && at < open.size(); ++at)
      open[at] = true;
  }
  const Buffer& right = expected_.after.target;
  for (std::size_t i = 0; i < memory_.target.size(); ++i) {
    if (i < right.size() && open[i]) continue;
    expect(memory_.target[i] == (i < right.size() ? right[i] : kFill),
           [&] { return name() + ": byte " + std::to_string(i) + " of the target is wrong"; });
  }
  if (failed_) return;
  for (std::size_t i = 0; i < inbox_.size(); ++i)
    expect(flow_.inbox == 0 || inbox_[i] == kFill,
           [&] { return name() + ": byte " + std::to_string(i) + " of the inbox was written"; });
}

inline void FlowRun::check_landing() const {
  std::vector<bool> open(memory_.landing.size(), false);
  if (flow_.open_end)
    for (std::size_t i = first_open(); i < flow_.ops.size(); ++i)
      if (has_response(flow_.ops[i].opcode))
        for (const Slice& s : flow_.ops[i].local) std::fill_n(open.begin() + s.at, s.length, true);
  const Buffer& right = expected_.after.landing;
  for (std::size_t i = 0; i < right.size(); ++i)
    expect(open[i] || memory_.landing[i] == right[i],
           [&] { return name() + ": byte " + std::to_string(i) + " of the landing is wrong"; });
}

}  // namespace mrc::test::rc
