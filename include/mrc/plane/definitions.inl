// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: ports on UDP sockets, and the packets that they build and parse.
#include "mrc/net/interface.inl"
#include "mrc/net/socket.inl"
#include "mrc/plane/plane.inl"
#include "mrc/plane/slot.inl"
#include "mrc/plane/udp_kind.inl"
#include "mrc/plane/udp_port.inl"
#include "mrc/wire/icrc.inl"
#include "mrc/fabric/packet.inl"
