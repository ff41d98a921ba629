// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: control sockets, and what is kept for all devices of a host.
#include "mrc/control/client.inl"
#include "mrc/control/line_server.inl"
#include "mrc/control/run_folder.inl"
#include "mrc/host/administration.inl"
#include "mrc/host/device_control.inl"
#include "mrc/host/dumps.inl"
#include "mrc/host/host_store.inl"
#include "mrc/host/profiles.inl"
#include "mrc/path/profile.inl"
