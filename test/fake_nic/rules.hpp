// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "fake_nic/world.hpp"

/// What verbs demand of programs, and kernels and devices refuse otherwise. Under the world's lock.
namespace mrc::test::fake_nic {

/// Whether a queue pair may go from its state to a->qp_state with these attributes: those that the
/// step needs, and no others. What is wrong is a misuse.
[[nodiscard]] bool allowed(const Qp& qp, const ibv_qp_attr& a, int mask);
/// Whether packets can leave for there: the own GID exists, and somebody has the other one. If not,
/// sets errno as the kernel does.
[[nodiscard]] bool reachable(const Card& card, unsigned port, const ibv_ah_attr& to);
/// Whether all of that is registered, in that protection domain, with these rights.
[[nodiscard]] bool registered(const Card& card, const ibv_pd* pd, std::span<const ibv_sge> sges,
                              int access);

}  // namespace mrc::test::fake_nic
