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

/// Areas start and messages lie on whole cache lines.
inline constexpr std::size_t kLine = 64;

/// `n` or the next multiple of `to` above it.
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

/// What a request is for, in the top bits of its wr_id.
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
/// built alike: `send` is where messages come from, `receive` where the peer writes them, and
/// `words` holds one credit per queue pair, written by the peer, and those that go to the peer. An
/// extra queue pair carries the credits, so that they do not queue up behind data.
class Session {
 public:
  /// Opens everything and connects; throws mrc::Error or Failure.
  Session(const Config& config, const Parameters& parameters, Control& control, bool server);

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
  /// Where a message of this queue pair goes at the peer.
  [[nodiscard]] RemoteAddress peer_area(std::uint32_t qp, std::size_t offset) const noexcept {
    return {peer_receive_.address + qp * area_ + offset, peer_receive_.rkey};
  }

  /// Messages of this queue pair that the peer says it has dealt with.
  [[nodiscard]] std::uint64_t credit(std::uint32_t qp) const noexcept {
    // The device writes the word behind the compiler's back.
    return std::atomic_ref<std::uint64_t>(*word(qp)).load(std::memory_order_acquire);
  }
  void set_outgoing_credit(std::uint32_t qp, std::uint64_t count) noexcept {
    *word(parameters_.qps + qp) = count;
  }
  /// Writes all outgoing credits into the peer's words.
  Errc post_credits() noexcept;

  /// Receive requests that stand ready on each queue pair at any time.
  [[nodiscard]] std::uint32_t receives() const noexcept { return receives_; }
  Errc post_receive(std::uint32_t qp) noexcept {
    return qps_[qp].post_receive(RequestId{Purpose::receive, qp, 0}.pack());
  }
  /// The schedule of --fault begins now, and ends.
  void start_faults();
  void stop_faults();
  /// Payload bytes that all queue pairs have accepted.
  [[nodiscard]] std::uint64_t received_bytes() const;
  /// How the queue pair of a failed completion got there, in words.
  [[nodiscard]] std::string cause(const Completion& completion) const;
  /// Why the first queue pair in ERR is there; empty if none is.
  [[nodiscard]] std::string first_error() const;
  /// A bound on the time in which a queue pair notices that its peer is gone.
  [[nodiscard]] Duration patience() const;

 private:
  void create_queue_pairs();
  void exchange_memory(bool server);
  void connect(bool server);
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
