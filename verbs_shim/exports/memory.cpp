// SPDX-License-Identifier: Apache-2.0
// Protection domains and memory regions.
#include <limits>

#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/context.hpp"
#include "verbs_shim/transport/linger.hpp"
#include "verbs_shim/transport/operations.hpp"

using namespace mrc_verbs;

namespace {

/// The device's rights for those of verbs. Throws for those that it does not have. A program that
/// has not asked for relaxed ordering may poll the last byte of a message.
mrc::Access access_of(unsigned access) {
  constexpr unsigned kOptional = IBV_ACCESS_OPTIONAL_RANGE;
  constexpr unsigned kRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  constexpr unsigned kKnown = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                              IBV_ACCESS_MW_BIND | IBV_ACCESS_HUGETLB;
  if ((access & ~(kKnown | kOptional)) != 0)
    fail(EOPNOTSUPP, "access flags " + std::to_string(access) +
                         ": no on-demand paging, no addresses that begin at zero");
  if ((access & kRemote) != 0 && (access & IBV_ACCESS_LOCAL_WRITE) == 0)
    fail(EINVAL, "remote write and atomics need IBV_ACCESS_LOCAL_WRITE");
  auto rights = mrc::Access::none;
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0) rights = rights | mrc::Access::local_write;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) rights = rights | mrc::Access::remote_write;
  if ((access & IBV_ACCESS_REMOTE_READ) != 0) rights = rights | mrc::Access::remote_read;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) rights = rights | mrc::Access::remote_atomic;
  if ((access & IBV_ACCESS_RELAXED_ORDERING) != 0) rights = rights | mrc::Access::relaxed_ordering;
  return rights;
}

}  // namespace

ibv_mr* mrc_verbs::register_memory(const char* call, ibv_pd* verbs, void* address,
                                   std::size_t length, std::uint64_t iova,
                                   unsigned access) noexcept {
  return pointer_or_errno(call, [&]() -> ibv_mr* {
    if (iova != reinterpret_cast<std::uintptr_t>(address))
      fail(EOPNOTSUPP, "peers must use the address of the memory: iova can't differ from it");
    Pd& pd = Pd::of(verbs);
    const mrc::Access rights = access_of(access);
    auto mr = std::make_unique<Mr>();
    try {
      mr->region = Context::of(pd.context)
                       .device()
                       .register_memory(address, length, rights, pd.domain->id());
    } catch (const mrc::Error& error) {
      // Memory that is not this process's, or of an accelerator: as a device says it.
      if (error.code() == mrc::Errc::invalid_argument) fail(EFAULT, error.what());
      throw;
    }
    mr->context = pd.context;
    mr->pd = verbs;
    mr->addr = address;
    mr->length = length;
    mr->handle = next_handle();
    mr->lkey = mr->region.lkey();
    mr->rkey = mr->region.rkey();
    ++pd.users;
    return mr.release();
  });
}

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return pointer_or_errno("ibv_alloc_pd", [&]() -> ibv_pd* {
    auto pd = std::make_unique<Pd>();
    pd->domain = Linger::with_room(
        [&] { return std::make_shared<PdHandle>(Context::of(context).device()); });
    pd->context = context;
    pd->handle = next_handle();
    return pd.release();
  });
}

int ibv_dealloc_pd(ibv_pd* verbs) {
  const mrc::Uncancelled here;
  Pd& pd = Pd::of(verbs);
  if (pd.users.load() > 0)
    return refuse(EBUSY, "ibv_dealloc_pd",
                  "memory regions, queues, queue pairs, address handles or parent domains use it");
  if (pd.parent != nullptr) --pd.parent->users;
  if (pd.td != nullptr) --pd.td->users;
  delete &pd;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return register_memory("ibv_reg_mr", pd, address, length,
                         reinterpret_cast<std::uintptr_t>(address), static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                        int access) {
  return register_memory("ibv_reg_mr_iova", pd, address, length, iova,
                         static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova,
                         unsigned access) {
  return register_memory("ibv_reg_mr_iova2", pd, address, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  (void)decline(EOPNOTSUPP, "ibv_reg_dmabuf_mr", "memory of other devices can't be registered");
  return nullptr;
}

int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) {
  // Nothing is changed: IBV_REREG_MR_ERR_INPUT says that the region is as it was.
  (void)refuse(EOPNOTSUPP, "ibv_rereg_mr", "register the memory anew");
  return IBV_REREG_MR_ERR_INPUT;
}

int ibv_dereg_mr(ibv_mr* verbs) {
  const mrc::Uncancelled here;
  auto* mr = static_cast<Mr*>(verbs);
  --Pd::of(mr->pd).users;
  delete mr;  // also if requests use it: these fail, as they do elsewhere
  return 0;
}

ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) {
  (void)decline(EOPNOTSUPP, "ibv_import_pd", "objects can't be shared with other processes");
  return nullptr;
}
void ibv_unimport_pd(ibv_pd*) {}
ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) {
  (void)decline(EOPNOTSUPP, "ibv_import_mr", "objects can't be shared with other processes");
  return nullptr;
}
void ibv_unimport_mr(ibv_mr*) {}
ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) {
  (void)decline(EOPNOTSUPP, "ibv_import_dm", "there is no memory in the device");
  return nullptr;
}
void ibv_unimport_dm(ibv_dm*) {}

}  // extern "C"
