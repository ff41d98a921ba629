// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdlib>
#include <string>

#include "mrc/core/error.hpp"
#include "mrc/plane/verbs/uc_sender.hpp"

namespace mrc::inline v0_1::port {

UcSender::UcSender(const UcSenderOptions& o)
    : path_count_(o.paths), believe_(ticks(o.believe)), protect_(ticks(o.protect)), mask_(0) {
  constexpr Duration kMost = std::chrono::hours{24};
  if (o.paths < 1 || o.paths > kMaxUcPaths)
    throw Error(Errc::invalid_argument, "UC paths: " + std::to_string(o.paths) + ", not 1 to " +
                                            std::to_string(kMaxUcPaths));
  if (o.capacity < 1 || o.capacity > 1u << 24)
    throw Error(Errc::invalid_argument, "UC origins: " + std::to_string(o.capacity) +
                                            ", not 1 to " + std::to_string(1u << 24));
  if (o.protect < Duration{} || o.believe < o.protect || o.believe > kMost)
    throw Error(Errc::invalid_argument,
                "UC origins: times must be 0 <= protect <= believe <= 24 hours");
  entries_.resize(std::bit_ceil(o.capacity));
  mask_ = static_cast<std::uint32_t>(entries_.size()) - 1;
}

void UcSender::add_peer(PeerId id, Time now) {
  Peer& peer = peers_.claim(id);
  peer.paths.resize(path_count_);
  peer.since = tick(now);
}

void UcSender::forget(PeerId id) noexcept {
  peers_.remove(id);
}

bool UcSender::knows(PeerId id) const noexcept {
  const Peer* peer = peers_.find(id);
  return peer != nullptr && !peer->paths.empty();
}

UcName UcSender::assign(PeerId id, std::uint16_t path) noexcept {
  Path& p = peers_.find(id)->paths[path];
  p.used = true;
  if (p.next == kNoUcSeq) p.next = 0;
  return {path, p.epoch, p.next++};
}

void UcSender::take_back(PeerId id, const UcName& name) noexcept {
  Peer* peer = peers_.find(id);
  if (peer == nullptr || name.path >= peer->paths.size()) return;
  Path& p = peer->paths[name.path];
  if (p.epoch == name.epoch && p.next == name.seq + 1) p.next = name.seq;
}

bool UcSender::restart(PeerId id, std::uint16_t path, std::uint8_t epoch) noexcept {
  Peer* peer = peers_.find(id);
  if (peer == nullptr || path >= peer->paths.size()) return false;
  Path& p = peer->paths[path];
  if (uc_epoch_steps(p.epoch, epoch) <= 0) return false;
  p = {.next = 0, .used = false, .epoch = epoch};
  return true;
}

bool UcSender::taken(const Entry& e, Qpn owner, Psn psn, std::uint32_t now_tick) const noexcept {
  const std::uint32_t holder = e.owner_path >> 8;
  if (holder == kNoOwner || protect_ == 0 || now_tick - e.tick > protect_) return false;
  if (holder != value(owner)) return true;
  // The same number again is another packet, or one that was not sent. What is further away than a
  // window has been acknowledged.
  const std::int32_t steps = psn - Psn{e.psn_epoch >> 8};
  return steps != 0 && std::abs(steps) <= kMaxWindow;
}

bool UcSender::remember(Qpn owner, Psn psn, const UcName* name, Time now) noexcept {
  Entry& e = entry_of(owner, psn);
  const std::uint32_t now_tick = tick(now);
  if (taken(e, owner, psn, now_tick)) {
    ++stats_.refused;
    return false;
  }
  e.owner_path = value(owner) << 8 | (name != nullptr ? name->path : kByUd);
  e.psn_epoch = psn.value() << 8 | (name != nullptr ? name->epoch : 0u);
  e.seq = name != nullptr ? name->seq : 0;
  e.tick = now_tick;
  return true;
}

UcOriginKind UcSender::origin(Qpn owner, Psn psn, PeerId id, Time now, UcName& name) noexcept {
  const Entry& e = entry_of(owner, psn);
  const Peer* peer = peers_.find(id);
  const bool ours = peer != nullptr && e.owner_path >> 8 == value(owner) &&
                    e.psn_epoch >> 8 == psn.value() && tick(now) - e.tick < believe_ &&
                    static_cast<std::int32_t>(e.tick - peer->since) >= 0;
  const std::uint32_t path = e.owner_path & 0xFF;
  if (ours && path == kByUd) return UcOriginKind::none;
  if (ours && path < peer->paths.size()) {
    const Path& p = peer->paths[path];
    if (p.epoch != (e.psn_epoch & 0xFF)) return UcOriginKind::none;  // reset since
    if (uc_steps(e.seq, p.next) > 0) {  // else the path never had it: another peer's
      name = {static_cast<std::uint16_t>(path), p.epoch, e.seq};
      return UcOriginKind::name;
    }
  }
  ++stats_.forgotten;
  return UcOriginKind::unknown;
}

void UcSender::barrier(PeerId id, UcOrigins& origins) const noexcept {
  origins.count = 0;
  const Peer* peer = peers_.find(id);
  if (peer == nullptr) return;
  for (std::uint16_t path = 0; path < peer->paths.size(); ++path) {
    const Path& p = peer->paths[path];
    const std::uint32_t newest = p.next != 0 ? p.next - 1 : kNoUcSeq - 1;
    if (p.used) origins.add({path, p.epoch, newest});
  }
}

}  // namespace mrc::inline v0_1::port
