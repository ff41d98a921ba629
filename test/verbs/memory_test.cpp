// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace memory_test {

/// errno of registering with these flags; 0 if it works.
int registered(Program& program, unsigned access, std::uint64_t iova_shift = 0) {
  std::vector<std::uint8_t> bytes(4096);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  errno = 0;
  ibv_mr* mr =
      ibv_reg_mr_iova2(program.pd, bytes.data(), bytes.size(), address + iova_shift, access);
  if (mr == nullptr) return errno;
  CHECK(mr->lkey != 0);
  CHECK(mr->rkey != 0);
  CHECK(mr->addr == bytes.data());
  CHECK(mr->length == bytes.size());
  CHECK(ibv_dereg_mr(mr) == 0);
  return 0;
}

TEST_CASE("verbs memory: access flags") {
  Program program;
  CHECK(registered(program, 0) == 0);
  CHECK(registered(program, IBV_ACCESS_LOCAL_WRITE) == 0);
  CHECK(registered(program, kAllAccess | unsigned{IBV_ACCESS_RELAXED_ORDERING}) == 0);
  CHECK(registered(program, IBV_ACCESS_LOCAL_WRITE | 1u << 29) == 0);  // optional, not known
  CHECK(registered(program, IBV_ACCESS_REMOTE_READ) == 0);
  CHECK(registered(program, IBV_ACCESS_REMOTE_WRITE) == EINVAL);
  CHECK(registered(program, IBV_ACCESS_REMOTE_ATOMIC) == EINVAL);
  CHECK(registered(program, IBV_ACCESS_ON_DEMAND) == EOPNOTSUPP);
  CHECK(registered(program, IBV_ACCESS_ZERO_BASED) == EOPNOTSUPP);
  CHECK(registered(program, kAllAccess, 4096) == EOPNOTSUPP);
}

TEST_CASE("verbs memory: what is not mapped can't be registered") {
  Program program;
  void* gone = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(gone != MAP_FAILED);
  REQUIRE(::munmap(gone, 8192) == 0);
  errno = 0;
  CHECK(ibv_reg_mr(program.pd, gone, 8192, int{IBV_ACCESS_LOCAL_WRITE}) == nullptr);
  CHECK(errno == EFAULT);
}

TEST_CASE("verbs memory: read-only memory is registered for reading only") {
  Program program;
  void* constant = ::mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(constant != MAP_FAILED);
  errno = 0;
  CHECK(ibv_reg_mr(program.pd, constant, 8192, int{IBV_ACCESS_LOCAL_WRITE}) == nullptr);
  CHECK(errno == EFAULT);
  ibv_mr* mr = ibv_reg_mr(program.pd, constant, 8192, int{IBV_ACCESS_REMOTE_READ});
  REQUIRE(mr != nullptr);
  CHECK(ibv_dereg_mr(mr) == 0);
  ::munmap(constant, 8192);
}

TEST_CASE("verbs memory: what is in use can't be destroyed") {
  Program program;
  {
    const Memory memory(program);
    CHECK(ibv_dealloc_pd(program.pd) == EBUSY);
  }
  ibv_comp_channel* channel = ibv_create_comp_channel(program.context);
  REQUIRE(channel != nullptr);
  {
    const Queues queues(program, IBV_QPT_RC, channel);
    CHECK(ibv_dealloc_pd(program.pd) == EBUSY);
    CHECK(ibv_destroy_cq(queues.cq) == EBUSY);
    CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
  }
  CHECK(ibv_destroy_comp_channel(channel) == 0);
}

TEST_CASE("verbs memory: a key of another protection domain") {
  const Linked pair;
  Program other;
  const Memory foreign(other);
  ibv_sge sge = foreign.sge(0, 8);
  ibv_send_wr request = pair.request(IBV_WR_RDMA_WRITE, sge);
  ibv_send_wr* bad = nullptr;
  CHECK(ibv_post_send(pair.a.qp, &request, &bad) == EINVAL);
  CHECK(bad == &request);
}

}  // namespace memory_test
