// SPDX-License-Identifier: Apache-2.0
// MemoryRegion: a thin cover over DeviceCore.
#pragma once

#include <utility>

#include "mrc/device.hpp"
#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1 {

MemoryRegion::MemoryRegion(std::shared_ptr<detail::DeviceCore> core, void* address,
                           std::size_t length, std::uint32_t key)
    : core_(std::move(core)), address_(address), length_(length), key_(key) {}

void MemoryRegion::swap(MemoryRegion& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(address_, other.address_);
  std::swap(length_, other.length_);
  std::swap(key_, other.key_);
}
MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  MemoryRegion taken(std::move(other));
  swap(taken);
  return *this;
}
Errc MemoryRegion::close() noexcept {
  if (const Errc e = detail::usable(core_); e != Errc::ok) return e;
  const Errc e = core_->deregister_memory(key_, false);
  if (e != Errc::ok) return e;
  core_.reset();
  address_ = nullptr;
  length_ = 0;
  key_ = 0;
  return Errc::ok;
}
MemoryRegion::~MemoryRegion() {
  if (const Errc e = close(); e == Errc::ok || e == Errc::not_found || e == Errc::forked) return;
  (void)core_->deregister_memory(key_, true);
}

}  // namespace mrc::inline v0_1
