// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/data/receiver.hpp"

#include <bit>

namespace mrc_nccl {

Receiver::Receiver(std::unique_ptr<Endpoint> endpoint, std::shared_ptr<Context> context)
    : Connection(std::move(endpoint), std::move(context)) {
  for (unsigned i = 0; i < free_.size(); ++i) free_[i] = static_cast<std::uint16_t>(i);
}

Result Receiver::irecv(std::span<const ReceiveBuffer> buffers, bool early, Request** request) {
  *request = nullptr;
  if (failed()) return state();
  Slot& slot = slots_[group_ % kSlots];
  // Nobody tests what was done early, so this looks after the peer.
  if (early || slot.used || free_count_ == 0) {
    progress();
    if (failed() || slot.used || free_count_ == 0) return state();
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

/// Writes records into the sender's ring: as many with one write as one packet carries, in which
/// they become visible in order.
void Receiver::tell() {
  while (told_ != group_ && !failed()) {
    std::uint64_t end = told_ + 1;
    while (end != group_ && end % kSlots != 0 && told_bytes(end + 1) <= endpoint_->told_at_once)
      ++end;
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
      told_ = end;
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
  Slot* slot = immediate.slot < kSlots ? &slots_[immediate.slot] : nullptr;
  if (slot == nullptr || !slot->used || slot->number >= told_ || immediate.index >= slot->count ||
      (slot->arrived & 1u << immediate.index) != 0) {
    fail(Result::remote_error, "the peer has written to a receive that was not announced to it");
    return;
  }
  if (immediate.too_large) {
    fail(Result::invalid_usage, "the peer's send is larger than the receive for it");
    return;
  }
  slot->arrived |= 1u << immediate.index;
  traffic_.messages += 1;
  traffic_.bytes += bytes;
  if (slot->request != nullptr) slot->request->sizes[immediate.index] = bytes;
  if (static_cast<unsigned>(std::popcount(slot->arrived)) < slot->count) return;
  if (slot->request != nullptr) slot->request->done = true;
  slot->used = false;
  --pending_;
}

void Receiver::release(Request& request) noexcept {
  free_[free_count_++] = static_cast<std::uint16_t>(&request - requests_.data());
}

}  // namespace mrc_nccl
