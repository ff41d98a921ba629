// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): the planes of a fabric description.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/plane/packet/fabric_settings.inl"
#include "mrc/plane/packet/packet_kind.inl"
#include "mrc/plane/packet/probe_responder.inl"
