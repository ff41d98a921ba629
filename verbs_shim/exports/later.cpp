// SPDX-License-Identifier: Apache-2.0
// Functions of releases of rdma-core later than 44: IBVERBS_1.15 (59), 1.16 (62), 1.17 (64), 1.18
// (65). Memory, its registration and the speed of the port can be had; what needs hardware (hints
// for PCIe, memory in the device, DMA-BUF, counters that a device keeps) says so.
#include "verbs_shim/later.hpp"

#include <sys/mman.h>

#include <cmath>
#include <memory>

#include "verbs_shim/address.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/context.hpp"
#include "verbs_shim/transport/operations.hpp"

using namespace mrc_verbs;

namespace mrc_verbs::later {

/// Whole pages of the host.
struct Buffer {
  ibv_pd* pd;
  void* address;
  std::size_t size;
};

namespace {

constexpr const char* kNoDmaHandles = "no DMA handles: there is no PCIe device to give hints to";
constexpr const char* kNoCounters = "no completion counters: use a completion queue";

void check_inside(const Buffer& buffer, ibv_pd* pd, const void* address, std::size_t length) {
  if (buffer.pd != pd) fail(EINVAL, "the buffer was allocated for another protection domain");
  const auto begin = reinterpret_cast<std::uintptr_t>(buffer.address);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  if (at < begin || at - begin > buffer.size || length > buffer.size - (at - begin))
    fail(EINVAL, "the range is not inside the buffer");
}

/// Throws for what does not name memory of this process.
void check(ibv_pd* pd, const MrAttributes& wanted) {
  constexpr std::uint64_t kKnown = kMrIova | kMrAddress | kMrBuffer;
  if ((wanted.mask & ~kKnown) != 0) fail(EOPNOTSUPP, "unknown attributes");
  if ((wanted.mask & kMrAddress) == 0) fail(EINVAL, "no address is given");
  if ((wanted.mask & kMrBuffer) == 0) return;
  if (wanted.buffer == nullptr) fail(EINVAL, "no buffer is given");
  check_inside(*wanted.buffer, pd, wanted.address, wanted.length);
}

}  // namespace

}  // namespace mrc_verbs::later

using mrc_verbs::later::Buffer;
using mrc_verbs::later::MrAttributes;

// The symbols are named here and not by the functions, which a later header declares with its own
// types.
#define MRC_LATER(symbol) __asm__(#symbol) __attribute__((visibility("default"), used))

extern "C" {

// ----------------------------------------------------------------------------------- memory

void* mrc_later_alloc_buf(ibv_pd*, std::size_t, Buffer**) MRC_LATER(ibv_alloc_buf);
void* mrc_later_alloc_buf(ibv_pd* pd, std::size_t size, Buffer** out) {
  return pointer_or_errno("ibv_alloc_buf", [&]() -> void* {
    if (size == 0) fail(EINVAL, "a buffer has at least one byte");
    auto buffer = std::make_unique<Buffer>(Buffer{pd, nullptr, size});
    buffer->address =
        ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (buffer->address == MAP_FAILED)
      fail(errno, "no memory of " + std::to_string(size) + " bytes");
    ++Pd::of(pd).users;
    *out = buffer.release();
    return (*out)->address;
  });
}

void mrc_later_free_buf(Buffer*) MRC_LATER(ibv_free_buf);
void mrc_later_free_buf(Buffer* buffer) {
  if (buffer == nullptr) return;
  (void)::munmap(buffer->address, buffer->size);
  --Pd::of(buffer->pd).users;
  delete buffer;
}

int mrc_later_export_buf(Buffer*) MRC_LATER(ibv_export_buf_dmabuf_fd);
int mrc_later_export_buf(Buffer*) {
  (void)decline(ENODATA, "ibv_export_buf_dmabuf_fd",
                "the buffer is memory of the host, no DMA-BUF");
  return -1;
}

ibv_mr* mrc_later_reg_buf_mr(ibv_pd*, Buffer*, void*, std::size_t, int) MRC_LATER(ibv_reg_buf_mr);
ibv_mr* mrc_later_reg_buf_mr(ibv_pd* pd, Buffer* buffer, void* address, std::size_t length,
                             int access) {
  return pointer_or_errno("ibv_reg_buf_mr", [&] {
    mrc_verbs::later::check_inside(*buffer, pd, address, length);
    return register_memory("ibv_reg_buf_mr", pd, address, length,
                           reinterpret_cast<std::uintptr_t>(address),
                           static_cast<unsigned>(access));
  });
}

ibv_mr* mrc_later_reg_mr_ex(ibv_pd*, const MrAttributes*) MRC_LATER(ibv_reg_mr_ex);
ibv_mr* mrc_later_reg_mr_ex(ibv_pd* pd, const MrAttributes* wanted) {
  using namespace mrc_verbs::later;
  if ((wanted->mask & (kMrFd | kMrFdOffset | kMrDmaHandle)) != 0) {  // programs try it
    (void)decline(EOPNOTSUPP, "ibv_reg_mr_ex", "neither DMA-BUF nor DMA handles");
    return nullptr;
  }
  return pointer_or_errno("ibv_reg_mr_ex", [&] {
    check(pd, *wanted);
    const auto address = reinterpret_cast<std::uintptr_t>(wanted->address);
    return register_memory("ibv_reg_mr_ex", pd, wanted->address, wanted->length,
                           (wanted->mask & kMrIova) != 0 ? wanted->iova : address,
                           static_cast<unsigned>(wanted->access));
  });
}

// ------------------------------------------------------------------------------------- port

/// In units of 100 Mb/s: all planes together; of ports 2 and more, one plane.
int mrc_later_port_speed(ibv_context*, std::uint32_t, std::uint64_t*)
    MRC_LATER(ibv_query_port_speed);
int mrc_later_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed) {
  return status_of("ibv_query_port_speed", [&] {
    const mrc::Device& device = Context::of(context).device();
    if (!has_port(device, port)) fail(EINVAL, no_port(device, port));
    const double all = device.config().cc_link_speed;
    const double gigabits = port == 1 ? all : all / device.plane_count();
    *speed = static_cast<std::uint64_t>(std::llround(gigabits * 10));
    return 0;
  });
}

// --------------------------------------------------------------------------- what there is not

void* mrc_later_alloc_dmah(ibv_context*, void*) MRC_LATER(ibv_alloc_dmah);
void* mrc_later_alloc_dmah(ibv_context*, void*) {
  (void)decline(EOPNOTSUPP, "ibv_alloc_dmah", mrc_verbs::later::kNoDmaHandles);
  return nullptr;
}
int mrc_later_dealloc_dmah(void*) MRC_LATER(ibv_dealloc_dmah);
int mrc_later_dealloc_dmah(void*) {
  return EOPNOTSUPP;
}
int mrc_later_export_dm(void*) MRC_LATER(ibv_dm_export_dmabuf_fd);
int mrc_later_export_dm(void*) {
  (void)decline(EOPNOTSUPP, "ibv_dm_export_dmabuf_fd", "there is no memory in the device");
  return -1;
}

int mrc_later_counter_caps(ibv_context*, void*, std::size_t) MRC_LATER(_ibv_query_comp_cntr_caps);
int mrc_later_counter_caps(ibv_context*, void*, std::size_t) {
  return decline(EOPNOTSUPP, "ibv_query_comp_cntr_caps", mrc_verbs::later::kNoCounters);
}
void* mrc_later_create_counter(ibv_context*, void*) MRC_LATER(ibv_create_comp_cntr);
void* mrc_later_create_counter(ibv_context*, void*) {
  (void)decline(EOPNOTSUPP, "ibv_create_comp_cntr", mrc_verbs::later::kNoCounters);
  return nullptr;
}
int mrc_later_attach_counter(ibv_qp*, void*, void*) MRC_LATER(ibv_qp_attach_comp_cntr);
int mrc_later_attach_counter(ibv_qp*, void*, void*) {
  return EOPNOTSUPP;
}

// What there is to do with a counter, of which there is none.
#define MRC_OF_COUNTERS(symbol)                          \
  int mrc_later_##symbol(void*) MRC_LATER(ibv_##symbol); \
  int mrc_later_##symbol(void*) {                        \
    return EOPNOTSUPP;                                   \
  }
MRC_OF_COUNTERS(destroy_comp_cntr)
MRC_OF_COUNTERS(inc_comp_cntr)
MRC_OF_COUNTERS(inc_err_comp_cntr)
MRC_OF_COUNTERS(read_comp_cntr)
MRC_OF_COUNTERS(read_err_comp_cntr)
MRC_OF_COUNTERS(set_comp_cntr)
MRC_OF_COUNTERS(set_err_comp_cntr)

}  // extern "C"
