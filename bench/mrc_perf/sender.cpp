// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "pattern.hpp"
#include "traffic.hpp"

namespace mrc::perf {
namespace {

constexpr std::uint64_t kDoorbellBytes = 1 << 20;
constexpr std::size_t kMostPerDoorbell = 16;
constexpr std::uint64_t kLong = 64 << 10;
/// How much lost time a paced sender makes up for at once.
constexpr Duration kCatchUp = std::chrono::milliseconds(10);

}  // namespace

Ring::Ring(const Session& session, std::uint64_t message_size) : size(message_size) {
  const Parameters& p = session.parameters();
  stride = round_up(message_size, kLine);
  places = static_cast<std::uint32_t>(std::clamp<std::size_t>(session.area() / stride, 1, p.depth));
  const std::uint32_t window = p.check ? places : p.depth;
  constexpr std::uint32_t kParts = 4;
  batch = std::max<std::uint32_t>(1, window / kParts);
}

Sender::Sender(Session& session)
    : session_(session),
      p_(session.parameters()),
      credits_(p_.check || p_.test == Test::write_imm),
      notes_(p_.check && p_.test == Test::write),
      queues_(p_.qps) {}

void Sender::start(std::uint64_t size) {
  ring_ = Ring(session_, size);
  window_ = p_.check ? std::min(p_.depth, ring_.places) : p_.depth;
  credit_window_ = p_.check ? ring_.places : session_.receives();
  constexpr std::uint32_t kUsual = 16;
  const Duration interval = p_.interval(size);
  pace_.reset();
  if (interval > Duration{})
    pace_.emplace(interval, static_cast<std::uint32_t>(1 + kCatchUp / interval));
  // Results count completions: those of rare messages come one by one.
  const bool one_by_one = size >= kLong || interval > std::chrono::milliseconds(1);
  signal_every_ = p_.signal_every != 0 ? p_.signal_every : one_by_one ? 1 : kUsual;
  for (Queue& queue : queues_) {
    queue.credited = queue.noted = queue.posted;
    queue.limit = UINT64_MAX;
    queue.filled = 0;
  }
  posted_ = 0;
  completed_ = {};
  stopped_ = false;
}

bool Sender::has_room(std::uint32_t q, Queue& queue, std::uint64_t more) noexcept {
  const std::uint64_t next = queue.posted + more;
  if (next >= queue.limit || next - queue.completed >= window_) return false;
  if (!credits_ || next - queue.credited < credit_window_) return true;
  const std::uint64_t credit = session_.credit(q);
  if (credit > queue.credited && credit <= queue.posted) queue.credited = credit;
  return next - queue.credited < credit_window_;
}

bool Sender::fill(std::uint32_t q, Queue& queue, std::uint64_t number) noexcept {
  if (!p_.check) return true;
  const std::uint64_t n = std::min(kSlice, ring_.size - queue.filled);
  Pattern(p_.seed, q, number)
      .fill(session_.send_area(q) + ring_.offset(number) + queue.filled, queue.filled, n);
  queue.filled += n;
  if (queue.filled < ring_.size) return false;
  queue.filled = 0;
  return true;
}

bool Sender::post_some(std::uint32_t q, Queue& queue) {
  std::array<SendRequest, kMostPerDoorbell> requests;
  std::array<Sge, kMostPerDoorbell> sges;
  std::size_t most = std::clamp<std::size_t>(kDoorbellBytes / ring_.size, 1, kMostPerDoorbell);
  if (notes_) most = std::min<std::size_t>(most, ring_.batch - (queue.posted - queue.noted));

  std::size_t n = 0;
  std::uint32_t unsignaled = queue.unsignaled;
  bool filled_some = false;
  while (n < most && has_room(q, queue, n)) {
    const std::uint64_t number = queue.posted + n;
    if (pace_ && queue.filled == 0 && !pace_->take(monotonic_now())) break;
    filled_some = p_.check;
    if (!fill(q, queue, number)) break;
    sges[n] = {session_.send_area(q) + ring_.offset(number), static_cast<std::uint32_t>(ring_.size),
               session_.send_lkey()};
    SendRequest& r = requests[n];
    r.wr_id = RequestId{Purpose::data, q, number + 1}.pack();
    r.sges = {&sges[n], 1};
    r.remote = session_.peer_area(q, ring_.offset(number));
    if (p_.test == Test::write_imm) r.opcode = SendOpcode::write_imm;
    r.immediate = static_cast<std::uint32_t>(number + 1);
    // The last message that fits the window must be signaled, or the window would never reopen.
    r.flags.signaled = unsignaled + 1 >= signal_every_ || number + 1 - queue.completed >= window_;
    r.flags.inline_data = ring_.size <= p_.inline_bytes;
    unsignaled = r.flags.signaled ? 0 : unsignaled + 1;
    ++n;
  }
  if (n == 0) return filled_some;

  std::size_t posted = 0;
  check(session_.qp(q).post_sends({requests.data(), n}, posted), q);
  for (std::size_t i = 0; i < posted; ++i)
    queue.unsignaled = requests[i].flags.signaled ? 0 : queue.unsignaled + 1;
  queue.posted += posted;
  posted_ += posted;
  // Messages that were not accepted get a new pattern.
  if (posted < n) queue.filled = 0;
  return true;
}

bool Sender::post_note(std::uint32_t q, Queue& queue) {
  SendRequest note;
  note.wr_id = RequestId{Purpose::note, q, queue.posted}.pack();
  note.remote = session_.peer_area(q, 0);
  if (notes_) note.opcode = SendOpcode::write_imm;
  note.immediate = static_cast<std::uint32_t>(queue.posted);
  const Errc error = session_.qp(q).post_send(note);
  check(error, q);
  if (error != Errc::ok) return false;
  queue.noted = queue.posted;
  queue.unsignaled = 0;
  ++queue.notes;
  return true;
}

bool Sender::close(std::uint32_t q, Queue& queue) {
  // An empty signaled write completes the unsignaled ones before it; as a note it also announces
  // the remaining messages to the receiver.
  const bool needed = queue.unsignaled > 0 || (notes_ && queue.noted != queue.posted);
  return needed && post_note(q, queue);
}

bool Sender::step() {
  bool moved = false;
  const auto count = static_cast<std::uint32_t>(queues_.size());
  std::uint32_t next = first_;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t q = first_ + i < count ? first_ + i : first_ + i - count;
    Queue& queue = queues_[q];
    if (notes_ && queue.posted - queue.noted >= ring_.batch && !post_note(q, queue)) continue;
    if (stopped_ || queue.posted >= queue.limit) {
      moved |= close(q, queue);
    } else if (post_some(q, queue)) {
      moved = true;
      next = q + 1 < count ? q + 1 : 0;  // or the first one would take all that --rate allows
    }
  }
  first_ = next;
  return moved;
}

void Sender::stop() {
  stopped_ = true;
  for (Queue& queue : queues_) queue.filled = 0;
}

void Sender::resume(std::uint64_t messages) noexcept {
  stopped_ = false;
  for (Queue& queue : queues_) queue.limit = queue.posted + messages;
}

bool Sender::drained() const noexcept {
  return std::all_of(queues_.begin(), queues_.end(), [this](const Queue& queue) {
    return queue.completed == queue.posted && queue.notes == 0 &&
           (!notes_ || queue.noted == queue.posted);
  });
}

void Sender::on_completion(const RequestId& id) {
  Queue& queue = queues_[id.qp];
  if (id.purpose == Purpose::note) --queue.notes;
  const std::uint64_t done = (id.number - queue.completed) & RequestId::kNumberMask;
  queue.completed += done;
  completed_.messages += done;
  completed_.bytes += done * ring_.size;
}

std::string Sender::waiting_for() {
  for (std::uint32_t q = 0; q < queues_.size(); ++q) {
    if (const auto packets = session_.qp(q).stats().outstanding; packets > 0)
      return fmt::format("acknowledgements of {} packets on queue pair {}", packets, q);
  }
  for (std::uint32_t q = 0; q < queues_.size(); ++q) {
    const Queue& queue = queues_[q];
    if (credits_ && queue.posted != queue.credited)
      return fmt::format("the receiver's credits for {} acknowledged messages on queue pair {}",
                         queue.posted - queue.credited, q);
  }
  return {};
}

void Sender::check(Errc error, std::uint32_t q) const {
  if (error == Errc::ok || error == Errc::queue_full) return;
  const std::string why = session_.first_error();
  throw Failure(why.empty() ? fmt::format("queue pair {}: can't post: {}", q, mrc::to_string(error))
                            : why);
}

}  // namespace mrc::perf
