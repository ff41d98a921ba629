// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: configuration, exchange of connection data, the texts of values and addresses.
#include "mrc/api/device_config.inl"
#include "mrc/config.inl"
#include "mrc/core/value_text.inl"
#include "mrc/exchange/connection_info.inl"
#include "mrc/exchange.inl"
#include "mrc/net/address.inl"
#include "mrc/version.inl"
