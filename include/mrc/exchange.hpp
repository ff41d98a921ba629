// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Set-up of a connection between two programs: the data that a queue pair needs of its peer
/// (ConnectionInfo, as bytes for any transport), and a small exchange over TCP for programs that
/// have no other.
#include "mrc/exchange/connection_info.hpp"
#include "mrc/exchange/tcp_exchange.hpp"
