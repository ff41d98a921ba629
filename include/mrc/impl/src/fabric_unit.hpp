// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): descriptions of fabrics, and the
/// JSON files that they are read from.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/fabric/description.inl"
#include "mrc/fabric/fabric_address.inl"
#include "mrc/fabric/fabric_reader.inl"
#include "mrc/fabric/routes.inl"
#include "mrc/fabric/self.inl"
#include "mrc/json/file.inl"
#include "mrc/json/json_reader.inl"
#include "mrc/json/object.inl"
#include "mrc/json/text.inl"
#include "mrc/json/tree.inl"
#include "mrc/json/value.inl"
