// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: configuration, exchange of connection data, ports on UDP sockets.
#include "mrc/config.inl"
#include "mrc/core/value_text.inl"
#include "mrc/exchange.inl"
#include "mrc/net/address.inl"
#include "mrc/net/interface.inl"
#include "mrc/plane/plane.inl"
#include "mrc/plane/udp_kind.inl"
#include "mrc/plane/udp_port.inl"
#include "mrc/wire/icrc.inl"
