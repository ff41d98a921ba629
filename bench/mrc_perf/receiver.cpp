// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "pattern.hpp"
#include "traffic.hpp"

namespace mrc::perf {

Receiver::Receiver(Session& session)
    : session_(session),
      p_(session.parameters()),
      active_(p_.check || p_.test == Test::write_imm),
      queues_(p_.qps) {}

void Receiver::start(std::uint64_t size) {
  ring_ = Ring(session_, size);
  for (Queue& queue : queues_) queue.credited = queue.verified;
  received_ = {};
  checked_bytes_ = errors_ = 0;
  first_error_.clear();
  credit_due_ = false;
}

void Receiver::add_error(std::uint64_t bytes, std::string text) {
  if (errors_ == 0) first_error_ = std::move(text);
  errors_ += bytes;
}

void Receiver::on_completion(const Completion& completion, std::uint32_t q) {
  Queue& queue = queues_[q];
  const bool each = p_.test == Test::write_imm;
  const auto more = completion.immediate - static_cast<std::uint32_t>(queue.arrived);
  const std::uint32_t expected_length = each ? static_cast<std::uint32_t>(ring_.size) : 0;
  if (more > (each ? 1 : ring_.places) || (each && more == 0)) {
    add_error(1, fmt::format("queue pair {}: immediate {} after message {}", q,
                             completion.immediate, queue.arrived));
    queue.arrived += each ? 1 : 0;
  } else {
    queue.arrived += more;
  }
  if (completion.byte_len != expected_length)
    add_error(1, fmt::format("queue pair {} message {}: {} bytes long, {} expected", q,
                             queue.arrived, completion.byte_len, expected_length));
  if (const Errc error = session_.post_receive(q); error != Errc::ok)
    throw Failure(fmt::format("queue pair {}: can't post a receive: {}", q, mrc::to_string(error)));
}

bool Receiver::verify_some(std::uint32_t q, Queue& queue) {
  if (!p_.check) {
    const std::uint64_t n = queue.arrived - queue.verified;
    received_.messages += n;
    received_.bytes += n * ring_.size;
    queue.verified = queue.arrived;
    return n > 0;
  }
  std::uint64_t budget = kSlice;
  while (queue.verified != queue.arrived && budget > 0) {
    const std::uint64_t n = std::min(budget, ring_.size - queue.offset);
    const std::uint8_t* at = session_.receive_area(q) + ring_.offset(queue.verified) + queue.offset;
    std::uint64_t first = 0;
    const Pattern pattern(p_.seed, q, queue.verified);
    if (const auto bad = pattern.verify(at, queue.offset, n, first); bad > 0)
      add_error(bad, fmt::format("queue pair {} message {} of {} bytes: differs at byte {}", q,
                                 queue.verified, ring_.size, first));
    checked_bytes_ += n;
    queue.offset += n;
    // Pieces start at multiples of 8; a rest below that is useless.
    budget = (budget - n) / 8 * 8;
    if (queue.offset < ring_.size) continue;
    queue.offset = 0;
    ++queue.verified;
    ++received_.messages;
    received_.bytes += ring_.size;
  }
  return budget < kSlice;
}

void Receiver::credit() {
  // One write of credits at a time: two could be placed in the wrong order, which would leave the
  // older count.
  if (!credit_due_ || credit_under_way_) return;
  for (std::uint32_t q = 0; q < queues_.size(); ++q) {
    queues_[q].credited = queues_[q].verified;
    session_.set_outgoing_credit(q, queues_[q].verified);
  }
  const Errc error = session_.post_credits();
  if (error == Errc::ok) {
    credit_under_way_ = true;
    credit_due_ = false;
  } else if (error != Errc::queue_full) {
    const std::string why = session_.first_error();
    throw Failure(why.empty() ? fmt::format("can't send credits: {}", mrc::to_string(error)) : why);
  }
}

bool Receiver::step() {
  if (!active_) return false;
  bool moved = false;
  for (std::uint32_t q = 0; q < queues_.size(); ++q) {
    Queue& queue = queues_[q];
    if (queue.verified != queue.arrived) moved |= verify_some(q, queue);
    credit_due_ |= queue.verified - queue.credited >= ring_.batch;
  }
  credit();
  return moved;
}

Traffic::Traffic(Session& session) : sender(session), receiver(session), session_(session) {}

void Traffic::take(std::span<const Completion> completions) {
  for (const Completion& c : completions) {
    if (c.status != WcStatus::success) throw Failure(session_.cause(c));
    const RequestId id = RequestId::unpack(c.wr_id);
    switch (id.purpose) {
      case Purpose::data:
      case Purpose::note:
        sender.on_completion(id);
        break;
      case Purpose::credit:
        receiver.on_credit_sent();
        break;
      case Purpose::receive:
        receiver.on_completion(c, id.qp);
        break;
    }
  }
}

void Traffic::step() {
  constexpr unsigned kSpins = 64;
  // Messages that come at a rate leave time to sleep, for a moment only: credits come without a
  // completion.
  constexpr Duration kNap = std::chrono::milliseconds(1);
  const bool sleeps = idle_rounds_ > kSpins && session_.parameters().rate > 0;
  const std::size_t n =
      sleeps ? session_.cq().wait(completions_, kNap) : session_.cq().poll(completions_);
  take({completions_.data(), n});
  const bool sent = sender.step();
  const bool received = receiver.step();
  const bool moved = n > 0 || sent || received;
  moves_ += moved;
  idle_rounds_ = moved ? 0 : idle_rounds_ + 1;
  // With more processes than cores, the other side may need this processor.
  if (idle_rounds_ > kSpins && !sleeps) sched_yield();
}

}  // namespace mrc::perf
