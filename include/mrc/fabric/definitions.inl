// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: descriptions of fabrics, the JSON that they are read from, and packet ports.
#include "mrc/fabric/description.inl"
#include "mrc/fabric/fabric_reader.inl"
#include "mrc/fabric/json.inl"
#include "mrc/fabric/packet.inl"
#include "mrc/fabric/packet_kind.inl"
#include "mrc/fabric/packet_link.inl"
#include "mrc/fabric/packet_port.inl"
#include "mrc/fabric/probe_responder.inl"
#include "mrc/fabric/routes.inl"
#include "mrc/fabric/usid.inl"
