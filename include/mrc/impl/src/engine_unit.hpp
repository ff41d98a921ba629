// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): the engine, and what of the layers
/// below it is compiled.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/cc/impl/nscc_parameters.ipp"
#include "mrc/core/impl/error.ipp"
#include "mrc/engine/impl/completions.ipp"
#include "mrc/engine/impl/context.ipp"
#include "mrc/engine/impl/control_sender.ipp"
#include "mrc/engine/impl/data_sender.ipp"
#include "mrc/engine/impl/datagram_receive.ipp"
#include "mrc/engine/impl/datagram_send.ipp"
#include "mrc/engine/impl/datagram_tables.ipp"
#include "mrc/engine/impl/endpoint_service.ipp"
#include "mrc/engine/impl/engine.ipp"
#include "mrc/engine/impl/engine_datagrams.ipp"
#include "mrc/engine/impl/engine_objects.ipp"
#include "mrc/engine/impl/engine_states.ipp"
#include "mrc/engine/impl/loss_recovery.ipp"
#include "mrc/engine/impl/message_layout.ipp"
#include "mrc/engine/impl/object_tables.ipp"
#include "mrc/engine/impl/part_assembly.ipp"
#include "mrc/engine/impl/ready_queue.ipp"
#include "mrc/engine/impl/requester.ipp"
#include "mrc/engine/impl/requester_sack.ipp"
#include "mrc/engine/impl/responder.ipp"
#include "mrc/engine/impl/responder_answers.ipp"
#include "mrc/engine/impl/responder_rc.ipp"
#include "mrc/engine/impl/scheduler.ipp"
#include "mrc/engine/impl/teardown.ipp"
#include "mrc/engine/impl/timers.ipp"
#include "mrc/path/impl/expand.ipp"
#include "mrc/path/impl/path_set.ipp"
#include "mrc/path/impl/profile.ipp"
#include "mrc/path/impl/usid_template.ipp"
#include "mrc/wire/impl/crc32.ipp"
