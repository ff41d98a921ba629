#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts between which addresses are translated: the one that gets spoilt packets says so.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"
unset NCCL_SOCKET_IFNAME  # planes are named
two_hosts 0
hosts_at_router

start nat "$nccl_perf" --quiet --json "$work/nat.json" --patience 60s --netns "$a,$b" \
  --env NCCL_DEBUG=WARN --env 0:MRC_PLANES=10.1.0.2 --env 1:MRC_PLANES=10.2.0.2 \
  --collective all_reduce --size 64K --warmup 0 --repetitions 1 --iterations 2
perf=$pid
says() { grep -qF 'wrong iCRC: probably addresses are translated' "$work"/nat.{out,err}; }
until_true 30 says 2>/dev/null || fail 'nobody says why nothing arrives'
interrupt "$perf" 60
