// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the switch port's program (port.bpf.c) and the tool tell each other: C, for both.

#include <linux/bpf.h>
#include <linux/types.h>

// Bytes that a trimmed packet keeps from the UDP header on: UDP 8, BTH 12, METH 4, TSETH 4, so that
// a NACK can echo the timestamp (mrc-1.0 §1.12).
#define PORT_TRIM_KEEP 28

enum port_flag {
  PORT_ACTIVE = 1,    // has conditions at all
  PORT_TRIM = 2,      // cuts packets for which there is no room, rather than drop them
  PORT_LAST_HOP = 4,  // leads to a host; for the tool, which sets trimmed_dscp accordingly
};

// Conditions of a port. Written by the tool, read by the program. Sets of DSCPs: bit d for DSCP d.
struct port_config {
  __u64 rate;           // bytes/s that the shaper below sends; 0: there is no queue
  __u64 loss;           // probabilities, in units of 2^-32: of losing a packet,
  __u64 ce;             // of marking one that allows it
  __u64 delay;          // ns that packets are on the way to the other end; for the tool
  __u64 control_dscps;  // packets that go first: control, and what was trimmed
  __u64 trim_dscps;     // packets that may be trimmed
  __u32 limit;          // bytes of data that may wait
  __u32 control_limit;  // bytes of the packets that go first
  __u32 ecn_min;        // bytes of data waiting from which on packets are marked with CE,
  __u32 ecn_max;        // and from which on all are; 0: no marks
  __u32 trimmed_dscp;   // of what was trimmed here
  __u32 flags;          // of enum port_flag
};

// What a port has done. Written by the program, all but `lost` under the lock.
struct port_state {
  struct bpf_spin_lock lock;
  __u32 queue_max;      // bytes of data that have waited at most, the arriving packet included
  __u64 control_until;  // ns: when what goes first will have left,
  __u64 all_until;      // and when everything will, by the rate alone
  __u64 packets;        // sent on, trimmed ones included
  __u64 bytes;          // with Ethernet header
  __u64 control;        // of the packets: went first
  __u64 trimmed;        // of the packets: trimmed here
  __u64 marked;         // of the packets: marked with CE here
  __u64 dropped;        // for want of room
  __u64 lost;           // by chance
};
