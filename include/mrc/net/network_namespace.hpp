// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>

/// Whether two processes share a host, that is a network namespace.
namespace mrc::inline v0_1::port {

/// A number that processes of one network namespace have in common, and that those of others, on
/// this machine or elsewhere, do not: 64 bits of a hash over the namespace's number and the
/// kernel's boot id. It is no secret. Machines that were copied while they ran may have the same
/// number. 0: it can't be told here. Of the calling thread's namespace; any thread.
[[nodiscard]] std::uint64_t network_namespace() noexcept;

/// Whether a process of this PID namespace is known to be in another network namespace than the
/// calling thread. Any thread.
[[nodiscard]] bool in_other_network(::pid_t pid) noexcept;

}  // namespace mrc::inline v0_1::port
