// SPDX-License-Identifier: Apache-2.0
#pragma once

// Interface between the switch port's program (port.bpf.c) and the tool: C, for both.

#include <linux/bpf.h>
#include <linux/types.h>

// Bytes that a trimmed packet keeps from the UDP header on: UDP 8, BTH 12, METH 4, TSETH 4, so that
// a NACK can echo the timestamp (mrc-1.0 §1.12).
#define PORT_TRIM_KEEP 28

enum port_flag {
  PORT_ACTIVE = 1,    // has any conditions
  PORT_TRIM = 2,      // trims packets instead of dropping them when there is no room
  PORT_LAST_HOP = 4,  // leads to a host; used by the tool to set trimmed_dscp
};

// Conditions of a port. Written by the tool, read by the program. Sets of DSCPs: bit d for DSCP d.
struct port_config {
  __u64 rate;           // bytes/s of the shaper below; 0: no queue
  __u64 loss;           // probability of losing a packet, in units of 2^-32
  __u64 ce;             // probability of marking an ECN-capable packet, likewise
  __u64 delay;          // ns of propagation delay; used by the tool
  __u64 control_dscps;  // packets with priority: control, and trimmed ones
  __u64 trim_dscps;     // packets that may be trimmed
  __u32 limit;          // bytes of data in the queue at most
  __u32 control_limit;  // likewise of the packets with priority
  __u32 ecn_min;        // bytes of queued data from which on packets may be marked with CE
  __u32 ecn_max;        // and from which on all are; 0: no marks
  __u32 trimmed_dscp;   // DSCP of packets trimmed here
  __u32 flags;          // of enum port_flag
};

// State and counters of a port. Written by the program, all but `lost` under the lock.
struct port_state {
  struct bpf_spin_lock lock;
  __u32 queue_max;      // largest queue of data in bytes, the arriving packet included
  __u64 control_until;  // ns: when the packets with priority will have been sent
  __u64 all_until;      // and all packets, computed from the rate
  __u64 packets;        // sent on, trimmed ones included
  __u64 bytes;          // with Ethernet header
  __u64 control;        // packets with priority
  __u64 trimmed;        // of the packets: trimmed here
  __u64 marked;         // of the packets: marked with CE here
  __u64 dropped;        // no room
  __u64 lost;           // random losses
};
