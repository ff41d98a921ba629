// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): devices and their progress. In one
/// unit, so that rounds and what makes them are inlined into each other.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/completion_channel.inl"
#include "mrc/completion_queue.inl"
#include "mrc/datagram_queue_pair.inl"
#include "mrc/device.inl"
#include "mrc/device_profiles.inl"
#include "mrc/host/connect.inl"
#include "mrc/host/connector.inl"
#include "mrc/host/datagram_routes.inl"
#include "mrc/host/device_core.inl"
#include "mrc/host/device_core_profiles.inl"
#include "mrc/host/endpoint_requests.inl"
#include "mrc/host/ev_profile.inl"
#include "mrc/host/faults.inl"
#include "mrc/host/key_log.inl"
#include "mrc/host/lane.inl"
#include "mrc/host/lane_datagrams.inl"
#include "mrc/host/lane_endpoints.inl"
#include "mrc/host/lane_profiles.inl"
#include "mrc/host/lane_reports.inl"
#include "mrc/host/lanes.inl"
#include "mrc/host/peers.inl"
#include "mrc/host/plane_kinds.inl"
#include "mrc/host/profile_follow.inl"
#include "mrc/host/profile_registry.inl"
#include "mrc/host/profiles.inl"
#include "mrc/host/progress.inl"
#include "mrc/host/rounds.inl"
#include "mrc/host/throttle_watch.inl"
#include "mrc/memory_region.inl"
#include "mrc/plane/host_addresses.inl"
#include "mrc/plane/plane_kind.inl"
#include "mrc/plane/udp/udp_kind.inl"
#include "mrc/queue_pair.inl"
#include "mrc/shared_receive_queue.inl"
