// SPDX-License-Identifier: Apache-2.0
#pragma once

/// One of the units of the compiled library (mrc/impl/src.hpp): ports on sockets, and the
/// packets that they build and parse.
#ifndef MRC_SEPARATE_COMPILATION
#error "define MRC_SEPARATE_COMPILATION in every unit of the program to compile OpenMRC once"
#endif

#include "mrc/port/impl/fault.ipp"
#include "mrc/port/impl/fault_hold.ipp"
#include "mrc/port/impl/fault_schedule.ipp"
#include "mrc/port/impl/fault_spec.ipp"
#include "mrc/port/impl/netlink.ipp"
#include "mrc/port/impl/packet.ipp"
#include "mrc/port/impl/packet_filter.ipp"
#include "mrc/port/impl/packet_link.ipp"
#include "mrc/port/impl/packet_options.ipp"
#include "mrc/port/impl/packet_receive.ipp"
#include "mrc/port/impl/packet_slot.ipp"
#include "mrc/port/impl/packet_socket.ipp"
#include "mrc/port/impl/packet_transmit.ipp"
#include "mrc/port/impl/receive_check.ipp"
#include "mrc/port/impl/socket.ipp"
#include "mrc/port/impl/socket_address.ipp"
#include "mrc/port/impl/socket_interface.ipp"
#include "mrc/port/impl/uc_message.ipp"
#include "mrc/port/impl/uc_receiver.ipp"
#include "mrc/port/impl/uc_sender.ipp"
#include "mrc/port/impl/uc_waits.ipp"
#include "mrc/port/impl/udp.ipp"
#include "mrc/port/impl/udp_filter.ipp"
#include "mrc/port/impl/udp_options.ipp"
#include "mrc/port/impl/udp_path.ipp"
#include "mrc/port/impl/udp_receive.ipp"
#include "mrc/port/impl/udp_slot.ipp"
#include "mrc/port/impl/udp_transmit.ipp"
#include "mrc/port/impl/verbs_contact.ipp"
#include "mrc/port/impl/verbs_message.ipp"
#include "mrc/wire/impl/icrc.ipp"
#include "mrc/wire/impl/packet_build.ipp"
#include "mrc/wire/impl/packet_layout.ipp"
#include "mrc/wire/impl/packet_parse.ipp"
#include "mrc/wire/impl/packet_trim.ipp"
