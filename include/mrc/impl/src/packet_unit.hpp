// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): the planes of a fabric description.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/plane/packet/impl/fabric_settings.ipp"
#include "mrc/plane/packet/impl/packet_kind.ipp"
#include "mrc/plane/packet/impl/probe_responder.ipp"
