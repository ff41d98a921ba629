// SPDX-License-Identifier: Apache-2.0
#pragma once

#if defined(__SANITIZE_THREAD__)
#define MRC_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MRC_THREAD_SANITIZER 1
#endif
#endif

#if defined(MRC_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

/// What the thread sanitizer can't see for itself: MRC_THREAD_SANITIZER is defined in programs that
/// are built with it.
namespace mrc::inline v0_1 {

#if defined(MRC_THREAD_SANITIZER)
/// Its address stands for the order in which the kernel hands packets over.
inline char packets_through_kernel;
#endif

/// What this thread has done comes before what a thread does that has called after_packets() on
/// receiving them. The sanitizer knows that of sockets, not of rings in shared memory.
inline void before_packets() noexcept {
#if defined(MRC_THREAD_SANITIZER)
  __tsan_release(&packets_through_kernel);
#endif
}
/// See before_packets().
inline void after_packets() noexcept {
#if defined(MRC_THREAD_SANITIZER)
  __tsan_acquire(&packets_through_kernel);
#endif
}

}  // namespace mrc::inline v0_1
