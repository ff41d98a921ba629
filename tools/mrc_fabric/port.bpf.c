// SPDX-License-Identifier: Apache-2.0
// The kernel requires the GPL of programs that use its clock and its queues: this file may also be
// used under the GPL, version 2.
//
// A switch's egress port for MRC, as a program on the clsact hook of a veth: two classes with
// strict priority, ECN, trimming to the headers (mrc-1.0 §1.12), losses. The queue is that of an
// HTB below, which sends at the port's rate; this program does the admission. One program serves
// all ports of a fabric; the filter's class identifies the port. Two more programs redirect the
// packets of delayed directions to the wire and back.
#include "port.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NS_PER_S 1000000000ull
#define L3 ETH_HLEN
// Marks a packet that was trimmed here and passes again with its new length.
#define MARK_TRIMMED 0x6d726374
// Marks a packet that has been on the wire.
#define MARK_DELAYED 0x6d726377
// Classes of the HTB.
#define CLASS_CONTROL 0x00010010
#define CLASS_DATA 0x00010020
#define UDP_SIZE 8

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);  // set by the tool
  __type(key, __u32);
  __type(value, struct port_config);
} port_configs SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct port_state);
} port_states SEC(".maps");

// The parts of the kernel's structures needed to read a queue's length.
struct gnet_stats_queue {
  __u32 backlog;
} __attribute__((preserve_access_index));
struct Qdisc {
  struct gnet_stats_queue qstats;
} __attribute__((preserve_access_index));
struct netdev_queue {
  struct Qdisc* qdisc;
} __attribute__((preserve_access_index));
struct net_device {
  struct netdev_queue* _tx;
} __attribute__((preserve_access_index));
struct sk_buff {
  struct net_device* dev;
} __attribute__((preserve_access_index));
extern void* bpf_cast_to_kern_ctx(void*) __ksym;  // Linux 6.2

// Offsets of a packet's headers in bytes from the Ethernet header.
struct layout {
  __u32 inner;  // IPv6 header inside an outer one; 0: none
  __u32 udp;    // 0: none, or the packet is truncated
  __u32 end;    // by the outermost length
  __u8 dscp;    // outermost
  __u8 ecn;
};

static __always_inline __u8 dscp_of(const __u8* ip) {
  return (ip[0] & 0x0f) << 2 | ip[1] >> 6;
}

// IPv6, or IPv6 with a segment routing header if any, then IPv6; then UDP (mrc-1.0 §1.1).
static __always_inline void locate(struct __sk_buff* skb, struct layout* at) {
  struct ipv6hdr ip;
  if (bpf_skb_load_bytes(skb, L3, &ip, sizeof ip)) return;
  const __u8* first = (const __u8*)&ip;
  at->dscp = dscp_of(first);
  at->ecn = first[1] >> 4 & 3;
  at->end = L3 + sizeof ip + bpf_ntohs(ip.payload_len);
  __u32 next = L3 + sizeof ip;
  __u8 type = ip.nexthdr;
  if (type == IPPROTO_ROUTING) {
    struct {
      __u8 type, length;  // length in 8 bytes, without the first
    } srh;
    if (bpf_skb_load_bytes(skb, next, &srh, sizeof srh) || srh.type != IPPROTO_IPV6) return;
    next += 8 * (srh.length + 1);
    type = srh.type;
  }
  if (type == IPPROTO_IPV6) {
    if (bpf_skb_load_bytes(skb, next, &ip, sizeof ip)) return;
    at->inner = next;
    next += sizeof ip;
    type = ip.nexthdr;
  }
  if (type == IPPROTO_UDP && next + UDP_SIZE <= at->end && at->end <= skb->len) at->udp = next;
}

// Sets CE in an ECN-capable header.
static __always_inline void mark_header(struct __sk_buff* skb, __u32 ip) {
  __u8 byte;
  if (bpf_skb_load_bytes(skb, ip + 1, &byte, 1) || !(byte & 0x30)) return;
  byte |= 0x30;
  bpf_skb_store_bytes(skb, ip + 1, &byte, 1, 0);
}

static __always_inline void set_payload_length(struct __sk_buff* skb, __u32 ip, __u32 end) {
  const __be16 length = bpf_htons(end - ip - sizeof(struct ipv6hdr));
  bpf_skb_store_bytes(skb, ip + offsetof(struct ipv6hdr, payload_len), &length, sizeof length, 0);
}

// As fabric/packet.hpp: changes the inner and outer IP lengths and the outermost DSCP, not the
// UDP length.
static __always_inline int trim(struct __sk_buff* skb, const struct layout* at, __u8 dscp) {
  __u32 end = at->udp + PORT_TRIM_KEEP;
  if (end > at->end) end = at->end;
  if (bpf_skb_change_tail(skb, end, 0)) return TC_ACT_SHOT;
  set_payload_length(skb, L3, end);
  if (at->inner) set_payload_length(skb, at->inner, end);
  __u8 first[2];
  if (bpf_skb_load_bytes(skb, L3, first, sizeof first)) return TC_ACT_SHOT;
  first[0] = (first[0] & 0xf0) | dscp >> 2;
  first[1] = (first[1] & 0x3f) | (dscp & 3) << 6;
  bpf_skb_store_bytes(skb, L3, first, sizeof first, 0);
  // The HTB would charge the original length. Redirected to this port, the packet passes again and
  // is measured anew.
  skb->mark = MARK_TRIMMED;
  return bpf_redirect(skb->ifindex, 0);
}

// Time that the port takes for this many bytes, the unit of all queues.
static __always_inline __u64 time_of(const struct port_config* c, __u64 bytes) {
  return bytes * NS_PER_S / c->rate;
}

// A packet arriving at the port.
struct arrival {
  __u64 now;      // ns
  __u64 backlog;  // bytes queued below, if `measured`
  __u32 bytes;
  __u32 random;
  _Bool measured, control, can_trim, trimmed_here, ect, mark;
};

enum verdict { PASS, TRIM, DROP };

// Probability grows from 0 at ecn_min to 1 at ecn_max.
static __always_inline _Bool ecn_says_mark(const struct port_config* c, __u64 waiting,
                                           __u32 random) {
  if (!c->ecn_max) return 0;
  const __u64 min = time_of(c, c->ecn_min), max = time_of(c, c->ecn_max);
  if (waiting < min) return 0;
  return waiting >= max || ((waiting - min) << 16) / (max - min) > (random & 0xffff);
}

// Admission by the current queue of the port. Called with the lock held.
static __always_inline enum verdict enqueue(const struct port_config* c, struct port_state* s,
                                            struct arrival* a) {
  const __u64 own = time_of(c, a->bytes);
  // Control packets go first, so their part of the queue follows from the rate.
  const __u64 control = s->control_until > a->now ? s->control_until - a->now : 0;
  __u64 all = s->all_until > a->now ? s->all_until - a->now : 0;
  if (a->measured) all = time_of(c, a->backlog);
  const __u64 data = all > control ? all - control : 0;
  if (a->control) {
    if (control + own > time_of(c, c->control_limit)) return DROP;
    s->control_until = a->now + control + own;
  } else {
    if (data + own > time_of(c, c->limit)) return a->can_trim ? TRIM : DROP;
    const __u64 bytes = (data + own) * c->rate / NS_PER_S;
    if (bytes > s->queue_max) s->queue_max = bytes;
    a->mark |= a->ect && ecn_says_mark(c, data, a->random);
  }
  s->all_until = a->now + all + own;
  return PASS;
}

static __always_inline enum verdict decide(const struct port_config* c, struct port_state* s,
                                           struct arrival* a) {
  bpf_spin_lock(&s->lock);
  const enum verdict verdict = c->rate ? enqueue(c, s, a) : PASS;
  if (verdict == PASS) {
    s->packets++;
    s->bytes += a->bytes;
    s->control += a->control;
    s->trimmed += a->trimmed_here;
    s->marked += a->mark;
  }
  s->dropped += verdict == DROP;
  bpf_spin_unlock(&s->lock);
  return verdict;
}

static __always_inline __u32 backlog_below(struct __sk_buff* skb) {
  struct sk_buff* kernel_skb = bpf_cast_to_kern_ctx(skb);
  return kernel_skb->dev->_tx->qdisc->qstats.backlog;
}

static __always_inline int pass(struct __sk_buff* skb, _Bool measured) {
  const __u32 key = skb->tc_classid;
  const struct port_config* c = bpf_map_lookup_elem(&port_configs, &key);
  struct port_state* s = bpf_map_lookup_elem(&port_states, &key);
  if (!c || !s) return TC_ACT_OK;
  struct arrival a = {.now = bpf_ktime_get_ns(), .bytes = skb->len, .measured = measured};
  a.trimmed_here = skb->mark == MARK_TRIMMED;
  if (a.trimmed_here) {
    skb->mark = 0;
  } else if (bpf_get_prandom_u32() < c->loss) {
    __sync_fetch_and_add(&s->lost, 1);
    return TC_ACT_STOLEN;  // silent loss: TC_ACT_SHOT would be an error to a sending socket
  }
  struct layout at = {};
  if (skb->protocol == bpf_htons(ETH_P_IPV6)) locate(skb, &at);
  a.control = c->control_dscps >> at.dscp & 1;
  a.can_trim = c->flags & PORT_TRIM && c->trim_dscps >> at.dscp & 1 && at.udp && !skb->gso_size;
  a.ect = at.ecn != 0;
  a.mark = a.ect && !a.trimmed_here && bpf_get_prandom_u32() < c->ce;
  a.random = bpf_get_prandom_u32();
  if (measured && c->rate) a.backlog = backlog_below(skb);

  switch (decide(c, s, &a)) {
    case TRIM:
      return trim(skb, &at, c->trimmed_dscp);
    case DROP:
      return TC_ACT_SHOT;
    case PASS:
      break;
  }
  if (a.mark) {
    mark_header(skb, L3);
    if (at.inner) mark_header(skb, at.inner);
  }
  if (c->rate) skb->priority = a.control ? CLASS_CONTROL : CLASS_DATA;
  return TC_ACT_OK;
}

SEC("tc")
int port(struct __sk_buff* skb) {
  return pass(skb, 1);
}

// For kernels that do not expose the queue below: its length is computed from the rate.
SEC("tc")
int port_reckoned(struct __sk_buff* skb) {
  return pass(skb, 0);
}

// At the receiving end of a delayed direction, packets are redirected to the wire, which holds them
// (wire.cpp), by the interface given by the filter's class.
SEC("tc")
int to_wire(struct __sk_buff* skb) {
  if (skb->mark == MARK_DELAYED) {
    skb->mark = 0;
    return TC_ACT_UNSPEC;
  }
  return bpf_redirect(skb->tc_classid, 0);
}

// Packets coming back from the wire arrive once more, and pass.
SEC("tc")
int from_wire(struct __sk_buff* skb) {
  skb->mark = MARK_DELAYED;
  return bpf_redirect(skb->tc_classid, BPF_F_INGRESS);
}

char _license[] SEC("license") = "GPL";
