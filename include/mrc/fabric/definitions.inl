// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: descriptions of fabrics, and the JSON that they are read from.
#include "mrc/fabric/description.inl"
#include "mrc/fabric/fabric_reader.inl"
#include "mrc/fabric/routes.inl"
#include "mrc/fabric/json.inl"
#include "mrc/fabric/usid.inl"
