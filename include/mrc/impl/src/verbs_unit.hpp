// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): planes on RDMA devices.
/// Without the headers of libibverbs, only their names.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/plane/packet/verbs_name.inl"
#if __has_include(<infiniband/verbs.h>)
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
#include "mrc/plane/verbs/verbs_uc.inl"
#endif
