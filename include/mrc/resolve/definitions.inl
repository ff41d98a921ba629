// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/engine/datagram_service.inl"
#include "mrc/engine/datagram_tables.inl"
#include "mrc/exchange/resolution.inl"
#include "mrc/host/connector.inl"
#include "mrc/host/datagram_routes.inl"
#include "mrc/host/endpoint_requests.inl"
#include "mrc/host/lane_resolver.inl"
