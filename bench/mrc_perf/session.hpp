// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "control.hpp"
#include "mrc/device.hpp"
#include "options.hpp"

namespace mrc::perf {

/// Areas and messages start at cache lines.
inline constexpr std::size_t kLine = 64;

/// `n` rounded up to a multiple of `to`.
[[nodiscard]] constexpr std::size_t round_up(std::size_t n, std::size_t to) noexcept {
  return (n + to - 1) / to * to;
}

/// Zeroed pages.
class Pages {
 public:
  explicit Pages(std::size_t bytes);
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages();
  [[nodiscard]] std::uint8_t* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_; }

 private:
  std::uint8_t* data_;
  std::size_t bytes_;
};

/// Purpose of a request, in the top bits of its wr_id.
enum class Purpose : std::uint8_t { data, note, credit, receive };
struct RequestId {
  Purpose purpose;
  std::uint32_t qp;
  std::uint64_t number;  ///< of the last message that it completes, modulo 2^40

  [[nodiscard]] std::uint64_t pack() const noexcept {
    return (std::uint64_t{static_cast<std::uint8_t>(purpose)} << 56) | (std::uint64_t{qp} << 40) |
           (number & kNumberMask);
  }
  [[nodiscard]] static RequestId unpack(std::uint64_t id) noexcept {
    return {static_cast<Purpose>(id >> 56), static_cast<std::uint32_t>((id >> 40) & 0xFFFF),
            id & kNumberMask};
  }
  static constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << 40) - 1;
};

/// A device, its memory and its queue pairs, connected to those of the other side. Both sides are
/// built alike: `send` is the source of messages, `receive` is where the peer writes them, and
/// `words` holds one credit per queue pair, written by the peer, and those to be written to the
/// peer. An extra queue pair carries the credits, so that they do not queue behind data.
class Session {
 public:
  /// Makes everything on the open device and connects; throws mrc::Error or Failure.
  Session(Device device, const Parameters& parameters, Control& control, bool server);

  [[nodiscard]] Device& device() noexcept { return device_; }
  [[nodiscard]] CompletionQueue& cq() noexcept { return cq_; }
  [[nodiscard]] QueuePair& qp(std::uint32_t i) noexcept { return qps_[i]; }
  [[nodiscard]] QueuePair& credit_qp() noexcept { return qps_.back(); }
  [[nodiscard]] const Parameters& parameters() const noexcept { return parameters_; }
  [[nodiscard]] Control& control() noexcept { return control_; }

  /// Bytes of message memory for each queue pair.
  [[nodiscard]] std::size_t area() const noexcept { return area_; }
  [[nodiscard]] std::uint8_t* send_area(std::uint32_t qp) const noexcept {
    return send_.data() + qp * area_;
  }
  [[nodiscard]] std::uint8_t* receive_area(std::uint32_t qp) const noexcept {
    return receive_.data() + qp * area_;
  }
  [[nodiscard]] std::uint32_t send_lkey() const noexcept { return send_region_.lkey(); }
  [[nodiscard]] std::uint32_t receive_lkey() const noexcept { return receive_region_.lkey(); }
  /// Destination at the peer of a message of this queue pair.
  [[nodiscard]] RemoteAddress peer_area(std::uint32_t qp, std::size_t offset) const noexcept {
    return {peer_receive_.address + qp * area_ + offset, peer_receive_.rkey};
  }

  /// Number of messages of this queue pair that the peer has credited.
  [[nodiscard]] std::uint64_t credit(std::uint32_t qp) const noexcept {
    // The device writes the word without the compiler's knowledge.
    return std::atomic_ref<std::uint64_t>(*word(qp)).load(std::memory_order_acquire);
  }
  void set_outgoing_credit(std::uint32_t qp, std::uint64_t count) noexcept {
    *word(parameters_.qps + qp) = count;
  }
  /// Writes all outgoing credits into the peer's words.
  Errc post_credits() noexcept;

  /// Receive requests kept posted on each queue pair.
  [[nodiscard]] std::uint32_t receives() const noexcept { return receives_; }
  Errc post_receive(std::uint32_t qp) noexcept {
    return qps_[qp].post_receive(RequestId{Purpose::receive, qp, 0}.pack());
  }
  /// Starts the schedule of --fault; stop_faults() ends it.
  void start_faults();
  void stop_faults();
  /// Payload bytes received by all queue pairs.
  [[nodiscard]] std::uint64_t received_bytes() const;
  /// Why the queue pair of a failed completion failed, as text.
  [[nodiscard]] std::string cause(const Completion& completion) const;
  /// Why the first queue pair in ERR failed; empty if none did.
  [[nodiscard]] std::string first_error() const;
  /// Upper bound of the time after which a queue pair detects that its peer is gone.
  [[nodiscard]] Duration patience() const;

 private:
  void create_queue_pairs();
  void exchange_memory(bool server);
  void connect(bool server);
  [[nodiscard]] bool is_heard_by(Time end);
  [[nodiscard]] bool has_bad_icrc() const;
  [[nodiscard]] std::uint64_t* word(std::uint32_t i) const noexcept {
    return reinterpret_cast<std::uint64_t*>(words_.data()) + i;
  }

  Parameters parameters_;
  Control& control_;
  std::size_t area_;
  std::uint32_t receives_;
  Pages send_, receive_, words_;
  Device device_;
  MemoryRegion send_region_, receive_region_, words_region_;
  CompletionQueue cq_;
  std::vector<QueuePair> qps_;
  RemoteAddress peer_receive_, peer_words_;
};

}  // namespace mrc::perf
