// SPDX-License-Identifier: Apache-2.0
// Any call from any thread: queue pairs that move data, objects that come and go, a controller.
#include <atomic>
#include <thread>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

TEST_CASE("threads of one program move data, make and destroy objects, and control, side by side") {
  Program program;
  Memory memory(program, 4 << 20);
  Mrc mrc(program);
  constexpr int kMovers = 2, kWrites = 300;
  constexpr std::size_t kShare = 1 << 20;
  std::atomic<int> moving{kMovers};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kMovers; ++t)
    threads.emplace_back([&, t] {
      const auto expect = [&](bool holds) { wrong += holds ? 0 : 1; };
      {
        const Pair a(program, mrc), b(program, mrc);
        a.connect(program, b);
        b.connect(program, a);
        const std::size_t base = static_cast<std::size_t>(t) * 2 * kShare;
        for (int i = 0; i < kWrites; ++i) {
          std::memset(&memory.bytes[base], i + 1, 5000);
          ibv_sge sge = memory.sge(base, 5000);
          ibv_send_wr request = verbs::write_request(1, sge, memory, base + kShare);
          request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
          expect(b.post_receive(2) == 0);
          expect(a.post(request) == 0);
          expect(b.next().status == IBV_WC_SUCCESS);
          expect(memory.bytes[base + kShare + 4999] == static_cast<std::uint8_t>(i + 1));
          expect(a.next().status == IBV_WC_SUCCESS);
        }
      }
      --moving;
    });
  threads.emplace_back([&] {
    while (moving > 0) {
      const Pair pair(program, mrc);
      pair.to_init();
      mrc_qp_hint_init_attr hinted{};
      mrc_qp_hint* hint = mrc_create_qp_hint(mrc.context, &hinted);
      mrc_qp_attr own{};
      own.qp_hint = hint;
      wrong += mrc_modify_qp(pair.qp, nullptr, 0, &own, MRC_QP_HINT) != 0;
      own.qp_hint = nullptr;
      wrong += mrc_modify_qp(pair.qp, nullptr, 0, &own, MRC_QP_HINT) != 0;
      wrong += mrc_destroy_qp_hint(hint) != 0;
    }
  });
  threads.emplace_back([&] {
    while (moving > 0) {
      for (const auto state : {MRC_CTL_PORT_ADMIN_DISABLED, MRC_CTL_PORT_ADMIN_ENABLED}) {
        mrc_ctl_port_attr port{state};
        wrong += mrc_ctl_modify_port(mrc.context, 2, &port, MRC_CTL_PORT_ADMIN_STATE) != 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      mrc_ctl_device_attr attr{};
      wrong += mrc_ctl_query_device(program.context, &attr) != 0;
    }
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}
