// SPDX-License-Identifier: Apache-2.0
// Thread and parent domains: without effect, but a program that uses them runs.
#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

TEST_CASE("verbs domains: a parent domain stands for its protection domain") {
  Program program;
  ibv_td_init_attr thread{};
  ibv_td* td = ibv_alloc_td(program.context, &thread);
  REQUIRE(td != nullptr);
  ibv_parent_domain_init_attr wanted{};
  wanted.pd = program.pd;
  wanted.td = td;
  wanted.comp_mask =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  wanted.alloc = [](ibv_pd*, void*, std::size_t, std::size_t, std::uint64_t) -> void* {
    return nullptr;  // would fail if it were called
  };
  wanted.free = [](ibv_pd*, void*, void*, std::uint64_t) {};
  ibv_pd* parent = ibv_alloc_parent_domain(program.context, &wanted);
  REQUIRE(parent != nullptr);
  CHECK(parent->context == program.context);
  CHECK(ibv_dealloc_td(td) == EBUSY);
  CHECK(ibv_dealloc_pd(program.pd) == EBUSY);
  {
    // Queue pairs of the parent domain use memory of the protection domain.
    const Memory memory(program);
    std::swap(program.pd, parent);
    const Queues a(program), b(program);
    std::swap(program.pd, parent);
    CHECK(ibv_dealloc_pd(parent) == EBUSY);
    a.connect(b);
    b.connect(a);
    const_cast<std::uint8_t&>(memory.bytes[3]) = 33;
    ibv_sge sge = memory.sge(0, 8);
    ibv_send_wr request = write_request(1, sge, memory, 1000);
    REQUIRE(post(a.qp, request) == 0);
    CHECK(a.next().status == IBV_WC_SUCCESS);
    CHECK(memory.bytes[1003] == 33);
  }
  {
    ibv_cq_init_attr_ex queue{};
    queue.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    queue.parent_domain = parent;
    ibv_cq_ex* cq = make_cq_ex(program.context, 16, queue);
    CHECK(ibv_dealloc_pd(parent) == EBUSY);
    CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0);
  }
  CHECK(ibv_dealloc_pd(parent) == 0);
  CHECK(ibv_dealloc_td(td) == 0);

  wanted.pd = nullptr;
  errno = 0;
  CHECK(ibv_alloc_parent_domain(program.context, &wanted) == nullptr);
  CHECK(errno == EINVAL);
}
