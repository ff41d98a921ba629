// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): control sockets. Apart from the
/// devices, since it needs a JSON library.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/control/impl/client.ipp"
#include "mrc/control/impl/fields.ipp"
#include "mrc/control/impl/line_server.ipp"
#include "mrc/control/impl/remote_device.ipp"
#include "mrc/control/impl/run_folder.ipp"
#include "mrc/control/impl/unix_socket.ipp"
#include "mrc/host/impl/device_control.ipp"
#include "mrc/host/impl/dumps.ipp"
#include "mrc/host/impl/host_change.ipp"
#include "mrc/host/impl/host_store.ipp"
#include "mrc/host/impl/profile_json.ipp"
#include "mrc/host/impl/steering_json.ipp"
