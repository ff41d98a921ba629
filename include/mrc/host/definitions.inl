// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: devices and their progress.
#include "mrc/device.inl"
#include "mrc/host/device_core.inl"
#include "mrc/host/lane.inl"
#include "mrc/host/modules.inl"
#include "mrc/host/peers.inl"
#include "mrc/host/progress.inl"
#include "mrc/host/rounds.inl"
