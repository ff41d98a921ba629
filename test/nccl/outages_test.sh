#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts whose planes all fail, so that TCP does not cross either: for some seconds, which costs
# no connection, and for good, which is an error after the configured time.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"
unset NCCL_SOCKET_IFNAME  # planes are named
two_hosts 2
planes() {  # planes up|down
  local plane
  for plane in 0 1; do ip -n "$b" link set "p$plane" "$1"; done
}

run() {  # run NAME OPTION...: two ranks that send each other data until they are stopped
  local name=$1
  shift
  start "$name" "$nccl_perf" --check --json "$work/$name.json" --patience 60s --netns "$a,$b" \
    --env NCCL_DEBUG=WARN --env 0:MRC_PLANES=10.9.0.1,10.9.1.1 \
    --env 1:MRC_PLANES=10.9.0.2,10.9.1.2 --collective all_reduce --size 64K \
    --warmup 0 --repetitions 1 --iterations 100000000 "$@"
  until_true 30 moves || fail 'no traffic'
}
packets() { ip netns exec "$a" cat /sys/class/net/p1/statistics/tx_packets; }
moves() {
  local before=$(packets)
  sleep 0.2
  [ "$(packets)" -gt $((before + 100)) ]
}

say 'for 4 s'
run short
planes down
sleep 4
planes up
until_true 30 moves || fail 'traffic does not go on'
kill -0 "$pid" 2>/dev/null || fail 'the ranks did not survive'
interrupt "$pid" 60

say 'for good'
run long --env NCCL_MRC_RETRY_CNT_EXP=8
planes down
exit_code "$pid" 60 3
grep -q 'nor over TCP: its host counts as dead' "$work"/long.* || fail 'no line tells why'
