// SPDX-License-Identifier: Apache-2.0
// Handles of the public API: what misuse gets, moves, and destruction in any order.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "device_rig.hpp"

using namespace mrc;
using namespace mrc::test;

namespace handles_test {

SendRequest empty_write(const Side& to) {
  SendRequest request;
  request.remote = to.target_region.remote();
  return request;
}

TEST_CASE("posting in a state that does not allow it") {
  Side a(test_config()), b(test_config("loopback:2", 2));
  QueuePair& qp = a.add_qp();
  const SendRequest request = empty_write(b);
  CHECK(qp.state() == QpState::reset);
  CHECK(qp.post_send(request) == Errc::invalid_state);
  CHECK(qp.post_receive(1) == Errc::invalid_state);
  std::size_t posted = 9;
  CHECK(qp.post_sends({&request, 1}, posted) == Errc::invalid_state);
  CHECK(posted == 0);
  CHECK(qp.to_error() == Errc::invalid_state);
  CHECK(qp.error_text().empty());

  connect(qp, b.add_qp());
  CHECK(qp.state() == QpState::rts);
  CHECK(qp.to_error() == Errc::ok);
  CHECK(qp.to_error() == Errc::ok);
  CHECK(qp.state() == QpState::err);
  CHECK(qp.error_cause() == QpErrorCause::requested);
  CHECK(contains(qp.error_text(), "moved to ERR by the application"));
  CHECK(qp.post_send(request) == Errc::invalid_state);
  CHECK(qp.post_receive(1) == Errc::invalid_state);

  CHECK(qp.close() == Errc::ok);
  CHECK(qp.close() == Errc::not_found);
  CHECK(qp.post_send(request) == Errc::not_found);
  CHECK(qp.post_sends({&request, 1}, posted) == Errc::not_found);
  CHECK(qp.post_receive(1) == Errc::not_found);
  CHECK(qp.to_error() == Errc::not_found);
  CHECK(qp.set_hint({}) == Errc::not_found);
  CHECK(qp.reset() == Errc::not_found);
  CHECK(qp.state() == QpState::reset);
  CHECK(qp.error_text().empty());
  CHECK(qp.stats().tx_packets == 0);
  CHECK(thrown_by([&] { (void)qp.local_info(); }).code() == Errc::not_found);
  CHECK(thrown_by([&] { qp.connect(b.qps[0].local_info()); }).code() == Errc::not_found);
  CHECK(a.device.paths(qp).empty());
}

TEST_CASE("a full send queue says so and takes more after completions") {
  QpCapacity capacity;
  capacity.send = 4;
  capacity.receive = 2;
  const Config config = test_config();
  Pair pair(config, Pair::other(config), 1 << 20, capacity);
  // Nothing is received while faults swallow it all, so nothing completes.
  pair.b.device.set_faults("blackhole");
  for (int i = 0; i < 4; ++i) CHECK(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 8) == Errc::ok);
  CHECK(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 8) == Errc::queue_full);
  const std::vector<SendRequest> two(2, empty_write(pair.b));
  std::size_t posted = 9;
  CHECK(pair.a.qps[0].post_sends(two, posted) == Errc::queue_full);
  CHECK(posted == 0);
  pair.b.device.set_faults("");
  (void)pair.a.await(4);
  CHECK(pair.a.qps[0].post_sends(two, posted) == Errc::ok);
  CHECK(posted == 2);
  CHECK(pair.a.qps[0].post_receive(1) == Errc::ok);
  CHECK(pair.a.qps[0].post_receive(2) == Errc::ok);
  CHECK(pair.a.qps[0].post_receive(3) == Errc::queue_full);
}

TEST_CASE("sizes that no object can have") {
  Side a(test_config());
  const auto cq_of = [&](std::uint32_t depth) {
    return thrown_by([&] { (void)a.device.create_cq(depth); });
  };
  CHECK(cq_of(0).code() == Errc::invalid_argument);
  CHECK(contains(cq_of(0).what(), "completion queue: depth is 0; it can be 1 to 4194304"));
  CHECK(cq_of(~std::uint32_t{0}).code() == Errc::invalid_argument);

  const auto qp_with = [&](auto change) {
    QpOptions options;
    options.send_cq = &a.cq;
    options.attributes = QpAttributes{};
    change(options.capacity, *options.attributes);
    return std::string(thrown_by([&] { (void)a.device.create_qp(options); }).what());
  };
  const auto fails = [&](const char* field, auto change) {
    const std::string error = qp_with(change);
    CAPTURE(error);
    CHECK(contains(error, std::string("creating a queue pair: ") + field));
    CHECK(contains(error, to_string(Errc::invalid_argument)));
  };
  fails("capacity.send is 0; it can be 1 to 32768", [](auto& c, auto&) { c.send = 0; });
  fails("capacity.send is", [](auto& c, auto&) { c.send = ~0u; });
  fails("capacity.receive is", [](auto& c, auto&) { c.receive = ~0u; });
  fails("capacity.send_sges is 65; it can be 0 to 64", [](auto& c, auto&) { c.send_sges = 65; });
  fails("capacity.inline_bytes is", [](auto& c, auto&) { c.inline_bytes = 1025; });
  fails("mtu is 0; it can be 256 to 32768, in steps of 128", [](auto&, auto& t) { t.mtu = 0; });
  fails("mtu is 1500", [](auto&, auto& t) { t.mtu = 1500; });
  fails("mtu is 65536", [](auto&, auto& t) { t.mtu = 65536; });
  fails("mpr is 0", [](auto&, auto& t) { t.mpr = 0; });
  fails("max_wimm_dest is 0", [](auto&, auto& t) { t.max_wimm_dest = 0; });
  fails("timeout is 32", [](auto&, auto& t) { t.timeout = 32; });
  fails("retry_linear is 8", [](auto&, auto& t) { t.retry_linear = 8; });
  fails("retry_exponential is 26", [](auto&, auto& t) { t.retry_exponential = 26; });
  CHECK(thrown_by([&] { (void)a.device.create_qp({}); }).code() == Errc::invalid_argument);

  std::uint8_t byte = 0;
  const auto memory_of = [&](void* address, std::size_t length) {
    return thrown_by([&] { (void)a.device.register_memory(address, length, Access::none); }).code();
  };
  CHECK(memory_of(nullptr, 10) == Errc::invalid_argument);
  CHECK(memory_of(&byte, 0) == Errc::invalid_argument);
  CHECK(memory_of(&byte, ~std::size_t{0}) == Errc::invalid_argument);
  CHECK(a.device.stats().qps == 0);
}

TEST_CASE("a completion queue that can't be made leaves no descriptor open") {
  Config config = test_config();
  config.max_cqs = 1;
  Side a(config);
  const auto before = open_files();
  for (int i = 0; i < 10; ++i) {
    CHECK_THROWS_AS((void)a.device.create_cq(1), Error);  // one too many
    CHECK_THROWS_AS((void)a.device.create_cq(0), Error);
  }
  CHECK(open_files() == before);
}

TEST_CASE("limits name the option that raises them") {
  Config config = test_config();
  config.max_qps = 2;
  config.max_cqs = 2;
  config.max_mrs = 3;
  config.max_pds = 2;
  Side a(config);
  a.qps.reserve(4);
  a.add_qp();
  a.add_qp();
  const auto cq = a.device.create_cq(1);
  const auto region = a.device.register_memory(a.source.data(), 1, Access::none);
  const PdId pd = a.device.alloc_pd();
  const auto check = [](const Error& error, const char* option) {
    CHECK(error.code() == Errc::no_resources);
    CHECK(contains(error.what(), option));
  };
  check(thrown_by([&] { a.add_qp(); }), "max_qps");
  check(thrown_by([&] { (void)a.device.create_cq(1); }), "max_cqs");
  check(thrown_by([&] { (void)a.device.register_memory(a.source.data(), 1, Access::none); }),
        "max_mrs");
  check(thrown_by([&] { (void)a.device.alloc_pd(); }), "max_pds");
  // What is given back can be had again, any number of times.
  for (int i = 0; i < 10; ++i) {
    a.qps.pop_back();
    CHECK_NOTHROW(a.add_qp());
  }
  CHECK(a.device.dealloc_pd(pd) == Errc::ok);
  CHECK_NOTHROW((void)a.device.alloc_pd());
}

TEST_CASE("what is in use can't be closed") {
  Pair pair;
  CHECK(pair.a.cq.close() == Errc::in_use);
  CHECK(pair.a.device.dealloc_pd(pair.a.device.default_pd()) == Errc::in_use);
  pair.b.device.set_faults("blackhole");
  REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 1000) == Errc::ok);
  CHECK(pair.a.source_region.close() == Errc::in_use);
  CHECK(pair.a.source_region.length() == pair.a.source.size());
  pair.b.device.set_faults("");
  CHECK(pair.a.await_one().status == WcStatus::success);  // refusals did no harm
  CHECK(pair.a.source_region.close() == Errc::ok);
  CHECK(pair.a.source_region.close() == Errc::not_found);
  CHECK(pair.a.qps[0].close() == Errc::ok);
  CHECK(pair.a.cq.close() == Errc::ok);
  CHECK(pair.a.cq.close() == Errc::not_found);
  CHECK(pair.a.cq.fd() == -1);
  Completion done;
  CHECK(pair.a.cq.poll({&done, 1}) == 0);
  CHECK(pair.a.cq.wait({&done, 1}, 1s) == 0);
  CHECK(pair.a.cq.arm() == Errc::not_found);
  CHECK_FALSE(pair.a.cq.overrun());
}

TEST_CASE("memory that can't be used as a region's rights allow is not registered") {
  Side side(test_config());
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const constant = ::mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(constant != MAP_FAILED);
  for (const Access access : {Access::local_write, Access::remote_write, Access::remote_atomic}) {
    CAPTURE(static_cast<int>(access));
    CHECK_THROWS_WITH_AS((void)side.device.register_memory(constant, page, access),
                         doctest::Contains("is read-only, and the rights asked for"), Error);
  }
  for (const Access access : {Access::none, Access::remote_read})
    CHECK(side.device.register_memory(constant, page, access).lkey() != 0);
  REQUIRE(::mprotect(constant, page, PROT_NONE) == 0);
  CHECK_THROWS_WITH_AS((void)side.device.register_memory(constant, page, Access::none),
                       doctest::Contains("can't be read; map it with PROT_READ"), Error);
  ::munmap(constant, 2 * page);
}

TEST_CASE("memory that is not mapped can't be registered, and pages are not touched") {
  Side side(test_config());
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  constexpr std::size_t kPages = 8, kHole = 3;
  // Far below where the kernel puts mappings by itself: nobody else gets the hole.
  auto* const bytes = reinterpret_cast<std::uint8_t*>(std::uintptr_t{1} << 28);
  const auto map = [&](std::size_t first, std::size_t count) {
    REQUIRE(::mmap(bytes + first * page, count * page, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                   0) == bytes + first * page);
  };
  map(0, kHole);
  map(kHole + 1, kPages - kHole - 1);
  const auto refused = [&](void* address, std::size_t length) {
    CHECK_THROWS_WITH_AS((void)side.device.register_memory(address, length, Access::remote_write),
                         doctest::Contains("not all of it is mapped"), Error);
  };
  refused(bytes, kPages * page);
  refused(bytes + kHole * page - 1, 2);
  refused(bytes + kHole * page, 1);
  refused(bytes + 1, SIZE_MAX);
  {
    const auto below = side.device.register_memory(bytes, kHole * page, Access::remote_write);
    const auto above =
        side.device.register_memory(bytes + (kHole + 1) * page, 7, Access::remote_write);
    CHECK(side.device.stats().mrs == 4);
    std::array<unsigned char, kHole> present{};
    REQUIRE(::mincore(bytes, kHole * page, present.data()) == 0);
    for (const unsigned char one : present) CHECK((one & 1) == 0);
  }
  REQUIRE(::munmap(bytes, kPages * page) == 0);
}

TEST_CASE("protection domains keep memory and queue pairs apart") {
  Pair pair;
  const PdId pd = pair.a.device.alloc_pd();
  auto foreign = pair.a.device.register_memory(pair.a.source.data(), 100, Access::none, pd);
  CHECK(pair.a.device.dealloc_pd(pd) == Errc::in_use);
  const Sge sge{pair.a.source.data(), 10, foreign.lkey()};
  SendRequest request = empty_write(pair.b);
  request.sges = {&sge, 1};
  CHECK(pair.a.qps[0].post_send(request) == Errc::wrong_pd);
  CHECK(foreign.close() == Errc::ok);
  CHECK(pair.a.device.dealloc_pd(pd) == Errc::ok);
  CHECK(pair.a.device.dealloc_pd(pd) == Errc::not_found);
  CHECK(pair.a.device.dealloc_pd(PdId{12345}) == Errc::not_found);
  CHECK(thrown_by([&] {
          (void)pair.a.device.register_memory(pair.a.source.data(), 1, Access::none, pd);
        }).code() == Errc::not_found);
}

TEST_CASE("objects of another device are refused") {
  Pair pair;
  QpOptions options;
  options.send_cq = &pair.b.cq;
  CHECK(thrown_by([&] { (void)pair.a.device.create_qp(options); }).code() ==
        Errc::invalid_argument);
  options.send_cq = &pair.a.cq;
  options.receive_cq = &pair.b.cq;
  CHECK(thrown_by([&] { (void)pair.a.device.create_qp(options); }).code() ==
        Errc::invalid_argument);
  const CompletionQueue empty;
  options.receive_cq = &empty;
  CHECK(thrown_by([&] { (void)pair.a.device.create_qp(options); }).code() ==
        Errc::invalid_argument);
  CHECK(pair.b.device.paths(pair.b.qps[0]).size() == 8);
  CHECK(pair.a.device.paths(pair.b.qps[0]).empty());
  Side c(test_config("127.0.0.9", 9));
  c.add_qp();
  CHECK(pair.a.device.paths(c.qps[0]).empty());
}

TEST_CASE("moves: the new handle works, the old one is empty") {
  Pair pair;
  QueuePair moved(std::move(pair.a.qps[0]));
  CHECK(pair.a.qps[0].post_receive(0) == Errc::not_found);  // NOLINT: what it is about
  CHECK(pair.a.qps[0].close() == Errc::not_found);
  MemoryRegion region(std::move(pair.a.source_region));
  CHECK(pair.a.source_region.close() == Errc::not_found);  // NOLINT
  CHECK(pair.a.source_region.length() == 0);
  pair.a.source_region = std::move(region);
  CompletionQueue cq(std::move(pair.a.cq));
  CHECK(pair.a.cq.close() == Errc::not_found);  // NOLINT
  CHECK(pair.a.cq.fd() == -1);
  pair.a.cq = std::move(cq);
  pair.a.qps[0] = std::move(moved);
  pair.copy_all();

  // Moving onto a live handle closes what that was; onto itself changes nothing.
  const auto qps = pair.a.device.stats().qps;
  QueuePair& extra = pair.a.add_qp();
  CHECK(pair.a.device.stats().qps == qps + 1);
  extra = QueuePair();
  CHECK(pair.a.device.stats().qps == qps);
  QueuePair& self = pair.a.qps[0];
  self = std::move(*&self);
  CHECK(self.state() == QpState::rts);
  MemoryRegion& memory = pair.a.source_region;
  memory = std::move(*&memory);
  pair.copy_all();
}

TEST_CASE("a device handle is never empty") {
  Device one(test_config());
  Device two(std::move(one));
  CHECK(one.plane_names() == two.plane_names());  // NOLINT: both name the same device
  one = two;
  CHECK(one.plane_count() == 2);
  CHECK(one.stats().pds == two.stats().pds);
}

TEST_CASE("destruction in any order") {
  SUBCASE("the device's handle goes first") {
    const Config config = test_config();
    std::vector<std::uint8_t> memory(1000, 1);
    MemoryRegion region;
    CompletionQueue cq;
    QueuePair one, two;
    {
      Device device(config);
      region =
          device.register_memory(std::span(memory), Access::local_write | Access::remote_write);
      cq = device.create_cq(8);
      QpOptions options;
      options.send_cq = &cq;
      one = device.create_qp(options);
      two = device.create_qp(options);
      connect(one, two);
    }
    const Sge sge{memory.data(), 500, region.lkey()};
    memory[7] = 77;
    SendRequest request;
    request.sges = {&sge, 1};
    request.remote = region.remote(500);
    CHECK(one.post_send(request) == Errc::ok);
    Completion done;
    REQUIRE(cq.wait({&done, 1}, kPatience) == 1);
    CHECK(memory[507] == 77);
  }
  SUBCASE("the completion queue goes before its queue pairs") {
    Pair pair;
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100'000) == Errc::ok);
    pair.a.cq = CompletionQueue();
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100'000) == Errc::ok);
    CHECK(eventually([&] { return pair.a.qps[0].stats().writes_completed == 2; },
                     [&] { (void)pair.a.device.progress(); }));
  }
  SUBCASE("memory goes while it is being sent") {
    Pair pair;
    pair.b.device.set_faults("blackhole");
    {
      std::vector<std::uint8_t> memory(10'000, 1);
      auto region = pair.a.device.register_memory(std::span(memory), Access::none);
      const Sge sge{memory.data(), 10'000, region.lkey()};
      SendRequest request = empty_write(pair.b);
      request.wr_id = 5;
      request.sges = {&sge, 1};
      REQUIRE(pair.a.qps[0].post_send(request) == Errc::ok);
    }  // retransmissions would read freed memory
    const Completion done = pair.a.await_one();
    CHECK(done.wr_id == 5);
    CHECK(done.status == WcStatus::loc_prot_err);
    CHECK(pair.a.qps[0].error_cause() == QpErrorCause::memory_withdrawn);
    CHECK(contains(pair.a.qps[0].error_text(), "deregistered"));
  }
  SUBCASE("memory goes while it is written to") {
    Pair pair;
    pair.b.device.set_faults("blackhole");
    REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, pair.a.source.size()) == Errc::ok);
    pair.b.target_region = MemoryRegion();
    std::vector<std::uint8_t>().swap(pair.b.target);
    pair.b.device.set_faults("");
    CHECK(pair.a.await_one().status == WcStatus::rem_access_err);
    CHECK(pair.a.qps[0].error_cause() == QpErrorCause::nak_remote_access);
    CHECK(pair.b.qps[0].error_cause() == QpErrorCause::bad_key);
  }
  SUBCASE("queue pairs go with requests posted") {
    Pair pair;
    pair.b.device.set_faults("blackhole");
    for (int i = 0; i < 10; ++i)
      REQUIRE(post_copy(pair.a, pair.a.qps[0], pair.b, 0, 100'000) == Errc::ok);
    CHECK(pair.a.qps[0].post_receive(0) == Errc::ok);
    CHECK(pair.a.qps[0].close() == Errc::ok);
    CHECK(pair.a.source_region.close() == Errc::ok);  // no request holds it any more
    Completion done;
    CHECK(pair.a.cq.poll({&done, 1}) == 0);
  }
}

}  // namespace handles_test
