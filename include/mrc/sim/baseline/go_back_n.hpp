// SPDX-License-Identifier: Apache-2.0
#pragma once

/// The reliable connection (RC) of InfiniBand and RoCE, as the baseline that MRC is compared with.
///
/// What RC NICs do. A queue pair numbers its packets (24-bit PSN) and sends all of them on one
/// path, since the network hashes the same addresses and ports. The responder takes packets in
/// order only; one that comes too early is dropped and answered with a NAK, and the requester goes
/// back to the missing PSN and sends everything from there again: go-back-N. One lost packet costs
/// a round trip of sending, and packets that overtake each other look like losses. What no NAK can
/// report, such as the loss of the last packets, of the NAK, or of the same packet twice, is found
/// by a timer with a retry count. The rate is DCQCN's (dcqcn.hpp).
///
/// What is modelled (RcSender, RcReceiver): RDMA Write with and without immediate, coalesced ACKs,
/// one NAK per gap, the timer, retries, failure, pacing to a rate, and the packets' real bytes
/// (roce_wire.hpp). roce_host.hpp and roce_cluster.hpp put it on hosts of a fabric.
///
/// What is not:
/// - Receiver-not-ready NAKs and end-to-end credits: a receiver always has buffers. In favour of
/// RC.
/// - Read, Send, atomics: traffic here is Writes.
/// - Selective repeat and out-of-order placement, which the newest NICs offer for adaptively routed
///   networks. Such a NIC is no longer RC on a single path, but a step towards MRC.
/// - Vendors' adaptive retransmission timers. A fixed one that is much shorter than the usual
///   settings stands in for them (RcSenderOptions::ack_timeout).
/// - The NIC's own limits (QP context cache, PCIe, processing time). In favour of RC.
/// - A window by congestion: some NICs have one beside the rate. The fixed window stands in for it.

#include "mrc/sim/baseline/rc_packet.hpp"
#include "mrc/sim/baseline/rc_receiver.hpp"
#include "mrc/sim/baseline/rc_sender.hpp"
