// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): descriptions of fabrics, and the
/// JSON files that they are read from.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/fabric/impl/description.ipp"
#include "mrc/fabric/impl/fabric_address.ipp"
#include "mrc/fabric/impl/fabric_reader.ipp"
#include "mrc/fabric/impl/routes.ipp"
#include "mrc/fabric/impl/self.ipp"
#include "mrc/json/impl/file.ipp"
#include "mrc/json/impl/json_reader.ipp"
#include "mrc/json/impl/object.ipp"
#include "mrc/json/impl/text.ipp"
#include "mrc/json/impl/tree.ipp"
#include "mrc/json/impl/value.ipp"
