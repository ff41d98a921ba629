// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "nccl_plugin/host/net.hpp"

/// Both ends of a connection as NCCL's proxy drives them: a registered buffer of eight slots, of
/// which each holds a message that a kernel wrote or will read.
namespace mrc::nccl_perf {

using nccl_host::Net;

/// NCCL_STEPS: messages in flight per connection.
inline constexpr std::uint64_t kSlots = 8;

/// What both ends share: the buffer, its registration and the requests. A comm of the plugin
/// belongs to it from the beginning.
///
/// Made and closed by the service thread; all else is up to the progress thread.
class Connection {
 public:
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

 protected:
  /// Takes the comm and registers the buffer. Throws Failure; the comm is closed then.
  Connection(Net& net, void* comm, bool sends, std::size_t slot, int tag);
  ~Connection();

  [[nodiscard]] std::byte* slot(std::uint64_t number) const noexcept {
    return buffer_ + number % kSlots * slot_bytes_;
  }
  /// Whether the request of this message is done; its size.
  [[nodiscard]] bool is_done(std::uint64_t number, std::size_t& bytes);

  Net& net_;
  void* comm_;
  void* mr_ = nullptr;
  std::size_t slot_bytes_;
  int tag_;  ///< the sender's rank
  std::array<void*, kSlots> requests_{};
  std::array<std::size_t, kSlots> sizes_{};

 private:
  void close() noexcept;

  bool sends_;
  std::byte* buffer_ = nullptr;
};

/// The kernel fills slots, the network empties them.
class SendConnection : public Connection {
 public:
  SendConnection(Net& net, void* comm, std::size_t slot, int tag)
      : Connection(net, comm, true, slot, tag) {}

  [[nodiscard]] bool has_room() const noexcept { return filled_ - done_ < kSlots; }
  /// Where the kernel writes the next message; has_room() holds.
  [[nodiscard]] std::byte* next() const noexcept { return slot(filled_); }
  /// It has done so.
  void fill(std::size_t bytes) noexcept { sizes_[filled_++ % kSlots] = bytes; }

  /// Sends what is filled, tests what is sent. Returns whether anything changed. Throws Failure.
  bool progress();
  [[nodiscard]] bool is_idle() const noexcept { return done_ == filled_; }

 private:
  std::uint64_t filled_ = 0, sent_ = 0, done_ = 0;  // messages
};

/// The network fills slots, the kernel empties them.
class ReceiveConnection : public Connection {
 public:
  ReceiveConnection(Net& net, void* comm, std::size_t slot, int tag)
      : Connection(net, comm, false, slot, tag) {}

  /// So many messages more will come.
  void expect(std::uint64_t messages) noexcept { expected_ += messages; }
  [[nodiscard]] bool has_message() const noexcept { return received_ != consumed_; }
  /// The oldest message that was not consumed; has_message() holds.
  [[nodiscard]] const std::byte* next() const noexcept { return slot(consumed_); }
  [[nodiscard]] std::size_t next_bytes() const noexcept { return sizes_[consumed_ % kSlots]; }
  void consume() noexcept { ++consumed_; }

  /// Posts receives for free slots, tests those posted. Returns whether anything changed. Throws
  /// Failure.
  bool progress();

 private:
  std::uint64_t expected_ = 0, posted_ = 0, received_ = 0, consumed_ = 0;  // messages
};

}  // namespace mrc::nccl_perf
