// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "device_rig.hpp"

/// Two devices between which SEND, READ and atomics are possible, for tests.
namespace mrc::test {

/// Room for lists of SGEs, and for inline data.
inline constexpr QpCapacity kRcCapacity{
    .send = 64, .receive = 64, .send_sges = 4, .inline_bytes = 64, .receive_sges = 4};

/// A device with memory that peers may write, read and change, and words for atomics.
struct RcSide : Side {
  explicit RcSide(const Config& config, std::size_t bytes = 1 << 20)
      : Side(config, bytes),
        words(64),
        words_region(device.register_memory(words, Access::remote_atomic | Access::remote_read)) {
    target_region = device.register_memory(
        std::span(target), Access::remote_write | Access::remote_read | Access::local_write);
    qps.reserve(64);
  }

  /// A queue pair whose options `change` may alter.
  template <class F>
  QueuePair& add(F&& change) {
    QpOptions options;
    options.send_cq = &cq;
    options.capacity = kRcCapacity;
    change(options);
    qps.push_back(device.create_qp(options));
    return qps.back();
  }
  QueuePair& add() {
    return add([](QpOptions&) {});
  }
  /// Memory to receive in, and for the results of READs: a part of `target`.
  [[nodiscard]] Sge into(std::size_t offset, std::size_t length) const {
    return {target.data() + offset, static_cast<std::uint32_t>(length), target_region.lkey()};
  }
  /// A word for the result of an atomic.
  [[nodiscard]] Sge word(std::size_t index) const {
    return {&words[index], 8, words_region.lkey()};
  }

  std::vector<std::uint64_t> words;
  MemoryRegion words_region;
};

/// Two of them, and a connected queue pair on each.
struct RcPair {
  explicit RcPair(const Config& config = test_config(), std::size_t bytes = 1 << 20)
      : a(config, bytes), b(Pair::other(config), bytes) {
    connect(a.add(), b.add());
  }
  RcSide a, b;
};

inline Errc post(QueuePair& qp, SendOpcode opcode, std::initializer_list<Sge> sges,
                 RemoteAddress remote = {}, std::uint64_t wr_id = 0) {
  SendRequest request;
  request.wr_id = wr_id;
  request.opcode = opcode;
  request.sges = {sges.begin(), sges.size()};
  request.remote = remote;
  return qp.post_send(request);
}

/// On a queue pair or a shared receive queue.
template <class Queue>
Errc post_receive(Queue& queue, std::initializer_list<Sge> sges, std::uint64_t wr_id = 0) {
  return queue.post_receive(ReceiveRequest{wr_id, {sges.begin(), sges.size()}});
}

/// An atomic on word `index` of `to`, whose former value goes to the same word of `from`.
inline Errc post_atomic(const RcSide& from, QueuePair& qp, const RcSide& to, std::size_t index,
                        SendOpcode opcode, std::uint64_t compare_add, std::uint64_t swap = 0) {
  const Sge sge = from.word(index);
  SendRequest request;
  request.opcode = opcode;
  request.sges = {&sge, 1};
  request.remote = to.words_region.remote(8 * index);
  request.compare_add = compare_add;
  request.swap = swap;
  return qp.post_send(request);
}

/// The next event of that kind; others are passed over.
inline DeviceEvent await_event(Device& device, DeviceEvent::Kind kind) {
  DeviceEvent event;
  REQUIRE(eventually([&] { return device.poll_event(event) && event.kind == kind; }));
  return event;
}

}  // namespace mrc::test
