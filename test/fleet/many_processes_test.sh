#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hundred processes on one host, each with a device and 16 paths to each of two peers: mrc_ctl
# shows and steers all of them, two of them move checked data. Further ones take the slots that are
# left; the one behind the last slot is told so.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
ring=$build/test/ring_of_processes
need_program "$mrc_ctl" "$ring"
mkdir "$work/sockets"
export MRC_CONTROL=$work/sockets MRC_PLANES=loopback:1 MRC_PATHS=16
export MRC_RETRY_EXPONENTIAL=25  # a process that waits long for the processor is no dead one

ctl() { "$mrc_ctl" --folder "$work/sockets" --patience 60s "$@"; }
holds() {  # holds WHAT EXPRESSION OPTION...
  is "${@:2}" || fail "$1: $(cat "$work/ask.err"; head -c 500 "$work/ask.json")"
}
start_ring() {  # start_ring NAME PROCESSES: all of them have exchanged data
  start "$1" "$ring" "$2"
  ready() { [[ $(grep -c ready "$work/$1.out") == "$2" ]] || gone "$pid"; }
  until_true 30 ready "$1" "$2" || fail "$1: $(grep -c ready "$work/$1.out") of $2 are ready"
  gone "$pid" && fail "$1 ended" || true
}
end_ring() {  # end_ring NAME PID: all of its processes end well
  kill -TERM "$2"
  exit_code "$2" 30 0 "$1"
  expect_text "$work/$1.out" '0 of '
}

say 'two hundred processes'
start_ring ring 198
ring_pid=$pid
port=$(free_port)
start_server server "$port" --quiet --give-up 600
start client "$mrc_perf" 127.0.0.1 --port "$port" --check --size 64K --rate 100M --duration 3600s \
  --give-up 600 --quiet --json "$work/client.json"
client=$pid
holds_200() { is 'len(d) == 200 and len({p["pid"] for p in d}) == 200' list; }
until_true 20 holds_200 || fail "not 200 devices: $(ctl list | wc -l) lines"

say 'all are shown, with the paths to their neighbours'
holds 'list by name' 'len(d) == 198' list --name ring_of_processes
of_ring='[[p["paths"] for p in x["answer"]] for x in d if x["program"] == "ring_of_processes"]'
holds 'paths' "len($of_ring) == 198 and all(len(l) == 16 for x in $of_ring for l in x)" paths
holds 'peers' "{len(x) for x in $of_ring} == {2}" paths
holds 'qps' 'all(q["state"] == "RTS" for x in d for q in x["answer"])' qps
received='[x["counters"]["engine"]["rx_data"] for x in d if x["program"][:4] == "ring"]'
holds 'dump' "len(d) == 200 and min($received) > 0" dump
ctl top --rounds 2 --interval 200ms >"$work/top.out" || fail 'top'
grep -q ring_of_processes "$work/top.out" || fail 'top does not show them'
# As many as a shell may let it open by default, if there are that many devices.
(ulimit -Sn 100 && ctl list) >"$work/few.out" 2>"$work/few.err" || fail 'few open files'
expect 'all are listed' [ "$(grep -c ring_of_processes "$work/few.out")" = 198 ]

say 'one command steers all'
ctl plane 0 down --all >"$work/down.out" || fail "plane down: $(tail -n 3 "$work/down.out")"
holds 'the plane is down' '{x["answer"][0]["enabled"] for x in d} == {False}' planes
ctl plane 0 up --all >"$work/up.out" || fail "plane up: $(tail -n 3 "$work/up.out")"
holds 'the plane is up' '{x["answer"][0]["enabled"] for x in d} == {True}' planes

say 'two of them move data meanwhile'
acknowledged() {
  ask 'sum(q["stats"]["acknowledged"] for q in d[0]["answer"])' qps --pid "$client"
}
before=$(acknowledged)
goes_on() { (($(acknowledged) > before + 1000)); }
until_true 30 goes_on || fail 'no data'
interrupt "$client" 30
exit_code "$server" 30 0
checked_result client

say 'behind the last slot'
start_ring more 58
more_pid=$pid
until_true 20 is 'len(d) == 256' list || fail "not 256 devices: $(ctl list | wc -l) lines"
port=$(free_port)
start_server last "$port" --quiet
start refused "$mrc_perf" 127.0.0.1 --port "$port" --quiet --size 64K --duration 1s
exit_code "$pid" 20 1 'the exit status without a slot'
kill -INT "$server"
exit_code "$server" 20
expect_text "$work/refused.err" 'no slot from 0 to 255 is free' 'close others'

say 'all end, and nothing is left of them'
end_ring more "$more_pid"
until_true 20 is 'len(d) == 198' list || fail 'the other processes are not as before'
end_ring ring "$ring_pid"
[[ -z $(find "$work/sockets" -name '*.sock*') ]] || fail "left: $(ls "$work/sockets")"
[[ $(ctl list) == 'No device is open.' ]] || fail "list: $(ctl list)"
