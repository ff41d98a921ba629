// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): the engine, and what of the layers
/// below it is compiled.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/cc/nscc_parameters.inl"
#include "mrc/core/error.inl"
#include "mrc/engine/completions.inl"
#include "mrc/engine/context.inl"
#include "mrc/engine/control_sender.inl"
#include "mrc/engine/data_sender.inl"
#include "mrc/engine/datagram_receive.inl"
#include "mrc/engine/datagram_send.inl"
#include "mrc/engine/datagram_tables.inl"
#include "mrc/engine/endpoint_service.inl"
#include "mrc/engine/engine.inl"
#include "mrc/engine/engine_datagrams.inl"
#include "mrc/engine/engine_objects.inl"
#include "mrc/engine/engine_states.inl"
#include "mrc/engine/loss_recovery.inl"
#include "mrc/engine/message_layout.inl"
#include "mrc/engine/object_tables.inl"
#include "mrc/engine/part_assembly.inl"
#include "mrc/engine/ready_queue.inl"
#include "mrc/engine/requester.inl"
#include "mrc/engine/requester_sack.inl"
#include "mrc/engine/responder.inl"
#include "mrc/engine/responder_answers.inl"
#include "mrc/engine/responder_rc.inl"
#include "mrc/engine/scheduler.inl"
#include "mrc/engine/teardown.inl"
#include "mrc/engine/timers.inl"
#include "mrc/path/expand.inl"
#include "mrc/path/path_set.inl"
#include "mrc/path/profile.inl"
#include "mrc/path/usid_template.inl"
#include "mrc/wire/crc32.inl"
