// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cerrno>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "mrc/core/unique_fd.hpp"
#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/log.hpp"

/// From the library's errors to what verbs programs expect. Nothing thrown leaves the shim, and a
/// thread is cancelled in ibv_get_cq_event(), ibv_get_async_event() and their like alone.
namespace mrc_verbs {

/// The errno value that verbs programs expect for it.
[[nodiscard]] int errno_of(mrc::Errc error) noexcept;

/// The same for something thrown.
[[nodiscard]] int errno_of(const std::exception& error) noexcept;

/// A local key that is unknown, or not for that memory or use.
[[nodiscard]] constexpr bool is_protection(mrc::Errc error) noexcept {
  return error == mrc::Errc::invalid_lkey || error == mrc::Errc::access_denied ||
         error == mrc::Errc::wrong_pd;
}

/// For calls that return a pointer: what `make` returns; or null with errno set, and a line in the
/// log, if it throws.
template <class Make>
auto pointer_or_errno(const char* call, Make&& make) noexcept -> decltype(make()) {
  const mrc::Uncancelled here;
  try {
    return make();
  } catch (const std::exception& error) {
    (void)refuse(errno_of(error), call, error.what());
    return nullptr;
  }
}

/// For calls that return 0 or an errno value: what `act` returns, or what stands for what it
/// throws.
template <class Act>
int status_of(const char* call, Act&& act) noexcept {
  const mrc::Uncancelled here;
  try {
    return act();
  } catch (const std::exception& error) {
    return refuse(errno_of(error), call, error.what());
  }
}

/// The beginning of a line about a request: "queue pair 5, request 7: ".
[[nodiscard]] std::string about(std::uint64_t request, const ibv_qp* qp);
/// The device has not taken a request, to `qp` or, if that is null, to a shared queue: the errno
/// value for it. Why is written with MRC_LOG=info only: a full queue is met often, and no mistake.
int refuse_post(const char* call, mrc::Errc error, std::uint64_t request,
                const ibv_qp* qp = nullptr) noexcept;

/// Thrown where the cause is an errno value of the shim's own.
[[noreturn]] void fail(int error, const std::string& why);

}  // namespace mrc_verbs
