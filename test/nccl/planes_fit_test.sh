#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts that name different planes: it works with less and both logs say so, or it fails and
# both say why.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"
unset NCCL_SOCKET_IFNAME  # planes are named
two_hosts 4 mtu 9000

run() {  # run NAME PLANES_OF_A PLANES_OF_B: two ranks with a log each; exit status in $code
  start "$1" "$nccl_perf" --quiet --check --json "$work/$1.json" --patience 60s --netns "$a,$b" \
    --env NCCL_DEBUG=WARN --env 0:MRC_PLANES="$2" --env 1:MRC_PLANES="$3" \
    --collective all_reduce --size 64K --warmup 0 --repetitions 1 --iterations 2
  exit_code "$pid" 60
}
warnings() { grep -h 'WARN NET/MRC' "$work/$1".{out,err} || true; }
lines() { warnings "$1" | wc -l; }
said() {  # said NAME TIMES TEXT
  [ "$(warnings "$1" | grep -cF -- "$3")" = "$2" ] || {
    warnings "$1" >&2
    fail "$1: not $2 lines with '$3'"
  }
}
four=(10.9.0.{1,2} 10.9.1.{1,2} 10.9.2.{1,2} 10.9.3.{1,2})
of_a=${four[0]},${four[2]},${four[4]},${four[6]} of_b=${four[1]},${four[3]},${four[5]},${four[7]}

say 'planes that fit'
run fits "$of_a" "$of_b"
expect 'the exit status' [ "$code" = 0 ]
expect 'nothing to say' [ "$(lines fits)" = 0 ]

say 'four and two'
run fewer "$of_a" 10.9.0.2,10.9.1.2
expect 'the exit status' [ "$code" = 0 ]
said fewer 2 '2 of 4 carry traffic between them; name the same interfaces'
said fewer 1 '4 planes here (p0 10.9.0.1/24, '
said fewer 1 '2 planes here (p0 10.9.0.2/24, p1 10.9.1.2/24) and 4 at '
expect 'one line for each rank, with several connections' [ "$(lines fewer)" = 2 ]

say 'another order'
run order 10.9.0.1,10.9.1.1 10.9.1.2,10.9.0.2
expect 'the exit status' [ "$code" != 0 ]
# Each rank receives and sends. The first of the two that fails ends it, so the other may be silent.
warnings order | grep_all '\(refuses\|refused\): planes are in another order: plane 0 is ' ||
  fail 'nobody says why'
ranks=$(warnings order | sed -n "s/^[^:]*:\([0-9]*\):.*planes are in another order.*/\1/p" |
  sort -u)
expect 'both ranks say why' [ "$(wc -w <<<"$ranks")" = 2 ]

say 'another MTU'
ip -n "$b" link set p1 mtu 1500
run mtu "$of_a" "$of_b"
expect 'the exit status' [ "$code" = 0 ]
said mtu 1 'the MTU of plane 1 is 9000 here (p1 10.9.1.1/24) and 1500 at '
said mtu 1 'the MTU of plane 1 is 1500 here (p1 10.9.1.2/24) and 9000 at '
