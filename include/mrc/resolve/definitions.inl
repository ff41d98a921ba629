// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: connecting by GID, datagrams, endpoint requests.
#include "mrc/resolve/connector.inl"
#include "mrc/resolve/datagram_routes.inl"
#include "mrc/resolve/datagrams.inl"
#include "mrc/resolve/endpoint_requests.inl"
#include "mrc/resolve/resolution.inl"
#include "mrc/resolve/resolver.inl"
