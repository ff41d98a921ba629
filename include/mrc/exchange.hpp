// SPDX-License-Identifier: Apache-2.0
#pragma once

/// How two sides find each other: what a queue pair tells its peer (ConnectionInfo, as bytes for
/// any transport), and a small exchange over TCP for programs that have no other.
#include "mrc/exchange/connection_info.hpp"
#include "mrc/exchange/tcp_exchange.hpp"
