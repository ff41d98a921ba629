// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: configuration, exchange of connection data, the texts of values and addresses.
#include "mrc/api/device_config.inl"
#include "mrc/api/environment.inl"
#include "mrc/api/option.inl"
#include "mrc/api/option_table.inl"
#include "mrc/api/options_markdown.inl"
#include "mrc/api/peer_lists.inl"
#include "mrc/api/setting_source.inl"
#include "mrc/core/value_text.inl"
#include "mrc/exchange/connection_info.inl"
#include "mrc/exchange/resolution.inl"
#include "mrc/exchange/tcp_exchange.inl"
#include "mrc/exchange/tcp_socket.inl"
#include "mrc/net/address.inl"
#include "mrc/plane/port_options.inl"
#include "mrc/version.inl"
