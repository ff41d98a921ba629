// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "mrc_sim/soak/flow.hpp"

namespace mrc::soak {

// --- posting
// --------------------------------------------------------------------------------------

std::vector<Sge> SoakFlow::cut(const SoakMessage& m) {
  std::vector<std::uint32_t> ends(m.sges);
  for (std::uint32_t& end : ends) end = random_.below(m.length + 1);
  ends.back() = m.length;
  std::sort(ends.begin(), ends.end());
  std::vector<Sge> sges;
  std::uint32_t begin = 0;
  const std::uint8_t* data = m.answered() ? from_.memory->data() + m.target : source_of(m);
  const std::uint32_t key = m.inlined ? 0u : m.answered() ? from_.rkey : from_.lkey;
  for (const std::uint32_t end : ends) {
    sges.push_back({data + begin, end - begin, key});
    begin = end;
  }
  return sges;
}

void SoakFlow::post_receive() {
  const std::uint64_t n = to_.receives_posted++;
  Sge sge;
  ReceiveRequest request{n, {}};
  if (n < consumers_.size() && messages_[consumers_[n]].is_send()) {
    const SoakMessage& m = messages_[consumers_[n]];
    sge = {to_.memory->data() + m.target, m.length, to_.rkey};
    request.sges = {&sge, 1};
  }
  const Errc e = to_.host->engine().post_receive(to_.qpn, request);
  soak_require(e == Errc::ok, [&] { return name_ + ": receive not posted: " + to_string(e); });
}

void SoakFlow::post(Time now) {
  if (from_.host->killed() || from_.failed) return;
  for (; posted_ < messages_.size() && messages_[posted_].release <= now; ++posted_) {
    const SoakMessage& m = messages_[posted_];
    std::uint8_t* source = source_of(m);
    target_of(m).memory->pattern().fill(source, m.target, m.length);
    const std::vector<Sge> sges = cut(m);
    SendRequest r;
    r.wr_id = posted_;
    r.opcode = m.opcode;
    r.sges = sges;
    if (m.answered())
      r.remote = {reinterpret_cast<std::uint64_t>(source), to_.lkey};
    else if (!m.is_send())
      r.remote = {reinterpret_cast<std::uint64_t>(to_.memory->data()) + m.target, to_.rkey};
    r.compare_add = 1;
    r.immediate = m.immediate;
    r.flags.signaled = m.signaled;
    r.flags.inline_data = m.inlined;
    const Errc e = from_.host->engine().post_send(from_.qpn, r, now);
    if (e == Errc::queue_full || (e == Errc::invalid_state && from_.in_error())) return;
    soak_require(e == Errc::ok, [&] { return message(posted_) + ": not posted: " + to_string(e); });
    if (m.inlined && m.length > 0) std::memset(source, 0xDD, m.length);  // copied: may be reused
  }
}

// --- completions
// ----------------------------------------------------------------------------------

/// True once, if this mistake is to be injected.
bool SoakFlow::sabotaged(SoakSabotage kind) {
  if (sabotage_ != kind) return false;
  sabotage_ = SoakSabotage::none;
  return true;
}

/// Message `i` has completed. The sender may reuse its memory.
void SoakFlow::verify(std::size_t i) {
  SoakMessage& m = messages_[i];
  if (m.verified) return;
  m.verified = true;
  SoakMemory& memory = *target_of(m).memory;
  std::uint8_t* target = memory.data() + m.target;
  if (m.length > 0 && sabotaged(SoakSabotage::flip_bit)) target[m.length / 2] ^= 0x10;
  if (sabotaged(SoakSabotage::write_outside)) memory.data()[0] = 1;
  memory.verify(m.target, m.length, message(i));
  if (m.length > 0 && sabotaged(SoakSabotage::write_again))
    memory.pattern().fill(target, m.target, 1);
}

/// Message `i` has completed at the requester: what it was made from is used for something else.
void SoakFlow::finish(std::size_t i) {
  verify(i);
  const SoakMessage& m = messages_[i];
  std::uint8_t* source = source_of(m);
  if (m.opcode == SendOpcode::fetch_add) {
    std::uint64_t before = 0, now = 0;
    target_of(m).memory->pattern().fill(reinterpret_cast<std::uint8_t*>(&before), m.target, 8);
    std::memcpy(&now, source, sizeof now);
    soak_require(now == before + 1, [&] {
      return message(i) + ": the atomic was executed " + std::to_string(now - before) + " times";
    });
  }
  if (m.length > 0) std::memset(source, 0xDD, m.length);
}

void SoakFlow::on_sent(const Completion& c) {
  if (c.status == WcStatus::success && sabotaged(SoakSabotage::lose_completion)) return;
  soak_require(c.wr_id >= completed_ && c.wr_id < posted_, [&] {
    return message(c.wr_id) + ": completion out of order or repeated; " + text();
  });
  const auto i = static_cast<std::size_t>(c.wr_id);
  const SoakMessage& m = messages_[i];
  const bool success = c.status == WcStatus::success;
  soak_require(success || from_.in_error(), [&] {
    return message(i) + " failed (" + to_string(c.status) + ") on a queue pair without an error";
  });
  soak_require(!success || (m.signaled && !flushing_), [&] {
    return message(i) + " has a success completion although it " +
           (flushing_ ? "follows a failed one" : "is not signaled");
  });
  constexpr WcOpcode kOpcodes[] = {WcOpcode::write,    WcOpcode::write_imm, WcOpcode::send,
                                   WcOpcode::send,     WcOpcode::read,      WcOpcode::compare_swap,
                                   WcOpcode::fetch_add};
  soak_require(c.opcode == kOpcodes[static_cast<unsigned>(m.opcode)],
               [&] { return message(i) + ": completion of another opcode"; });
  for (std::size_t k = completed_; k < i; ++k)
    soak_require(!messages_[k].signaled && !flushing_, [&] {
      return message(k) + ": its completion is missing, that of message " + std::to_string(i) +
             " came";
    });
  // Skipped ones succeeded: after an error every request has a completion.
  for (; completed_ < i + success; ++completed_) finish(completed_);
  completed_ = i + 1;
  flushing_ |= !success;
  if (success && sabotaged(SoakSabotage::repeat_completion)) on_sent(c);
}

void SoakFlow::check_success(const Completion& c) const {
  soak_require(received_ < consumers_.size(),
               [&] { return name_ + ": a receive completed although nothing was sent for it"; });
  const std::size_t i = consumers_[received_];
  soak_require(i < posted_, [&] { return message(i) + " was received before it was posted"; });
  const SoakMessage& m = messages_[i];
  soak_require(c.opcode == (m.is_send() ? WcOpcode::recv : WcOpcode::recv_write_imm) &&
                   c.has_immediate == m.with_immediate(),
               [&] { return message(i) + ": its receive completed as another operation's"; });
  const bool same = c.immediate == m.immediate || !m.with_immediate();
  soak_require(same && c.byte_len == m.length, [&] {
    return message(i) + ": received with immediate " + std::to_string(c.immediate) + " and " +
           std::to_string(c.byte_len) + " bytes instead of " + std::to_string(m.immediate) +
           " and " + std::to_string(m.length);
  });
}

void SoakFlow::on_received(const Completion& original) {
  Completion c = original;
  soak_require(c.wr_id == to_.receives_done, [&] {
    return name_ + ": receive " + std::to_string(c.wr_id) + " completed instead of " +
           std::to_string(to_.receives_done);
  });
  ++to_.receives_done;
  if (c.status != WcStatus::success) {
    soak_require(to_.in_error(), [&] {
      return name_ + ": a receive failed (" + to_string(c.status) +
             ") on a queue pair without an error";
    });
    return;
  }
  if (sabotaged(SoakSabotage::swap_immediate)) c.immediate ^= 1;
  check_success(c);
  const std::size_t i = consumers_[received_++];
  for (; vouched_ <= i; ++vouched_)  // and everything before it; READs complete at the requester
    if (!messages_[vouched_].answered()) verify(vouched_);
  if (!to_.in_error()) post_receive();
}

bool SoakFlow::over(bool patient) const {
  if (from_.host->killed()) return true;
  if (from_.failed) return completed_ == posted_;
  if (completed_ == messages_.size())
    return to_.host->killed() || to_.failed || received_ == consumers_.size();
  return to_.host->killed() && patient;  // unlimited retries: it never gives up
}

// --- the end
// --------------------------------------------------------------------------------------

std::string SoakFlow::text() const {
  const engine::QueuePairState& qp = from_.qp();
  const QpStats s = from_.host->engine().qp_stats(qp);
  return name_ + ": " + std::to_string(posted_) + " of " + std::to_string(messages_.size()) +
         " posted, " + std::to_string(completed_) + " completed, " + std::to_string(received_) +
         " of " + std::to_string(consumers_.size()) + " receives completed; " +
         to_string(qp.state) + ", span " + std::to_string(qp.tx.window.span()) + ", outstanding " +
         std::to_string(s.outstanding) + ", lost " + std::to_string(qp.tx.window.lost()) +
         ", backlog " + std::to_string(qp.tx.queue.backlog()) + ", timer " +
         (qp.scheduled() ? "runs" : "rests") + ", retries " + std::to_string(qp.tx.retries.used()) +
         ", in flight " + std::to_string(s.inflight) + " of window " + std::to_string(s.cwnd) +
         ", usable planes " +
         std::to_string(qp.peer != nullptr ? qp.peer->paths.usable_planes() : 0);
}

void SoakFlow::audit(std::uint32_t mtu, const SoakFlow* reverse) const {
  for (std::size_t i = 0; i < messages_.size(); ++i) {
    const SoakMessage& m = messages_[i];
    target_of(m).memory->check_message(m.target, m.length, m.verified, message(i));
    const std::uint8_t* source = source_of(m);
    soak_require(i >= completed_ || !m.verified || m.opcode != SendOpcode::fetch_add ||
                     std::all_of(source, source + m.length, [](auto b) { return b == 0xDD; }),
                 [&] { return message(i) + ": the atomic was executed after its completion"; });
  }
  const QpStats sender = from_.stats(), receiver = to_.stats();
  const auto equal = [&](const char* what, std::uint64_t is, std::uint64_t should) {
    soak_require(is == should, [&] {
      return name_ + ": " + what + " is " + std::to_string(is) + ", should be " +
             std::to_string(should);
    });
  };
  if (to_.failed) equal("receives flushed", to_.receives_done, to_.receives_posted);
  if (!complete() || (reverse != nullptr && !reverse->complete())) return;
  std::uint64_t packets = 0, bytes = 0;
  const auto count = [&](std::uint32_t length) {
    packets += std::max(1u, (length + mtu - 1) / mtu);
    bytes += length;
  };
  for (const SoakMessage& m : messages_) count(m.payload());
  if (reverse != nullptr)
    for (const SoakMessage& m : reverse->messages_)
      if (m.answered()) count(m.length);
  equal("packets sent", sender.tx_packets, packets);
  equal("bytes sent", sender.tx_bytes, bytes);
  equal("packets accepted", receiver.rx_packets, packets);
  equal("bytes accepted", receiver.rx_bytes, bytes);
  equal("requests completed", sender.writes_completed, messages_.size());
  equal("receives completed", receiver.receives_completed, consumers_.size());
}

}  // namespace mrc::soak
