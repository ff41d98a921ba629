// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "mrc/core/random.hpp"
#include "mrc/net/address.hpp"
#include "nccl_plugin/abi/types.hpp"

namespace mrc_nccl {

/// What a listener gives to those who connect to it, in NCCL's 128 opaque bytes: where its TCP port
/// is. NCCL passes the same buffer to each call of connect(), which keeps the number of its attempt
/// there.
struct Handle {
  static constexpr std::uint32_t kMagic = 0x4E43524D;  // "MRCN"
  static constexpr unsigned kMostAddresses = 5;
  static constexpr std::uint8_t kVersion = 5;

  std::uint32_t magic = kMagic;
  std::uint16_t port = 0;           ///< TCP, host byte order
  std::uint8_t version = kVersion;  ///< of handle and set-up messages
  std::uint8_t addresses = 0;       ///< of these
  mrc::SipKey secret{};             ///< of listener and peer: authenticates what they say (Channel)
  std::array<mrc::port::IpAddress, kMostAddresses> ip{};
  std::uint32_t checksum = 0;
  std::uint32_t attempt = 0;  ///< of the side that connects; 0: none yet

  /// Reads the bytes that NCCL has carried. Nothing if they are not a handle of this plugin.
  [[nodiscard]] static std::optional<Handle> read(const void* bytes) noexcept {
    Handle handle;
    std::memcpy(&handle, bytes, sizeof handle);
    if (handle.magic != kMagic || handle.version != kVersion || handle.addresses == 0 ||
        handle.addresses > kMostAddresses || handle.checksum != handle.sum())
      return std::nullopt;
    return handle;
  }
  /// Why read() refuses these bytes, in words.
  [[nodiscard]] static std::string complaint(const void* bytes) {
    Handle handle;
    std::memcpy(&handle, bytes, sizeof handle);
    if (handle.magic == kMagic && handle.version != kVersion)
      return "the handle to connect to has version " + std::to_string(handle.version) +
             " of this plugin's set-up, and this process speaks version " +
             std::to_string(kVersion) + ": use the same OpenMRC on all ranks";
    return "the handle to connect to is not one of this plugin; do all ranks use it, in the same "
           "version?";
  }
  /// Writes the bytes for NCCL, with their checksum.
  void write(void* bytes) noexcept {
    checksum = sum();
    std::memset(bytes, 0, nccl_abi::kHandleBytes);
    std::memcpy(bytes, this, sizeof *this);
  }

 private:
  // FNV-1a over what comes before the checksum.
  [[nodiscard]] std::uint32_t sum() const noexcept {
    std::array<std::uint8_t, sizeof(Handle)> bytes;
    std::memcpy(bytes.data(), this, sizeof *this);
    std::uint32_t hash = 0x811C9DC5;
    for (std::size_t i = 0; i < offsetof(Handle, checksum); ++i)
      hash = (hash ^ bytes[i]) * 0x01000193;
    return hash;
  }
};
static_assert(sizeof(Handle) == 112 && sizeof(Handle) <= nccl_abi::kHandleBytes);

}  // namespace mrc_nccl
