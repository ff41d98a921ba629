// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: the planes of a fabric description.
#include "mrc/plane/packet/packet_kind.inl"
#include "mrc/plane/packet/packet_link.inl"
#include "mrc/plane/packet/packet_port.inl"
#include "mrc/plane/packet/probe_responder.inl"
