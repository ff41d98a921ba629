// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: ports on UDP sockets, and the packets that they build and parse.
#include "mrc/api/fault_schedule.inl"
#include "mrc/api/fault_spec.inl"
#include "mrc/net/interface.inl"
#include "mrc/net/socket.inl"
#include "mrc/plane/fault.inl"
#include "mrc/plane/fault_hold.inl"
#include "mrc/plane/port.inl"
#include "mrc/plane/slot.inl"
#include "mrc/plane/udp/udp_filter.inl"
#include "mrc/plane/udp/udp_options.inl"
#include "mrc/plane/udp/udp_path.inl"
#include "mrc/plane/udp/udp_port.inl"
#include "mrc/plane/udp/udp_receive.inl"
#include "mrc/plane/udp/udp_transmit.inl"
#include "mrc/wire/icrc.inl"
#include "mrc/wire/packet.inl"
