// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/data/sender.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>

namespace mrc_nccl {

static_assert(sizeof(EagerMessage) <= mrc::kMaxInlineBytes);

Sender::Sender(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<Context> context)
    : Connection(std::move(endpoint), std::move(context)) {
  for (unsigned i = 0; i < free_.size(); ++i) free_[i] = static_cast<std::uint16_t>(i);
  context_->add(this);
}

/// Buffers of the receive that is next; 0 if the receiver has not posted it yet.
unsigned Sender::group_size() noexcept {
  ClearToSend& record = endpoint_->mailbox->records[group_ % kSlots];
  const auto ready = std::atomic_ref(record.ready).load(std::memory_order_acquire);
  const auto count = static_cast<unsigned>(ready & 0xFF);
  if (ready != ClearToSend::make_ready(group_, count) || count > kMaxGroup) return 0;
  if (count > 0) taken_ = record.targets[ClearToSend::index(count, 0)].taken;
  return count;
}

/// A buffer of the receive that is next has its send.
void Sender::serve(unsigned index, unsigned count) noexcept {
  served_ |= 1u << index;
  if (static_cast<unsigned>(std::popcount(served_)) < count) return;
  ++group_;
  served_ = 0;
}

/// group_size(), after the messages that were sent before their receives were known have found
/// theirs. One look at each record decides: the next one may be there a moment later.
unsigned Sender::look() {
  while (!failed()) {
    const unsigned count = group_size();
    const std::uint64_t group = group_;
    const auto& targets = endpoint_->mailbox->records[group % kSlots].targets;
    for (unsigned i = 0; i < count && group == group_ && unmatched_.size() > 0; ++i) {
      const Target& target = targets[ClearToSend::index(count, i)];
      if ((served_ & 1u << i) != 0) continue;
      const auto message = unmatched_.take(target.tag);
      if (!message) continue;
      if (message->size > target.size)
        refuse(message->size, target, i);
      else
        serve(i, count);
    }
    if (group == group_) return failed() ? 0 : count;
  }
  return 0;
}

Result Sender::isend(const void* data, std::size_t size, int tag, const Registration* memory,
                     void* parent, Request** request) {
  *request = nullptr;
  if (failed()) return state();
  unsigned count = look();
  if (count == 0) {
    progress();
    count = look();
    // Without a receive, nothing will come of this send.
    if (count == 0 && (failed() || peer_gone())) return failed() ? state() : fail_gone();
  }
  const auto& targets = endpoint_->mailbox->records[group_ % kSlots].targets;
  for (unsigned i = 0; i < count; ++i) {
    const Target& target = targets[ClearToSend::index(count, i)];
    if ((served_ & 1u << i) != 0 || target.tag != tag) continue;
    if (size > target.size) return refuse(size, target, i);
    if (free_count_ == 0) return Result::success;
    Request& taken = requests_[free_[free_count_ - 1]];
    const Result result = post(data, size, memory, target, i, taken);
    if (result != Result::success || !taken.used) return result;
    start_event(taken, 0, parent, size, mrc::SendOpcode::write_imm);
    serve(i, count);
    *request = &taken;
    return Result::success;
  }
  const bool registered = size == 0 || (memory != nullptr && memory->holds(data, size));
  if (count == 0 && registered) return isend_eager(data, size, tag, parent, request);
  if (count > 0) progress();  // the receive of this tag is in a later group
  return state();
}

/// Sends a message whose receive is not known, if it is small and there is room for it.
Result Sender::isend_eager(const void* data, std::size_t size, int tag, void* parent,
                           Request** request) {
  // A record may say that messages were taken whose own records are not here yet.
  const bool room = eager_ - taken_ < kEagerSlots && !unmatched_.full() && free_count_ > 0;
  if (!endpoint_->peer_takes_eager || size > EagerMessage::kMostData || !room)
    return Result::success;
  EagerMessage message;
  message.group = group_;
  message.tag = tag;
  if (size > 0) std::memcpy(message.data.data(), data, size);
  const mrc::Sge sge{&message, static_cast<std::uint32_t>(EagerMessage::kHeader + size), 0};
  const unsigned slot = eager_ % kEagerSlots;
  mrc::RemoteAddress place = endpoint_->peer_mailbox;
  place.address += offsetof(Mailbox, messages) + slot * sizeof message;
  Request& taken = requests_[free_[free_count_ - 1]];
  const mrc::Errc e = endpoint_->post({.opcode = mrc::SendOpcode::write_imm,
                                       .sges = {&sge, 1},
                                       .remote = place,
                                       .immediate = Immediate{.slot = slot, .eager = true}.encode(),
                                       .flags = {.signaled = false, .inline_data = true}});
  if (e != mrc::Errc::ok) return not_posted(e, size);
  start(taken, size, true);
  start_event(taken, 0, parent, size, mrc::SendOpcode::write_imm);
  unmatched_.add({tag, static_cast<std::uint32_t>(size)});
  ++eager_;
  *request = &taken;
  return Result::success;
}

Result Sender::post(const void* data, std::size_t size, const Registration* memory,
                    const Target& target, unsigned index, Request& request) {
  mrc::Sge sge{data, static_cast<std::uint32_t>(size),
               memory == nullptr ? 0 : memory->region.lkey()};
  const Immediate immediate{static_cast<unsigned>(group_ % kSlots), index, false};
  mrc::SendRequest write;
  const auto number = static_cast<std::uint64_t>(&request - requests_.data());
  write.wr_id = number;
  write.opcode = mrc::SendOpcode::write_imm;
  write.immediate = immediate.encode();
  write.remote = endpoint_->peer_mailbox;  // an empty one needs some valid place
  // The queue pair looks at the memory of what is not copied.
  const bool registered = size == 0 || (memory != nullptr && memory->holds(data, size));
  const bool inlined = registered && size <= mrc::kMaxInlineBytes;
  const bool copied = inlined || (registered && may_copy(size));
  auto& copies = endpoint_->copies;
  const std::uint64_t before = copies ? copies->end() : 0;
  write.flags = {.signaled = !copied, .inline_data = inlined};
  if (copied && !inlined) {
    sge = copies->copy(data, size);
    write.flags.signaled = copies->end() - signaled_ >= CopyRing::kBytes / 4;
    write.wr_id = requests_.size() + copies->end();
  }
  if (size > 0) {
    write.sges = {&sge, 1};
    write.remote = {target.address, target.rkey};
  }
  const mrc::Errc e = endpoint_->post(write);
  if (e != mrc::Errc::ok && copies) copies->take_back(before);
  if (e != mrc::Errc::ok) return not_posted(e, size);
  if (copies) {
    copied_until_[number] = copies->end();
    if (write.flags.signaled) signaled_ = copies->end();
  }
  start(request, size, copied);
  return Result::success;
}

/// What became of a send that the queue pair did not take.
Result Sender::not_posted(mrc::Errc e, std::size_t size) {
  if (e == mrc::Errc::queue_full) {
    progress();
    return state();
  }
  if (e == mrc::Errc::invalid_state) return fail_queue_pair();
  return fail(Result::internal_error, "a send of " + std::to_string(size) +
                                          " bytes was refused: " + mrc::to_string(e) +
                                          " (was its memory registered with this NIC?)");
}

/// The request on top of the free ones is a send that was posted; copied: NCCL has its buffer back.
void Sender::start(Request& request, std::size_t size, bool copied) {
  --free_count_;
  pending_ += copied ? 0 : 1;
  unconfirmed_ = copied;
  if (copied) note_busy();
  traffic_.messages += 1;
  traffic_.bytes += size;
  request.connection = this;
  request.used = true;
  request.done = request.copied = copied;
  request.count = 1;
  request.sizes[0] = static_cast<std::uint32_t>(size);
}

/// The receiver learns of it too: both sides have misunderstood each other.
Result Sender::refuse(std::size_t size, const Target& target, unsigned index) {
  const Immediate immediate{static_cast<unsigned>(group_ % kSlots), index, true};
  (void)endpoint_->post({.wr_id = kRefusal,
                         .opcode = mrc::SendOpcode::write_imm,
                         .remote = endpoint_->peer_mailbox,
                         .immediate = immediate.encode()});
  return fail(Result::invalid_usage,
              "a send of " + std::to_string(size) + " bytes (tag " + std::to_string(target.tag) +
                  ") is larger than its receive of " + std::to_string(target.size));
}

void Sender::on_completion(const mrc::Completion& completion) {
  // Requests complete in the order in which they were posted.
  if (completion.wr_id >= requests_.size())
    return endpoint_->copies->release(completion.wr_id - requests_.size());
  if (endpoint_->copies) endpoint_->copies->release(copied_until_[completion.wr_id]);
  requests_[completion.wr_id].done = true;
  --pending_;
}

bool Sender::may_copy(std::size_t size) noexcept {
  if (size > kMostCopied || no_copies_) return false;
  try {
    if (!endpoint_->copies) endpoint_->copies.emplace(endpoint_->nic->device());
  } catch (...) {  // no memory, or no room for one more region: NCCL's own buffers do as well
    no_copies_ = true;
    return false;
  }
  return endpoint_->copies->has_room(size);
}

void Sender::release(Request& request) noexcept {
  free_[free_count_++] = static_cast<std::uint16_t>(&request - requests_.data());
}

void Sender::set_hint(const nccl_abi::CommAttributes& attributes) noexcept {
  if (attributes.max_concurrent_peers <= 0) return;
  (void)endpoint_->qp.set_hint(
      {.peers = static_cast<std::uint32_t>(attributes.max_concurrent_peers),
       .flows_per_peer = static_cast<std::uint32_t>(std::max(attributes.max_flows_per_peer, 1))});
}

}  // namespace mrc_nccl
