// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The reliable connection (RC) of InfiniBand and RoCE: the baseline for comparisons with MRC.
///
/// Behaviour of RC NICs. A queue pair numbers its packets (24-bit PSN) and sends all of them on one
/// path, since ECMP hashes the same addresses and ports. The responder accepts packets in order
/// only; one that arrives early is dropped and answered with a NAK, and the requester goes back to
/// the missing PSN and resends everything from there: go-back-N. One lost packet costs a round trip
/// of sending, and reordering looks like loss. Losses that no NAK reports, such as of the last
/// packets, of the NAK, or of the same packet twice, are detected by a timer with a retry count.
/// The rate is DCQCN's (dcqcn.hpp).
///
/// Modelled (RcSender, RcReceiver): RDMA Write with and without immediate, coalesced ACKs, one NAK
/// per gap, the timer, retries, failure, pacing to a rate, and the packets' real bytes
/// (roce_wire.hpp). roce_host.hpp and roce_cluster.hpp run it on hosts of a fabric.
///
/// Not modelled:
/// - Receiver-not-ready NAKs and end-to-end credits: a receiver always has buffers (favours RC).
/// - Read, Send, atomics: traffic here is Writes.
/// - Selective repeat and out-of-order placement, which the newest NICs offer for adaptively routed
///   networks. Such a NIC is no longer RC on a single path, but a step towards MRC.
/// - Vendors' adaptive retransmission timers, approximated by a fixed timeout far shorter than
///   usual (RcSenderOptions::ack_timeout).
/// - The NIC's own limits: QP context cache, PCIe, processing time (favours RC).
/// - A congestion window, which some NICs have besides the rate; approximated by the fixed window.

#include "mrc/sim/baseline/rc_packet.hpp"
#include "mrc/sim/baseline/rc_receiver.hpp"
#include "mrc/sim/baseline/rc_sender.hpp"
