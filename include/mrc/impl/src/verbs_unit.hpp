// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): planes on RDMA devices.
/// Without the headers of libibverbs, only their names.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/plane/packet/impl/verbs_name.ipp"
#if __has_include(<infiniband/verbs.h>)
#include "mrc/plane/verbs/impl/verbs_addresses.ipp"
#include "mrc/plane/verbs/impl/verbs_control.ipp"
#include "mrc/plane/verbs/impl/verbs_device.ipp"
#include "mrc/plane/verbs/impl/verbs_frames.ipp"
#include "mrc/plane/verbs/impl/verbs_keeper.ipp"
#include "mrc/plane/verbs/impl/verbs_kind.ipp"
#include "mrc/plane/verbs/impl/verbs_library.ipp"
#include "mrc/plane/verbs/impl/verbs_options.ipp"
#include "mrc/plane/verbs/impl/verbs_port.ipp"
#include "mrc/plane/verbs/impl/verbs_queues.ipp"
#include "mrc/plane/verbs/impl/verbs_receive.ipp"
#include "mrc/plane/verbs/impl/verbs_transmit.ipp"
#include "mrc/plane/verbs/impl/verbs_uc.ipp"
#endif
