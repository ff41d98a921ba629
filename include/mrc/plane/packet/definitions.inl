// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: the planes of a fabric description.
#include "mrc/fabric/packet_kind.inl"
#include "mrc/fabric/packet_link.inl"
#include "mrc/fabric/packet_port.inl"
#include "mrc/fabric/probe_responder.inl"
