// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "nccl/conformance/traffic.hpp"

// Small messages that are sent before the receive for them is posted.

using namespace nccl_conformance;

namespace eager_test {

constexpr std::size_t kSmall = 1008;  // the largest one

/// A connection with memory at both ends, one message at a time.
class Ends {
 public:
  explicit Ends(int version) : job_(version), connection_(job_) {}

  /// Sends the pattern of `key`; null: not now.
  void* isend(std::size_t size, int tag, std::uint64_t key) {
    char* from = from_.at(place_of(key), 0);
    fill(from, size, key);
    return try_isend(net(), connection_.send, from, size, tag, from_.mr());
  }
  /// Sends, in time.
  void send(std::size_t size, int tag, std::uint64_t key) {
    void* request = nullptr;
    until("isend", [&] { return (request = isend(size, tag, key)) != nullptr; });
    finish(net(), request);
  }
  /// Posts a receive of one buffer; null: not now.
  void* irecv_into(void* data, void* mr, std::size_t room, int tag) {
    return try_irecv(net(), connection_.receive, data, room, tag, mr);
  }
  /// The same, into the place of `key`.
  void* irecv_now(std::size_t room, int tag, std::uint64_t key) {
    return irecv_into(to_.at(place_of(key), 0), to_.mr(), room, tag);
  }
  /// Posts it, in time.
  void* irecv(std::size_t room, int tag, std::uint64_t key) {
    void* request = nullptr;
    until("irecv", [&] { return (request = irecv_now(room, tag, key)) != nullptr; });
    return request;
  }
  /// Is the receive of message `key` done? Checks every byte.
  bool try_finish(void* request, std::size_t size, std::uint64_t key) {
    int done = 0;
    int bytes = 0;
    ok(net().test(request, &done, &bytes), "test");
    if (!done) return false;
    CHECK(bytes == static_cast<int>(size));
    check(to_.at(place_of(key), 0), size, key, "message " + std::to_string(key));
    return true;
  }
  void received(void* request, std::size_t size, std::uint64_t key) {
    until("a receive", [&] { return try_finish(request, size, key); });
  }

  [[nodiscard]] Net& net() { return job_.net(); }
  [[nodiscard]] void* receiver() const { return connection_.receive; }

  static constexpr std::size_t kPlaces = 63;
  /// Keys that follow each other have places of their own, and so have every third ones, which may
  /// be far from those between them.
  [[nodiscard]] static std::size_t place_of(std::uint64_t key) {
    return key % 3 * (kPlaces / 3) + key / 3 % (kPlaces / 3);
  }

 private:
  Job job_;
  Connection connection_;
  Pool from_{job_.net(), connection_.send, kPlaces, 5000};
  Pool to_{job_.net(), connection_.receive, kPlaces, 5000};
};

const Environment::Variable kLossy{"MRC_FAULTS", "loss=0.05;reorder=0.1;duplicate=0.02"};

TEST_CASE("Small messages leave before their receives, as many as there is room for") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Ends ends(version);
    std::uint64_t key = 0;
    for (int round = 0; round < 30; ++round) {
      CAPTURE(round);
      std::vector<std::size_t> sizes;
      while (sizes.size() < 16) {
        const std::size_t size = mix(key, 1) % (kSmall + 1);
        void* request = ends.isend(size, 3, key);
        // Room comes back with records, of which some are told of later.
        if (request == nullptr && round > 0 && sizes.size() >= 4) break;
        if (request == nullptr)
          until("room", [&] { return (request = ends.isend(size, 3, key)) != nullptr; });
        finish(ends.net(), request);
        sizes.push_back(size);
        ++key;
      }
      CHECK(ends.isend(kSmall + 1, 3, key) == nullptr);  // not a small one
      const std::uint64_t first = key - sizes.size();
      for (std::size_t i = 0; i < sizes.size(); ++i)
        ends.received(ends.irecv(4000, 3, first + i), sizes[i], first + i);
      // Others that wait for their receives, behind those that did not: more than there are
      // records, now and then.
      for (int i = 0; i < (round % 2 == 0 ? 1 : 20 + round); ++i, ++key) {
        void* receive = ends.irecv(5000, 3, key);
        ask(ends.net(), receive);
        ends.send(5000, 3, key);
        ends.received(receive, 5000, key);
      }
      // Receives that the sender has not been told of yet.
      std::array<void*, 3> receives{};
      for (std::uint64_t i = 0; i < 3; ++i) receives[i] = ends.irecv(4000, 3, key + i);
      for (std::uint64_t i = 0; i < 3; ++i) ends.send(10 * i, 3, key + i);
      for (std::uint64_t i = 0; i < 3; ++i) ends.received(receives[i], 10 * i, key + i);
      key += 3;
      // A receive that is known for its message, and one behind it that is not.
      void* receive = ends.irecv(4000, 3, key);
      ask(ends.net(), receive);
      ends.send(100, 3, key);
      ends.send(200, 3, key + 1);
      ends.received(receive, 100, key);
      ends.received(ends.irecv(4000, 3, key + 1), 200, key + 1);
      key += 2;
    }
  }
}

TEST_CASE("Small messages and receives meet in any order, by their tags") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, kLossy};
  Ends ends(few_versions().front());
  Random random(9);
  // Message n with tag t has this key, and its size depends on that.
  const auto key_of = [](std::uint64_t t, std::uint64_t n) { return 3 * n + t; };
  const auto size_of = [](std::uint64_t key) { return mix(key) % (kSmall + 20); };
  const auto each = static_cast<std::uint64_t>(scaled(500));
  std::array<std::uint64_t, 3> sent{}, posted{}, received{};
  std::array<std::deque<void*>, 3> receives;
  until("messages", [&] {
    const std::uint64_t t = random.below(3);
    const std::uint64_t action = random.below(3);
    if (action == 0 && sent[t] < each && sent[t] < received[t] + 10) {
      const std::uint64_t key = key_of(t, sent[t]);
      // Null: no room, not a small one, or receives of other tags are to be served first.
      void* request = ends.isend(size_of(key), static_cast<int>(t), key);
      if (request != nullptr) ++sent[t], finish(ends.net(), request);
    } else if (action == 1 && posted[t] < each && posted[t] < received[t] + 10) {
      void* request = ends.irecv_now(4000, static_cast<int>(t), key_of(t, posted[t]));
      if (request != nullptr) receives[t].push_back(request), ++posted[t];
    } else if (action == 2 && !receives[t].empty()) {
      const std::uint64_t key = key_of(t, received[t]);
      if (ends.try_finish(receives[t].front(), size_of(key), key))
        receives[t].pop_front(), ++received[t];
    }
    return received[0] + received[1] + received[2] == 3 * each;
  });
}

TEST_CASE("A small message that is too large for its receive fails there, and is not written") {
  const Environment environment{kTwoPlanes};
  Ends ends(few_versions().front());
  finish(ends.net(), ends.isend(100, 1, 1));
  std::array<char, 8192> memory{};
  void* mr = nullptr;
  ok(ends.net().reg(ends.receiver(), memory.data(), memory.size(), nccl_abi::kHostMemory, &mr),
     "reg");
  CHECK(failure_of(ends.net(), ends.irecv_into(memory.data(), mr, 99, 1)) == Result::invalid_usage);
  CHECK(std::count(memory.begin(), memory.end(), 0) == 8192);
  ok(ends.net().dereg(ends.receiver(), mr), "dereg");
}

TEST_CASE("A small message is not written to memory that is not, or no longer, registered") {
  const Environment environment{kTwoPlanes};
  for (const bool gone : {false, true}) {
    CAPTURE(gone);
    Ends ends(few_versions().front());
    std::vector<char> memory(5 * 4096, 't');
    void* mr = nullptr;
    ok(ends.net().reg(ends.receiver(), memory.data(), 4096, nccl_abi::kHostMemory, &mr), "reg");
    void* request = ends.irecv_into(memory.data() + (gone ? 0 : 3 * 4096), mr, 100, 1);
    if (gone) ok(ends.net().dereg(ends.receiver(), mr), "dereg");
    finish(ends.net(), ends.isend(100, 1, 1));  // the sender has not been told of the receive
    CHECK(failure_of(ends.net(), request) != Result::success);
    CHECK(std::count(memory.begin(), memory.end(), 't') == 5 * 4096);
    if (!gone) ok(ends.net().dereg(ends.receiver(), mr), "dereg");
  }
}

TEST_CASE("Nothing leaves before its receive where these may complete early") {
  if (keeps_old_environment()) return;
  const Environment environment{kTwoPlanes, {"MRC_NCCL_EARLY_RECEIVES", "on"}};
  Ends ends(few_versions().front());
  CHECK_FALSE(
      for_a_while(std::chrono::milliseconds(20), [&] { return ends.isend(8, 1, 1) != nullptr; }));
}

}  // namespace eager_test
