// SPDX-License-Identifier: Apache-2.0
// The send queue and the pool that its entries come from.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

#include "mrc/core/random.hpp"
#include "mrc/engine/queues.hpp"

using namespace mrc;
using namespace mrc::engine;

TEST_CASE("send queue: entries keep their contents, in any pattern of posts and completions") {
  struct Shape {
    std::uint32_t capacity, sges, inline_bytes;
  };
  for (const Shape& shape : {Shape{1, 1, 16},
                             {2, 0, 0},
                             {5, 1, 16},
                             {16, 1, 16},
                             {17, 2, 0},
                             {128, 1, 16},
                             {100, 3, 64},
                             {40, 64, 1024},
                             {33, 0, 1},
                             {1000, 4, 100}}) {
    const std::uint32_t capacity = shape.capacity, sges = shape.sges;
    const std::uint32_t inline_bytes = shape.inline_bytes;
    CAPTURE(capacity);
    SendPool pool;
    SendQueue q(pool, capacity, sges, inline_bytes);
    CHECK(pool.used() == 0);
    Random random(capacity);
    std::deque<std::uint64_t> model;
    std::uint64_t id = 0;
    const auto room =
        static_cast<std::uint32_t>(std::max(sges * sizeof(LocalSge), std::size_t{inline_bytes}));
    for (unsigned round = 0; round < 200; ++round) {
      for (std::uint32_t n = random.below(2 * capacity); n > 0 && !q.full(); --n) {
        SendWqe& w = q.post();
        CHECK(w.wr_id == 0);
        w.wr_id = ++id;
        std::memset(SendQueue::inline_data(w), static_cast<int>(id), room);
        model.push_back(id);
      }
      CHECK(q.full() == (model.size() == capacity));
      CHECK(q.posted() - q.retired() == model.size());
      for (std::uint32_t i = 0; i < model.size(); ++i) {
        SendWqe& w = q.at(q.retired() + i);
        REQUIRE(w.wr_id == model[i]);
        const auto* data = SendQueue::inline_data(w);
        const auto mine = static_cast<std::uint8_t>(model[i]);
        REQUIRE(std::all_of(data, data + room, [mine](auto byte) { return byte == mine; }));
      }
      for (std::uint32_t n = random.below(2 * capacity); n > 0 && !q.empty(); --n) q.finish();
      // Ports may give payload back late, or at once.
      for (std::uint32_t n = random.below(2) == 0 ? 2 * capacity : random.below(capacity);
           n > 0 && q.retired() != q.done(); --n) {
        q.retire();
        model.pop_front();
      }
      CHECK(pool.used() <= pool.booked());
      if (model.empty()) CHECK(pool.used() == 0);
    }
    q.clear();
    CHECK(pool.used() == 0);
  }
}

TEST_CASE("send pool: idle queues hold nothing, and what is not needed at a time is not touched") {
  SendPool pool;
  std::vector<std::unique_ptr<SendQueue>> queues;
  for (unsigned i = 0; i < 1000; ++i)
    queues.push_back(std::make_unique<SendQueue>(pool, 128, 1, 16));
  CHECK(pool.booked() == 8000);
  CHECK(pool.touched() == 0);
  for (auto& q : queues) {  // one after the other, as much as it takes
    while (!q->full()) (void)q->post();
    CHECK(pool.used() == 8);
    while (!q->empty()) {
      q->finish();
      q->retire();
    }
    CHECK(pool.used() == 0);
  }
  CHECK(pool.touched() == 8);
  for (auto& q : queues)  // all at the same time
    while (!q->full()) (void)q->post();
  CHECK(pool.used() == 8000);
  std::set<SendWqe*> distinct;
  for (auto& q : queues)
    for (std::uint32_t p = q->done(); p != q->posted(); ++p) distinct.insert(&q->at(p));
  CHECK(distinct.size() == 128'000);
  queues.clear();
  CHECK(pool.booked() == 0);
  CHECK(pool.used() == 0);
  SendQueue later(pool, 128, 1, 16);  // finds the memory of those that have gone
  (void)later.post();
  CHECK(pool.touched() == 8000);
}
