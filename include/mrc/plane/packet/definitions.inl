// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: the planes of a fabric description.
#include "mrc/plane/packet/fabric_settings.inl"
#include "mrc/plane/packet/packet_filter.inl"
#include "mrc/plane/packet/packet_kind.inl"
#include "mrc/plane/packet/packet_link.inl"
#include "mrc/plane/packet/packet_options.inl"
#include "mrc/plane/packet/packet_port.inl"
#include "mrc/plane/packet/packet_receive.inl"
#include "mrc/plane/packet/packet_ring.inl"
#include "mrc/plane/packet/packet_slot.inl"
#include "mrc/plane/packet/packet_socket.inl"
#include "mrc/plane/packet/packet_transmit.inl"
#include "mrc/plane/packet/probe_responder.inl"
#include "mrc/plane/packet/socket_frames.inl"
#include "mrc/plane/packet/verbs_name.inl"
