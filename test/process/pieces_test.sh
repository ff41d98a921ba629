#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Bursts that leave in one piece (GSO) and vanish, as with some kernels and NICs: mrc_perf says so
# once and sends packets one by one, whichever side has the fault; where only the ends of bursts are
# lost it says nothing. mrc_ctl check names the host.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
need_program "$mrc_perf" "$mrc_ctl"
need_tool cc
if sanitized "$mrc_perf"; then skip 'sanitizers do not go with preloaded libraries'; fi
cc -shared -fPIC "$source_dir/test/process/lose_pieces.c" -o "$work/lose_pieces.so" -ldl
unset MRC_UDP_PORT  # nobody else is in these networks
two_hosts 2
warning='bursts that the kernel or the NIC cuts into packets'

# run NAME WHAT_A WHAT_B [OPTION...]: mrc_perf from a to b, which lose so much
run() {
  local name=$1 lose_a=$2 lose_b=$3
  say "$name"
  start "$name-server" ip netns exec "$b" env LOSE="$lose_b" \
    LD_PRELOAD="$work/lose_pieces.so" "$mrc_perf" --quiet --port 18515 --planes 10.9.0.2,10.9.1.2
  local server=$pid
  until_listening 18515 at "$b"
  start "$name" ip netns exec "$a" env LOSE="$lose_a" LD_PRELOAD="$work/lose_pieces.so" \
    "$mrc_perf" 10.9.0.2 --port 18515 --quiet --check --planes 10.9.0.1,10.9.1.1 --size 1M \
    --iters 400 --json "$work/$name.json" "${@:4}"
  exit_code "$pid" 100 0 "$name: the client"
  exit_code "$server" 20 0 "$name: the server"
  checked_result "$name"
}
warned() {  # warned FILE COUNT
  [[ $(grep -cF "$warning" "$work/$1.err") == "$2" ]] || fail "$1 does not warn $2 times"
}
# once per plane at most, and once for both where both are found at once
warned_some() {
  local lines
  lines=$(grep -cF "$warning" "$work/$1.err") || true
  ((lines >= 1 && lines <= 2)) || fail "$1 warns $lines times"
}
# All packets of 400 MiB are some 300,000; what had left when it was found out is lost.
few_again() {
  local again
  again=$(json "$work/$1.json" retransmits | total)
  ((again < 20000)) || fail "$1 has sent $again packets again"
}

run fits none none
warned fits 0
warned fits-server 0
run equal equal none
warned_some equal
few_again equal
run all all none
warned_some all
few_again all
run one-path equal none --option paths=1
warned_some one-path
run at-receiver none equal
warned at-receiver 0
warned_some at-receiver-server
run ends ends none
warned ends 0

say 'mrc_ctl check'
check() {  # check NAME WHAT_A WHAT_B: a checks b
  MRC_PLANES=10.9.0.2,10.9.1.2 start "$1-listener" ip netns exec "$b" env LOSE="$3" \
    LD_PRELOAD="$work/lose_pieces.so" "$mrc_ctl" check --listen
  local listener=$pid
  until_listening 9795 at "$b"
  MRC_PLANES=10.9.0.1,10.9.1.1 ip netns exec "$a" env LOSE="$2" \
    LD_PRELOAD="$work/lose_pieces.so" "$mrc_ctl" check --wait 12s 10.9.0.2 >"$1.out" 2>"$1.err" ||
    fail "$1 fails: $(cat "$1".*)"
  interrupt "$listener" 20
}
not_cut='cuts into packets (GSO) do not arrive'
cd "$work"
check fitting none ends
expect_text fitting.out 'plane 1: bursts' 'verdict'
if grep -qF "$not_cut" fitting.out; then fail "bursts are missed: $(cat fitting.out)"; fi
check broken all equal
expect_text broken.out "$not_cut from 10.9.1.1 " "$not_cut from 10.9.1.2 "
