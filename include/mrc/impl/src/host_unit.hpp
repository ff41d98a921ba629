// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): devices and their progress. In one
/// unit, so that rounds and what makes them are inlined into each other.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/host/impl/connect.ipp"
#include "mrc/host/impl/connector.ipp"
#include "mrc/host/impl/datagram_routes.ipp"
#include "mrc/host/impl/device_core.ipp"
#include "mrc/host/impl/device_core_profiles.ipp"
#include "mrc/host/impl/endpoint_requests.ipp"
#include "mrc/host/impl/ev_profile.ipp"
#include "mrc/host/impl/faults.ipp"
#include "mrc/host/impl/key_log.ipp"
#include "mrc/host/impl/lane.ipp"
#include "mrc/host/impl/lane_datagrams.ipp"
#include "mrc/host/impl/lane_endpoints.ipp"
#include "mrc/host/impl/lane_profiles.ipp"
#include "mrc/host/impl/lane_reports.ipp"
#include "mrc/host/impl/lanes.ipp"
#include "mrc/host/impl/peers.ipp"
#include "mrc/host/impl/plane_kinds.ipp"
#include "mrc/host/impl/profile_follow.ipp"
#include "mrc/host/impl/profile_registry.ipp"
#include "mrc/host/impl/profiles.ipp"
#include "mrc/host/impl/progress.ipp"
#include "mrc/host/impl/rounds.ipp"
#include "mrc/host/impl/throttle_watch.ipp"
#include "mrc/impl/completion_channel.ipp"
#include "mrc/impl/completion_queue.ipp"
#include "mrc/impl/datagram_queue_pair.ipp"
#include "mrc/impl/device.ipp"
#include "mrc/impl/device_profiles.ipp"
#include "mrc/impl/memory_region.ipp"
#include "mrc/impl/queue_pair.ipp"
#include "mrc/impl/shared_receive_queue.ipp"
#include "mrc/plane/impl/host_addresses.ipp"
#include "mrc/plane/impl/plane_kind.ipp"
#include "mrc/plane/udp/impl/udp_kind.ipp"
