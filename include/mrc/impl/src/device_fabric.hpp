// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): the planes of a fabric description.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/device/impl/fabric_planes.ipp"
#include "mrc/device/impl/fabric_settings.ipp"
#include "mrc/device/impl/probe_responder.ipp"
