// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Definitions: planes on RDMA devices. Without the headers of libibverbs, only what needs none.
#include "mrc/plane/verbs/uc_message.inl"
#include "mrc/plane/verbs/uc_receiver.inl"
#include "mrc/plane/verbs/uc_sender.inl"
#include "mrc/plane/verbs/uc_waits.inl"
#include "mrc/plane/verbs/verbs_contact.inl"
#include "mrc/plane/verbs/verbs_message.inl"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/plane/verbs/uc.inl"
#include "mrc/plane/verbs/verbs_addresses.inl"
#include "mrc/plane/verbs/verbs_control.inl"
#include "mrc/plane/verbs/verbs_device.inl"
#include "mrc/plane/verbs/verbs_frames.inl"
#include "mrc/plane/verbs/verbs_keeper.inl"
#include "mrc/plane/verbs/verbs_kind.inl"
#include "mrc/plane/verbs/verbs_library.inl"
#include "mrc/plane/verbs/verbs_options.inl"
#include "mrc/plane/verbs/verbs_port.inl"
#include "mrc/plane/verbs/verbs_queues.inl"
#include "mrc/plane/verbs/verbs_receive.inl"
#include "mrc/plane/verbs/verbs_transmit.inl"
#endif
