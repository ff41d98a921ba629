// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): what finds the dead parts of a
/// fabric.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/probe/changes.inl"
#include "mrc/probe/cover.inl"
#include "mrc/probe/part.inl"
#include "mrc/probe/paths.inl"
#include "mrc/probe/report.inl"
#include "mrc/probe/second_look.inl"
#include "mrc/probe/slow.inl"
#include "mrc/probe/sweep.inl"
#include "mrc/probe/trains.inl"
#include "mrc/probe/verdict.inl"
