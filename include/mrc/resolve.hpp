// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Connecting by GID (QpChange::destination), datagrams and endpoint requests: definitions of
/// Device::create_datagram_qp(), prepare() and request_endpoints(), and of DatagramQueuePair. To be
/// included where a program defines MRC_IMPLEMENTATION. Programs that link the compiled library
/// have them anyway.
#include "mrc/mrc.hpp"

#ifdef MRC_IMPLEMENTATION
#pragma GCC visibility push(hidden)
#include "mrc/resolve/definitions.inl"

namespace mrc::inline v0_1::detail {
/// Its initialisation is what counts.
const bool resolver_registered = (resolver_maker.store(&make_resolver), true);
}  // namespace mrc::inline v0_1::detail
#pragma GCC visibility pop
#endif
