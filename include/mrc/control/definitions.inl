// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: administration: control sockets, profiles, and what is kept for all devices of a
/// host.
#include "mrc/control/administration.inl"
#include "mrc/control/client.inl"
#include "mrc/control/device_control.inl"
#include "mrc/control/dumps.inl"
#include "mrc/control/expand.inl"
#include "mrc/control/host_store.inl"
#include "mrc/control/line_server.inl"
#include "mrc/control/profiles.inl"
#include "mrc/control/run_folder.inl"
