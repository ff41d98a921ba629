// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: what finds the dead parts of a fabric.
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
