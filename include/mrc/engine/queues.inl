// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "mrc/engine/options.hpp"
#include "mrc/engine/queues.hpp"

namespace mrc::inline v0_1::engine {

Completions::Completions(std::uint32_t max_queues, std::uint32_t max_qps, std::uint32_t max_srqs)
    : max_queues_(max_queues),
      signalled_(max_queues),
      overrun_(max_queues),
      failed_(max_qps),
      drained_(max_qps),
      limits_(max_srqs) {
  queues_.reserve(max_queues);
}

Result<CqId> Completions::create(std::uint32_t depth) {
  if (depth == 0 || depth > kMaxCqDepth) return Errc::invalid_argument;
  for (std::uint32_t i = 0; i < max_queues_; ++i) {
    if (i == queues_.size()) queues_.emplace_back();
    if (queues_[i]) continue;
    queues_[i] = std::make_unique<CompletionRing>(depth);
    return CqId{i};
  }
  return Errc::no_resources;
}

Errc Completions::destroy(CqId id) noexcept {
  const CompletionRing* cq = find(id);
  if (cq == nullptr) return Errc::not_found;
  if (cq->users > 0) return Errc::in_use;
  remove_all(signalled_, id);  // its number will be used again
  remove_all(overrun_, id);
  queues_[static_cast<std::uint32_t>(id)].reset();
  return Errc::ok;
}

bool Completions::complete(CqId id, const Completion& completion) noexcept {
  CompletionRing* cq = find(id);
  const bool room = cq->push(completion);
  if (!room && !cq->failing) {
    cq->failing = true;
    overrun_pending_ = true;
    overrun_.push_back(id);
  }
  const bool solicited = completion.solicited || completion.status != WcStatus::success;
  const bool wanted = cq->armed == Arm::all || (cq->armed == Arm::solicited && solicited);
  if (wanted && !cq->signalled) {
    cq->armed = Arm::none;
    cq->signalled = signalled_.push_back(id);
    cq->solicited = false;
  }
  cq->solicited = cq->solicited || solicited;
  return room;
}

std::size_t Completions::poll(CqId id, std::span<Completion> out) noexcept {
  CompletionRing* cq = find(id);
  return cq == nullptr ? 0 : cq->poll(out);
}

Errc Completions::arm(CqId id, Arm what) noexcept {
  CompletionRing* cq = find(id);
  if (cq == nullptr) return Errc::not_found;
  cq->armed = std::max(cq->armed, what);
  return Errc::ok;
}

bool Completions::poll_event(EngineEvent& event) noexcept {
  event = {};
  if (!signalled_.empty()) {
    event.kind = EngineEvent::Kind::completion;
    event.cq = signalled_.front();
    signalled_.pop_front();
    if (CompletionRing* cq = find(event.cq)) {
      cq->signalled = false;
      event.solicited = cq->solicited;
    }
    return true;
  }
  if (!overrun_.empty()) {
    event.kind = EngineEvent::Kind::cq_overrun;
    event.cq = overrun_.front();
    overrun_.pop_front();
    return true;
  }
  if (!failed_.empty()) {
    event.kind = EngineEvent::Kind::qp_error;
    event.qpn = failed_.front();
    failed_.pop_front();
    return true;
  }
  if (!drained_.empty()) {
    event.kind = EngineEvent::Kind::last_wqe;
    event.qpn = drained_.front();
    drained_.pop_front();
    return true;
  }
  if (limits_.empty()) return false;
  event.kind = EngineEvent::Kind::srq_limit;
  event.srq = limits_.front();
  limits_.pop_front();
  return true;
}

}  // namespace mrc::inline v0_1::engine
