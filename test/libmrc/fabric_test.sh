#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libMRC on packet planes: a GENERATED profile of fields carries writes between two hosts of a
# fabric that forwards by flow label and source port, over all T1s; a host is probed.
. "$(dirname "${BASH_SOURCE[0]}")/../verbs/verbs_lib.sh"
unset MRC_PLANES
. "$(dirname "${BASH_SOURCE[0]}")/../process/srv6_lib.sh"
program=$build/examples/libmrc/libmrc_controller_fields
need_program "$program"
fabric_up '{ "name": "demo", "forwarding": "ecmp", "planes": 2, "t0": 2, "t1": 2, "hosts": 2 }'
# The programs find each other over IPv4, which the fabric does not carry.
link_hosts
say 'a GENERATED profile of fields'
command=(env "MRC_FABRIC=$fabric_file" "$mrcrun" --quiet "$program")
start server "${at_host[@]}" h1 -- "${command[@]}"
server=$pid
start client "${at_host[@]}" h0 -- "${command[@]}" 192.0.2.2
exit_code "$pid" 60 0
exit_code "$server" 20 0
for side in client server; do
  expect_text "$work/$side.out" success
  expect '16 EVs' [ "$(grep -c ': GOOD' "$work/$side.out")" -eq 16 ]
  expect 'as the fields say' [ "$(grep -cE 'EV [0-9a-f]{8}: GOOD' "$work/$side.out")" -eq 16 ]
done
for p in 0 1; do
  for u in 0 1; do
    n=$(packets "p${p}t0-0" "s$u")
    say "plane $p T1 $u: $n packets"
    expect "T1 $u of plane $p is used" [ "$n" -gt 100 ]
  done
done

say 'probes to a host that nobody is connected to'
start idle "${at_host[@]}" h1 -- env "MRC_FABRIC=$fabric_file" "$mrcrun" --quiet \
  "$build/examples/libmrc/libmrc_benchmark"
until_listening 18515 on h1
answered() {  # the example gives up after a second, in which a busy machine may answer nothing
  "${at_host[@]}" h0 -- env "MRC_FABRIC=$fabric_file" "$mrcrun" --quiet \
    "$build/examples/libmrc/libmrc_controller_probe" fd00:1::2 >"$work/probe.out" \
    2>"$work/probe.err" && grep -q '2 of 2 paths answered' "$work/probe.out"
}
until_true 60 answered || fail 'no answers to probes'
