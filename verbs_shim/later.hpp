// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

/// Types of releases of rdma-core later than 44, which the shim may be built with. They have names
/// of their own, since a later header declares them too; layouts and values are those of 65.
namespace mrc_verbs::later {

/// ibv_buf (64): memory from ibv_alloc_buf(). Opaque to programs.
struct Buffer;

/// ibv_mr_init_attr_mask (59; the last one 64): which members of MrAttributes count.
enum MrMask : std::uint64_t {
  kMrIova = 1 << 0,
  kMrAddress = 1 << 1,
  kMrFd = 1 << 2,
  kMrFdOffset = 1 << 3,
  kMrDmaHandle = 1 << 4,
  kMrBuffer = 1 << 5,
};

/// ibv_mr_init_attr (59; the last member 64).
struct MrAttributes {
  std::size_t length;
  int access;
  std::uint64_t mask;  ///< MrMask
  std::uint64_t iova;
  void* address;
  int fd;
  std::uint64_t fd_offset;
  void* dma_handle;
  Buffer* buffer;
};
static_assert(offsetof(MrAttributes, mask) == 16 && offsetof(MrAttributes, address) == 32 &&
              offsetof(MrAttributes, buffer) == 64 && sizeof(MrAttributes) == 72);

}  // namespace mrc_verbs::later
