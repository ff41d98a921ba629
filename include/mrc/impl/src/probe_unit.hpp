// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): what finds the dead parts of a
/// fabric.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/probe/impl/changes.ipp"
#include "mrc/probe/impl/cover.ipp"
#include "mrc/probe/impl/part.ipp"
#include "mrc/probe/impl/paths.ipp"
#include "mrc/probe/impl/report.ipp"
#include "mrc/probe/impl/second_look.ipp"
#include "mrc/probe/impl/slow.ipp"
#include "mrc/probe/impl/sweep.ipp"
#include "mrc/probe/impl/trains.ipp"
#include "mrc/probe/impl/verdict.ipp"
