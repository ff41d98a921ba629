// SPDX-License-Identifier: Apache-2.0
// What programs rely on and perftest does not check: order, whole words, rights of queue pairs.
// With packets lost, doubled and reordered.
#include <atomic>
#include <thread>

#include "mrc/core/system.hpp"
#include "support/brief.hpp"
#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace guarantees_test {

/// Faults of the devices that are opened while it exists.
struct FaultsHere {
  explicit FaultsHere(const char* schedule) { ::setenv("MRC_FAULTS", schedule, 1); }
  ~FaultsHere() { ::unsetenv("MRC_FAULTS"); }
  FaultsHere(const FaultsHere&) = delete;
  FaultsHere& operator=(const FaultsHere&) = delete;
};

constexpr const char* kFaults = "loss=0.01;duplicate=0.03;reorder=0.05";

// A device places bytes beside the compiler's memory model, so the thread sanitizer can't judge
// those who watch them.
#define UNCHECKED __attribute__((no_sanitize("thread")))

/// What a program sees that watches memory.
template <class Word>
UNCHECKED Word watched(const std::uint8_t* at) {
  return __atomic_load_n(reinterpret_cast<const Word*>(at), __ATOMIC_ACQUIRE);
}

/// Bytes in [at, at + size) other than `value`.
UNCHECKED std::size_t others(const std::uint8_t* at, std::size_t size, std::uint8_t value) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < size; ++i) n += at[i] != value;
  return n;
}

UNCHECKED void fill(std::uint8_t* at, std::size_t size, std::uint8_t value) {
  for (std::size_t i = 0; i < size; ++i) at[i] = value;
}

/// Moves blocks of one value from `from` to `to`, over and over, while a thread waits for the last
/// byte of each and then looks at all of them.
void check_last_byte_last(const Linked& pair, ibv_wr_opcode opcode, const Memory& from,
                          const Memory& to) {
  constexpr std::uint32_t kSize = 64 * 1024;
  constexpr int kRounds = 200;
  fill(const_cast<std::uint8_t*>(to.bytes.data()), kSize, 0);
  std::atomic<int> seen{0};
  std::atomic<std::size_t> early{0};
  std::atomic<bool> stop{false};
  std::thread watcher([&] {
    for (int round = 1; round <= kRounds; ++round) {
      const auto value = static_cast<std::uint8_t>(round);
      const std::uint8_t* const at = to.bytes.data();
      while (watched<std::uint8_t>(at + kSize - 1) != value)
        if (stop) return;
      early += others(at, kSize, value);
      seen = round;
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    auto* const data = const_cast<std::uint8_t*>(from.bytes.data());
    fill(data, kSize, static_cast<std::uint8_t>(round));
    ibv_sge sge = pair.from.sge(0, kSize);
    ibv_send_wr request = pair.request(opcode, sge, 0);
    CHECK(post(pair.a.qp, request) == 0);
    CHECK(pair.a.next().status == IBV_WC_SUCCESS);
    if (!eventually([&] { return seen >= round; }, std::this_thread::yield)) break;
  }
  stop = true;
  watcher.join();
  CHECK(seen == kRounds);
  CHECK(early == 0);
}

TEST_CASE("verbs guarantees: bytes of a write appear in order, the last one last") {
  const FaultsHere faults(kFaults);
  const Linked pair;
  check_last_byte_last(pair, IBV_WR_RDMA_WRITE, pair.from, pair.to);
}

TEST_CASE("verbs guarantees: bytes of a READ appear in order, the last one last") {
  const FaultsHere faults(kFaults);
  const Linked pair;
  check_last_byte_last(pair, IBV_WR_RDMA_READ, pair.to, pair.from);
}

TEST_CASE("verbs guarantees: an aligned word is never torn, and the last write stays") {
  const FaultsHere faults(kFaults);
  const Linked pair;
  // 50,000 would show stores byte by byte some hundred times. 3000 show none of them: in sanitized
  // builds the test looks at memory and threads only.
  constexpr int kWrites = mrc::test::kBrief ? 3000 : 50'000;
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> torn{0}, looks{0};
  std::thread reader([&] {
    while (!stop) {
      const auto word = watched<std::uint64_t>(pair.to.bytes.data());
      if (word != (word & 0xFF) * 0x0101'0101'0101'0101u) ++torn;
      ++looks;
    }
  });
  std::uint64_t value = 0;
  for (int i = 0; i < kWrites; ++i) {
    value = static_cast<std::uint64_t>(i * 7 % 251 + 1) * 0x0101'0101'0101'0101u;
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(&value), sizeof value, 0};
    ibv_send_wr request = pair.request(IBV_WR_RDMA_WRITE, sge, 0);
    const bool last_of_batch = i % 32 == 31 || i == kWrites - 1;
    request.send_flags = IBV_SEND_INLINE | (last_of_batch ? unsigned{IBV_SEND_SIGNALED} : 0u);
    CHECK(post(pair.a.qp, request) == 0);
    if (last_of_batch) CHECK(pair.a.next().status == IBV_WC_SUCCESS);
  }
  CHECK(watched<std::uint64_t>(pair.to.bytes.data()) == value);
  stop = true;
  reader.join();
#if !defined(MRC_THREAD_SANITIZER)  // with it, the library stores each byte by itself
  CHECK(torn == 0);
#endif
  CHECK(looks > 0);
}

TEST_CASE("verbs guarantees: what qp_access_flags do not allow is refused") {
  struct Operation {
    ibv_wr_opcode opcode;
    int right;
  };
  for (const Operation& operation :
       {Operation{IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
        Operation{IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
        Operation{IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC}}) {
    CAPTURE(operation.opcode);
    Linked pair;
    const auto run = [&] {
      ibv_sge sge = pair.from.sge(0, 8);
      ibv_send_wr request = pair.request(operation.opcode, sge, 0);
      if (operation.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        request.wr.atomic = {pair.to.address(), 1, 0, pair.to.mr->rkey};
      REQUIRE(post(pair.a.qp, request) == 0);
      return pair.a.next().status;
    };
    const auto allow = [&](int rights) {
      ibv_qp_attr attributes{};
      attributes.qp_access_flags = static_cast<unsigned>(rights);
      REQUIRE(ibv_modify_qp(pair.b.qp, &attributes, IBV_QP_ACCESS_FLAGS) == 0);
    };
    allow(operation.right);
    CHECK(run() == IBV_WC_SUCCESS);
    allow(kAllAccess & ~operation.right);
    CHECK(run() == IBV_WC_REM_ACCESS_ERR);
  }
}

}  // namespace guarantees_test
