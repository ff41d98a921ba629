#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A link and a switch of a running fabric are denied by name, for all processes of a host at once:
# captures on the links show that nothing leaves over them afterwards, in processes that start later
# and in one that was stopped meanwhile neither. No queue pair fails, and all links carry traffic
# again when they are allowed.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
need_program "$mrc_ctl"
need_tool tcpdump
fabric_up '{ "name": "demo", "planes": 4, "t0": 2, "t1": 2, "hosts": 2, "link_speed": 0.5 }'
fabric set t0-host rate=200Mbit ecn=40000:140000 trim=200000 >/dev/null
mkdir "$work/sockets"
export MRC_CONTROL=$work/sockets
patience=30s
ctl() { on h0 "$mrc_ctl" --folder "$work/sockets" --patience "$patience" "$@"; }

sent() {  # sent PID EXPRESSION: of n, the packets that it has sent in each plane
  ask "(lambda n: $2)([p['port']['tx_packets'] for p in d[0]['answer']])" planes --pid "$1"
}
sent_is() { [[ $(sent "$@") == True ]]; }

# Between T0s and T1s run packets of connections alone that are encapsulated, seen where they enter
# a T1 from h0's T0.
quiet() {  # quiet PLANE T1: nothing comes there for a second
  capture quiet "p$1t1-$2" l0 in
  sleep 1
  end_captures
  [[ $(seen quiet) == 0 ]]
}
watch() {  # watch NAME PLANE T1: from when queues of the fabric have run dry, since it is denied
  until_true 20 quiet "$2" "$3" || fail "p$2t1-$3: packets over what is denied"
  capture "$1" "p$2t1-$3" l0 in
}

load=(--size 64K --duration 3600s --rate 150M --check --quiet)  # which leaves time to sleep
start_pair first "${load[@]}"
first=$pid first_server=$server
port=18516 start_pair second "${load[@]}"
second=$pid second_server=$server
sends() { until_true 60 sent_is "$1" 'min(n) > 1000' || fail "process $1 sends nothing"; }
sends "$first"
sends "$second"
traffic_takes_all 'before'

say 'a link that is denied by name carries nothing of any process'
ctl deny p1t0-0 p1t1-0 >"$work/deny.out" 2>"$work/deny.err" || fail "deny: $(cat "$work/deny.err")"
[[ $(grep -c 'mrc_perf (pid.*: 2 paths carry nothing' "$work/deny.out") == 2 ]] ||
  fail "not both processes of h0: $(cat "$work/deny.out")"
watch link 1 0
capture other p1t1-1 l0 in
traffic_takes_all 'link denied' but 1.0
port=18517 start_pair third "${load[@]}"  # it has to read the rules
third=$pid third_server=$server
sends "$third"
end_captures
expect 'packets on the denied link' [ "$(seen link)" = 0 ]
expect 'packets on the other one' [ "$(seen other)" -gt 1000 ]

say 'a switch, while a process is stopped: it is named, and follows once it runs again'
kill -STOP "$second"
patience=500ms refused 1 'not confirmed' "$second" -- ctl deny p2t1-1
kill -CONT "$second"
denied_t1='e["answer"]["host"]["denied"][-1].get("t1") == 1'
until_true 60 is "all($denied_t1 for e in d if e['host'] == 'h0')" denied ||
  fail "not all follow: $(ctl denied)"
watch switch 2 1
traffic_takes_all 'link and switch denied' but 1.0 2.1
before=$(sent "$second" 'n[3]')
until_true 60 sent_is "$second" "n[3] > $before + 1000" || fail 'the stopped process does not go on'
end_captures
expect 'packets over the denied switch' [ "$(seen switch)" = 0 ]
ctl denied --pid "$first" >"$work/denied.out"
grep -q 'link p1t0-0 - p1t1-0 is denied' "$work/denied.out" || fail "$(cat "$work/denied.out")"
grep -q 'switch p2t1-1 is denied' "$work/denied.out" || fail "$(cat "$work/denied.out")"

say 'a part that does not exist, or is not denied: nothing changes'
ctl denied >"$work/before.out"
refused 2 'has 2 T1 switches' -- ctl deny p1t1-7
refused 2 "no host 'h9'" -- ctl deny h9 p1t0-0
refused 2 'is at T0 0' -- ctl deny h0 p1t0-1
refused 2 'hosts are at T0s' -- ctl deny h0 p1t1-1
refused 1 'no rule denies exactly these' -- ctl allow p3t1-0
refused 2 'links join a T0 and a T1' -- ctl deny p1t0-0 p2t1-0
refused 2 'name a switch' -- ctl deny
ctl denied | diff "$work/before.out" - || fail 'something changed'

say 'events name the T1 that fails, and devices their host as the fabric does'
is 'sorted({x["host"] for x in d}) == ["h0", "h1"]' list || fail "hosts: $(ctl list)"
fabric switch p3t1-0 down >/dev/null
over='{e.get("over") for a in d for e in a["answer"] if a["host"] == "h0"}'
named() { is "{'p3t1-0'} <= $over <= {'p3t1-0', 'p3t1-1'}" events --kind path_bad --plane 3; }
until_true 60 named || fail "no events of the T1: $(ctl events --kind path_bad)"
ctl events --kind path_bad >"$work/events.out"
grep -q 'ev=0x[0-9a-f]* over=p3t1-0 plane=3$' "$work/events.out" || fail "$(cat "$work/events.out")"
fabric switch p3t1-0 up >/dev/null

say 'allowed again, all links carry traffic; nothing failed, nothing was wrong'
ctl allow --everything >"$work/allow.out" || fail 'allow'
traffic_takes_all 'allowed'
for name in third second first; do
  server=${name}_server
  pid=${!name} server=${!server}
  gone "$pid" && fail "$name was over before"
  interrupt_pair "$name"
  checked_result "$name"
  holds "$work/$name.json" 'no queue pair failed' 'd["device"]["engine"]["qp_errors"] == 0'
done
