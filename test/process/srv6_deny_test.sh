#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A link and a switch of a running fabric are denied by name, for all processes of a host at once:
# captures on the links show that nothing leaves over them afterwards, in processes that start later
# and in one that was stopped meanwhile neither. No queue pair fails, and all links carry traffic
# again when they are allowed.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
mrc_ctl=$build/tools/mrc_ctl
need_program "$mrc_ctl"
command -v tcpdump >/dev/null || skip "tcpdump is not installed"
cat >"$work/fabric.json" <<'JSON'
{ "name": "demo", "planes": 4, "t0": 2, "t1": 2, "hosts": 2, "link_speed": 0.5 }
JSON
fabric_up "$work/fabric.json"
fabric set t0-host rate=200Mbit ecn=40000:140000 trim=200000 >/dev/null
mkdir "$work/sockets"
export MRC_CONTROL=$work/sockets
ctl() { on h0 "$mrc_ctl" --folder "$work/sockets" --patience 30s "$@"; }

sent() {  # sent PID EXPRESSION: of n, the packets that it has sent in each plane
  ctl --json planes --pid "$1" >"$work/ask.json" 2>"$work/ask.err" || return 1
  python3 -c 'import json, sys
n = [plane["port"]["tx_packets"] for plane in json.load(open(sys.argv[1]))[0]["answer"]]
print(eval(sys.argv[2]))' "$work/ask.json" "$2"
}
is() { [[ $("$@") == True ]]; }

# Between T0s and T1s run packets of connections alone that are encapsulated, seen where they enter
# a T1 from h0's T0.
watch() {  # watch NAME PLANE T1: from when queues of the fabric have run dry
  sleep 1
  capture "$1" "p$2t1-$3" l0 in
}

start_pair first --size 64K --duration 3600s --check --quiet
first=$pid first_server=$server
port=18516 start_pair second --size 64K --duration 3600s --check --quiet
second=$pid second_server=$server
traffic_takes_all 'before'

say 'a link that is denied by name carries nothing of any process'
ctl deny p1t0-0 p1t1-0 >"$work/deny.out" 2>"$work/deny.err" || fail "deny: $(cat "$work/deny.err")"
[[ $(grep -c 'mrc_perf (pid.*: 2 paths carry nothing' "$work/deny.out") == 2 ]] ||
  fail "not both processes of h0: $(cat "$work/deny.out")"
watch link 1 0
watch other 1 1
traffic_takes_all 'link denied' but 1.0
port=18517 start_pair third --size 64K --duration 3600s --check --quiet  # it has to read the rules
third=$pid third_server=$server
until_true 60 is sent "$third" 'min(n) > 1000' || fail 'a process that starts later sends nothing'
end_captures
expect 'packets on the denied link' [ "$(seen link)" = 0 ]
expect 'packets on the other one' [ "$(seen other)" -gt 1000 ]

say 'a switch, while a process is stopped: it is named, and looks before it sends again'
kill -STOP "$second"
code=0
on h0 "$mrc_ctl" --folder "$work/sockets" --patience 500ms deny p2t1-1 >"$work/stopped.out" \
  2>"$work/stopped.err" || code=$?
expect 'exit status of deny' [ "$code" = 1 ]
grep -q "not confirmed.*$second" "$work/stopped.err" ||
  fail "the stopped process is not named: $(cat "$work/stopped.err")"
watch switch 2 1
kill -CONT "$second"
traffic_takes_all 'link and switch denied' but 1.0 2.1
before=$(sent "$second" 'n[3]')
until_true 60 is sent "$second" "n[3] > $before + 1000" || fail 'the stopped process does not go on'
end_captures
# What it was about to give to the kernel when it was stopped, a burst at most, may still leave.
expect 'packets over the denied switch' [ "$(seen switch)" -le 16 ]
ctl denied --pid "$first" >"$work/denied.out"
grep -q 'link p1t0-0 - p1t1-0 is denied' "$work/denied.out" || fail "$(cat "$work/denied.out")"
grep -q 'switch p2t1-1 is denied' "$work/denied.out" || fail "$(cat "$work/denied.out")"

say 'a part that does not exist, or is not denied: nothing changes'
refuse() {  # refuse TEXT OPTION...
  local text=$1
  shift
  if ctl "$@" >"$work/refuse.out" 2>"$work/refuse.err"; then fail "mrc_ctl $* is taken"; fi
  grep -q -- "$text" "$work/refuse.err" || fail "mrc_ctl $*: $(cat "$work/refuse.err")"
}
refuse 'has 2 T1 switches' deny p1t1-7
refuse "no host 'h9'" deny h9 p1t0-0
refuse 'is at T0 0' deny h0 p1t0-1
refuse 'hosts are at T0s' deny h0 p1t1-1
refuse 'no rule denies exactly these' allow p3t1-0
refuse 'links join a T0 and a T1' deny p1t0-0 p2t1-0
refuse 'name a switch' deny
traffic_takes_all 'as before' but 1.0 2.1

say 'allowed again, all links carry traffic; nothing failed, nothing was wrong'
ctl allow --everything >"$work/allow.out" || fail 'allow'
traffic_takes_all 'allowed'
for name in third second first; do
  server=${name}_server
  pid=${!name} server=${!server}
  gone "$pid" && fail "$name was over before"
  interrupt_pair "$name"
  expect 'every byte is right' [ "$(json "$work/$name.json" check_errors | total)" = 0 ]
  holds "$work/$name.json" 'no queue pair failed' 'd["device"]["engine"]["qp_errors"] == 0'
done
