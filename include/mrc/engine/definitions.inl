// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: the engine, and what of the layers below it is compiled.
#include "mrc/engine/context.inl"
#include "mrc/engine/endpoint_service.inl"
#include "mrc/engine/engine.inl"
#include "mrc/engine/requester.inl"
#include "mrc/engine/responder.inl"
#include "mrc/engine/scheduler.inl"
#include "mrc/path/path_set.inl"
