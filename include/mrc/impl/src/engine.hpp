// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): the engine, and what of the layers
/// below it is compiled.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/core/impl/error.ipp"
#include "mrc/engine/impl/control.ipp"
#include "mrc/engine/impl/endpoint.ipp"
#include "mrc/engine/impl/objects.ipp"
#include "mrc/engine/impl/post.ipp"
#include "mrc/engine/impl/receive.ipp"
#include "mrc/engine/impl/requester.ipp"
#include "mrc/engine/impl/responder.ipp"
#include "mrc/engine/impl/states.ipp"
#include "mrc/engine/impl/timers.ipp"
#include "mrc/engine/impl/transmit.ipp"
#include "mrc/path/impl/path_set.ipp"
#include "mrc/wire/impl/crc32.ipp"
