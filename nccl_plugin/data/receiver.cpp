// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/data/receiver.hpp"

#include <algorithm>
#include <bit>

namespace mrc_nccl {

namespace {

constexpr const char* kTooLarge = "the peer's send is larger than the receive for it";

}  // namespace

Receiver::Receiver(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<Context> context)
    : Connection(std::move(endpoint), std::move(context)) {
  for (unsigned i = 0; i < free_.size(); ++i) free_[i] = static_cast<std::uint16_t>(i);
}

Result Receiver::irecv(std::span<const ReceiveBuffer> buffers, bool early, Request** request) {
  *request = nullptr;
  if (failed()) return state();
  Slot& slot = slots_[group_ % kSlots];
  // Nobody tests what was done early, so this looks after the peer. A sender whose messages were
  // eager may not have read the records that were here before: it says so with the next one, and
  // needs no receive for that.
  const auto no_room = [&] { return slot.used || group_ >= read_ + kSlots || free_count_ == 0; };
  if (early || no_room()) {
    progress();
    if (failed() || no_room()) return state();
  }
  note(buffers);
  Request& taken = requests_[free_[--free_count_]];
  taken.connection = this;
  taken.used = true;
  taken.done = early;
  taken.count = static_cast<unsigned>(buffers.size());
  taken.sizes = {};
  for (unsigned i = 0; i < buffers.size(); ++i)
    start_event(taken, i, buffers[i].parent, buffers[i].size, mrc::SendOpcode::write);
  slot = {group_, true, taken.count, 0, early ? nullptr : &taken};
  ++group_;
  ++pending_;
  for (unsigned i = 0; i < buffers.size() && unmatched_.size() > 0 && !failed(); ++i)
    if (const auto message = unmatched_.take(buffers[i].tag)) copy(slot, i, *message);
  if (failed()) return state();
  *request = &taken;
  // NCCL posts what it can before it tests any of it: one write tells of several receives.
  const bool full = told_bytes(group_) + sizeof(ClearToSend) > endpoint_->told_at_once;
  if (early || full) tell();
  return state();
}

/// Makes the record of the next receive.
void Receiver::note(std::span<const ReceiveBuffer> buffers) noexcept {
  const auto count = static_cast<unsigned>(buffers.size());
  ClearToSend& record = records_[group_ % kSlots];
  for (unsigned i = 0; i < count; ++i) {
    const ReceiveBuffer& buffer = buffers[i];
    record.targets[ClearToSend::index(count, i)] = {
        reinterpret_cast<std::uint64_t>(buffer.data),
        buffer.memory == nullptr ? 0 : buffer.memory->region.rkey(),
        static_cast<std::uint32_t>(buffer.size), buffer.tag};
  }
  record.ready = ClearToSend::make_ready(group_, count);
}

/// Bytes from the first record that the sender does not know yet to that before number `end`.
std::size_t Receiver::told_bytes(std::uint64_t end) const noexcept {
  const auto targets = static_cast<unsigned>(records_[told_ % kSlots].ready & 0xFF);
  return (end - told_) * sizeof(ClearToSend) - ClearToSend::begin(targets);
}

/// Does the sender need to know what it was not told?
bool Receiver::has_news() const noexcept {
  if (taken() - told_taken_ > kEagerSlots / 2) return group_ != told_;
  for (std::uint64_t number = told_; number != group_; ++number)
    if (slots_[number % kSlots].used) return true;
  return false;
}

/// Writes records into the sender's ring: as many with one write as one packet carries, in which
/// they become visible in order.
void Receiver::tell() {
  if (!has_news()) return;
  while (told_ != group_ && !failed()) {
    std::uint64_t end = told_ + 1;
    while (end != group_ && end % kSlots != 0 && told_bytes(end + 1) <= endpoint_->told_at_once)
      ++end;
    const std::uint32_t now_taken = taken();
    for (std::uint64_t number = told_; number != end; ++number) {
      ClearToSend& record = records_[number % kSlots];
      record.targets[ClearToSend::index(record.ready & 0xFF, 0)].taken = now_taken;
    }
    const ClearToSend& first = records_[told_ % kSlots];
    const std::size_t begin = sizeof first * (end - told_) - told_bytes(end);
    const mrc::Sge sge{reinterpret_cast<const std::byte*>(&first) + begin,
                       static_cast<std::uint32_t>(told_bytes(end)), 0};
    mrc::RemoteAddress place = endpoint_->peer_mailbox;
    place.address += told_ % kSlots * sizeof first + begin;
    const mrc::Errc e = endpoint_->post(
        {.sges = {&sge, 1}, .remote = place, .flags = {.signaled = false, .inline_data = true}});
    if (e == mrc::Errc::queue_full) return;  // until the peer has acknowledged some
    if (e == mrc::Errc::invalid_state)
      fail_queue_pair();
    else if (e != mrc::Errc::ok)
      fail(Result::internal_error,
           std::string("a receive could not be announced: ") + mrc::to_string(e));
    else
      told_ = end, told_taken_ = now_taken;
  }
}

void Receiver::on_completion(const mrc::Completion& completion) {
  if (completion.opcode != mrc::WcOpcode::recv_write_imm) return;
  if (const mrc::Errc e = endpoint_->qp.post_receive(0);
      e != mrc::Errc::ok && e != mrc::Errc::invalid_state) {
    fail(Result::internal_error, std::string("posting a receive: ") + mrc::to_string(e));
    return;
  }
  arrive(Immediate::decode(completion.immediate), completion.byte_len);
}

void Receiver::arrive(const Immediate& immediate, std::uint32_t bytes) {
  if (immediate.eager) return arrive_eager(immediate.slot, bytes);
  Slot* slot = immediate.slot < kSlots ? &slots_[immediate.slot] : nullptr;
  if (slot == nullptr || !slot->used || slot->number >= told_ || immediate.index >= slot->count ||
      (slot->arrived & 1u << immediate.index) != 0) {
    fail(Result::remote_error, "the peer has written to a receive that was not announced to it");
    return;
  }
  if (immediate.too_large) {
    fail(Result::invalid_usage, kTooLarge);
    return;
  }
  complete(*slot, immediate.index, bytes);
  // It has read the record; and needs it for other buffers, if there are any.
  read_ = std::max(read_, slot->number + (slot->used ? 0 : 1));
}

void Receiver::arrive_eager(unsigned place, std::uint32_t bytes) {
  const EagerMessage& from = endpoint_->mailbox->messages[eager_ % kEagerSlots];
  if (place != eager_ % kEagerSlots || unmatched_.full() || bytes < EagerMessage::kHeader ||
      bytes > sizeof from || from.group < read_ || from.group > told_) {
    fail(Result::remote_error, "the peer has sent an eager message that does not follow the last");
    return;
  }
  read_ = from.group;
  const Unmatched message{from.tag, bytes - static_cast<std::uint32_t>(EagerMessage::kHeader),
                          eager_++};
  for (std::uint64_t number = first_; number != group_; ++number) {
    Slot& slot = slots_[number % kSlots];
    for (unsigned i = 0; slot.used && i < slot.count; ++i) {
      const Target& target = records_[number % kSlots].targets[ClearToSend::index(slot.count, i)];
      if ((slot.arrived & 1u << i) == 0 && target.tag == message.tag) return copy(slot, i, message);
    }
  }
  unmatched_.add(message);
}

/// Eager messages from the first on whose place in the ring is free again.
std::uint32_t Receiver::taken() const noexcept {
  return unmatched_.size() == 0 ? eager_ : unmatched_.oldest().number;
}

/// Copies an eager message to where it belongs.
void Receiver::copy(Slot& slot, unsigned index, const Unmatched& message) {
  const Target& target =
      records_[slot.number % kSlots].targets[ClearToSend::index(slot.count, index)];
  const void* from = endpoint_->mailbox->messages[message.number % kEagerSlots].data.data();
  if (message.size > target.size)
    fail(Result::invalid_usage, kTooLarge);
  else if (message.size > 0 &&
           !endpoint_->nic->memory().write(target.rkey, target.address, from, message.size))
    fail(Result::invalid_usage, "a message of " + std::to_string(message.size) +
                                    " bytes is for memory that its receive names, and that is "
                                    "not, or not any more, registered with this NIC");
  else
    complete(slot, index, message.size);
}

/// A buffer of a receive has its data.
void Receiver::complete(Slot& slot, unsigned index, std::uint32_t bytes) {
  slot.arrived |= 1u << index;
  traffic_.messages += 1;
  traffic_.bytes += bytes;
  if (slot.request != nullptr) slot.request->sizes[index] = bytes;
  if (static_cast<unsigned>(std::popcount(slot.arrived)) < slot.count) return;
  if (slot.request != nullptr) slot.request->done = true;
  slot.used = false;
  --pending_;
  while (first_ != group_ && !slots_[first_ % kSlots].used) ++first_;
}

void Receiver::release(Request& request) noexcept {
  free_[free_count_++] = static_cast<std::uint16_t>(&request - requests_.data());
}

}  // namespace mrc_nccl
