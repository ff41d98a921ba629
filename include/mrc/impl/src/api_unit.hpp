// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): configuration, exchange of
/// connection data, the texts of values and addresses, and the version.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/api/impl/device_config.ipp"
#include "mrc/api/impl/environment.ipp"
#include "mrc/api/impl/option.ipp"
#include "mrc/api/impl/option_table.ipp"
#include "mrc/api/impl/options_markdown.ipp"
#include "mrc/api/impl/peer_lists.ipp"
#include "mrc/api/impl/setting_source.ipp"
#include "mrc/core/impl/value_text.ipp"
#include "mrc/exchange/impl/connection_info.ipp"
#include "mrc/exchange/impl/resolution.ipp"
#include "mrc/exchange/impl/tcp_exchange.ipp"
#include "mrc/exchange/impl/tcp_socket.ipp"
#include "mrc/impl/version.ipp"
#include "mrc/net/impl/address.ipp"
#include "mrc/net/impl/ip_network.ipp"
#include "mrc/plane/impl/port_options.ipp"
