// SPDX-License-Identifier: Apache-2.0
#include "engine/rc_model/flow.hpp"

#include <algorithm>
#include <cstring>

namespace mrc::test::rc {

// --- posting

void FlowRun::post() {
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

void FlowRun::post_receives() {
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

Errc FlowRun::post_request(std::size_t index) {
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

RemoteAddress FlowRun::remote_of(const Op& op) {
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

void FlowRun::on_sent(const Completion& c) {
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
void FlowRun::settle_before(std::size_t index) {
  for (; done_ < index; ++done_) {
    expect(!failed_ && !signaled(done_) && done_ < flow_.good(),
           [&] { return name(done_) + ": its completion is missing"; });
    settle(done_);
  }
}

/// A request is complete with success.
void FlowRun::settle(std::size_t index) {
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
void FlowRun::settle_counter(const Op& op, std::size_t index) {
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
void FlowRun::look_at_target(std::size_t end) {
  for (; looked_at_ < end; ++looked_at_) {
    const Op& op = flow_.ops[looked_at_];
    if (!op.visible) continue;
    expect(std::memcmp(memory_.target.data() + op.remote, expected_.after.target.data() + op.remote,
                       op.length) == 0,
           [&] { return name(looked_at_) + " is not to be seen, though a later completion is"; });
  }
}

void FlowRun::on_received(const Completion& c) {
  const std::size_t index = WrId::of(c.wr_id).index;
  expect(index == delivered_ + flushed_ && index < receives_posted_, [&] {
    return name() + ": a completion of receive " + std::to_string(index) + ", after " +
           std::to_string(delivered_ + flushed_);
  });
  on_received(c, inbox_, flow_.receives[index]);
}

void FlowRun::on_received(const Completion& c, Buffer& inbox, const std::vector<Slice>& room) {
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
void FlowRun::on_packet(unsigned from, Bytes bytes) {
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

bool FlowRun::finished() const {
  const bool all = delivered_ == expected_.deliveries.size();
  const bool broken = in_error(side_) && done_ == posted_;
  if (in_error(1 - side_) && !flow_.shared && delivered_ + flushed_ < receives_posted_)
    return false;
  if (flow_.fails && !flow_.open_end) return broken && failed_ && all;
  return (all && done_ == flow_.ops.size()) || (flow_.open_end && broken);
}

void FlowRun::check() const {
  check_states();
  check_target();
  check_landing();
}

void FlowRun::check_states() const {
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

void FlowRun::check_target() const {
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

void FlowRun::check_landing() const {
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
