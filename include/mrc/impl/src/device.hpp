// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): devices and their progress. In one
/// unit, so that rounds and what makes them are inlined into each other.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/device/impl/connect.ipp"
#include "mrc/device/impl/connector.ipp"
#include "mrc/device/impl/core.ipp"
#include "mrc/device/impl/core_profiles.ipp"
#include "mrc/device/impl/datagram_routes.ipp"
#include "mrc/device/impl/ev_profile.ipp"
#include "mrc/device/impl/faults.ipp"
#include "mrc/device/impl/host_addresses.ipp"
#include "mrc/device/impl/key_log.ipp"
#include "mrc/device/impl/lane.ipp"
#include "mrc/device/impl/lane_datagrams.ipp"
#include "mrc/device/impl/lane_profiles.ipp"
#include "mrc/device/impl/lanes.ipp"
#include "mrc/device/impl/openers.ipp"
#include "mrc/device/impl/peers.ipp"
#include "mrc/device/impl/planes.ipp"
#include "mrc/device/impl/profile_registry.ipp"
#include "mrc/device/impl/progress.ipp"
#include "mrc/device/impl/rounds.ipp"
#include "mrc/device/impl/shared_receive_queue.ipp"
#include "mrc/device/impl/udp_planes.ipp"
#include "mrc/impl/completion_channel.ipp"
#include "mrc/impl/completion_queue.ipp"
#include "mrc/impl/datagram_queue_pair.ipp"
#include "mrc/impl/device.ipp"
#include "mrc/impl/device_profiles.ipp"
#include "mrc/impl/memory_region.ipp"
#include "mrc/impl/queue_pair.ipp"
