// SPDX-License-Identifier: Apache-2.0
// Functions of releases of rdma-core later than the header's, found as the loader finds them.
#include "verbs_shim/later.hpp"

#include <dlfcn.h>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;
using namespace mrc_verbs::later;

namespace later_test {

/// A function of the shim, by the type that a later header declares.
template <class Function>
Function* later(const char* name, const char* version) {
  void* library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  void* found = ::dlvsym(library, name, version);
  ::dlclose(library);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function*>(found);
}

/// A buffer of the library's.
struct Allocated {
  Program& program;
  Buffer* handle = nullptr;
  std::uint8_t* bytes = nullptr;

  Allocated(Program& p, std::size_t size) : program(p) {
    bytes = static_cast<std::uint8_t*>(later<void*(ibv_pd*, std::size_t, Buffer**)>(
        "ibv_alloc_buf", "IBVERBS_1.17")(p.pd, size, &handle));
    REQUIRE(bytes != nullptr);
    REQUIRE(handle != nullptr);
  }
  ~Allocated() { later<void(Buffer*)>("ibv_free_buf", "IBVERBS_1.17")(handle); }
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
};

/// errno of registering; 0 if it works, and the keys are those of ordinary memory.
int registered(ibv_pd* pd, const MrAttributes& wanted) {
  errno = 0;
  ibv_mr* mr =
      later<ibv_mr*(ibv_pd*, const MrAttributes*)>("ibv_reg_mr_ex", "IBVERBS_1.15")(pd, &wanted);
  if (mr == nullptr) return errno;
  CHECK(mr->addr == wanted.address);
  CHECK(mr->length == wanted.length);
  CHECK(mr->lkey != 0);
  CHECK(ibv_dereg_mr(mr) == 0);
  return 0;
}

TEST_CASE("verbs later: a buffer of the library's is memory like any other") {
  Program program, other;
  const auto reg_buf =
      later<ibv_mr*(ibv_pd*, Buffer*, void*, std::size_t, int)>("ibv_reg_buf_mr", "IBVERBS_1.17");
  {
    const Allocated buffer(program, 10'000);
    CHECK(reinterpret_cast<std::uintptr_t>(buffer.bytes) % 4096 == 0);
    CHECK(ibv_dealloc_pd(program.pd) == EBUSY);
    ibv_mr* mr = reg_buf(program.pd, buffer.handle, buffer.bytes + 5000, 5000, kAllAccess);
    REQUIRE(mr != nullptr);
    // A write from one half to the other, by the keys.
    const Queues a(program), b(program);
    a.connect(b);
    b.connect(a);
    const Memory from(program);
    const_cast<std::uint8_t&>(from.bytes[7]) = 77;
    ibv_sge sge = from.sge(0, 8);
    ibv_send_wr request = write_request(1, sge, from, 0);
    request.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(buffer.bytes) + 9992;
    request.wr.rdma.rkey = mr->rkey;
    REQUIRE(post(a.qp, request) == 0);
    CHECK(a.next().status == IBV_WC_SUCCESS);
    CHECK(buffer.bytes[9999] == 77);
    CHECK(ibv_dereg_mr(mr) == 0);
    errno = 0;
    CHECK(reg_buf(program.pd, buffer.handle, buffer.bytes + 5000, 5001, kAllAccess) == nullptr);
    CHECK(errno == EINVAL);
    CHECK(reg_buf(program.pd, buffer.handle, buffer.bytes - 1, 8, kAllAccess) == nullptr);
    CHECK(reg_buf(other.pd, buffer.handle, buffer.bytes, 8, kAllAccess) == nullptr);
    errno = 0;
    CHECK(later<int(Buffer*)>("ibv_export_buf_dmabuf_fd", "IBVERBS_1.18")(buffer.handle) == -1);
    CHECK(errno == ENODATA);
  }
  Buffer* none = nullptr;
  errno = 0;
  CHECK(later<void*(ibv_pd*, std::size_t, Buffer**)>("ibv_alloc_buf", "IBVERBS_1.17")(
            program.pd, 0, &none) == nullptr);
  CHECK(errno == EINVAL);
}

TEST_CASE("verbs later: ibv_reg_mr_ex registers memory of the process") {
  Program program;
  std::vector<std::uint8_t> bytes(4096);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  MrAttributes wanted{};
  wanted.length = bytes.size();
  wanted.access = kAllAccess;
  wanted.address = bytes.data();
  CHECK(registered(program.pd, wanted) == EINVAL);  // no member counts
  wanted.mask = kMrAddress;
  CHECK(registered(program.pd, wanted) == 0);
  wanted.mask = kMrAddress | kMrIova;
  wanted.iova = address;
  CHECK(registered(program.pd, wanted) == 0);
  wanted.iova = address + 4096;
  CHECK(registered(program.pd, wanted) == EOPNOTSUPP);
  wanted.mask = kMrAddress | kMrBuffer;
  CHECK(registered(program.pd, wanted) == EINVAL);
  {
    const Allocated buffer(program, 4096);
    wanted.buffer = buffer.handle;
    CHECK(registered(program.pd, wanted) == EINVAL);  // the address is not in it
    wanted.address = buffer.bytes;
    CHECK(registered(program.pd, wanted) == 0);
  }
  for (const std::uint64_t lacking : {kMrFd, kMrFdOffset, kMrDmaHandle}) {
    wanted.mask = kMrAddress | lacking;
    CHECK(registered(program.pd, wanted) == EOPNOTSUPP);
  }
}

TEST_CASE("verbs later: the speed of the port, in units of 100 Mb/s") {
  const Program program;
  const auto query = later<int(ibv_context*, std::uint32_t, std::uint64_t*)>("ibv_query_port_speed",
                                                                             "IBVERBS_1.16");
  std::uint64_t speed = 0;
  CHECK(query(program.context, 1, &speed) == 0);
  CHECK(speed > 0);
  const std::uint64_t all = speed;
  CHECK(query(program.context, 2, &speed) == 0);  // that of a plane, of which there are two
  CHECK(speed == all / 2);
  CHECK(query(program.context, 3, &speed) == EINVAL);
}

}  // namespace later_test
