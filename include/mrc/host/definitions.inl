// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: devices and their progress.
#include "mrc/datagram_queue_pair.inl"
#include "mrc/device.inl"
#include "mrc/device_profiles.inl"
#include "mrc/host/connector.inl"
#include "mrc/host/datagram_routes.inl"
#include "mrc/host/device_core.inl"
#include "mrc/host/endpoint_requests.inl"
#include "mrc/host/faults.inl"
#include "mrc/host/lane.inl"
#include "mrc/host/peers.inl"
#include "mrc/host/plane_kinds.inl"
#include "mrc/host/profiles.inl"
#include "mrc/host/progress.inl"
#include "mrc/host/rounds.inl"
#include "mrc/host/steering.inl"
#include "mrc/plane/plane_kind.inl"
