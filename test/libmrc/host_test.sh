#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Controllers act on all devices of the host: the examples run while other processes move data,
# whose planes and profiles follow; profiles outlive who made them, and mrc_ctl has them as a file;
# a process that is stopped is named; users without CAP_NET_ADMIN are refused.
. "$(dirname "${BASH_SOURCE[0]}")/../verbs/verbs_lib.sh"
examples=$build/examples/libmrc
need_program "$examples/libmrc_benchmark" "$mrc_ctl"
cd "$work"
mkdir sockets
export MRC_CONTROL=$work/sockets MRC_PATHS=4
ctl() { "$mrc_ctl" --folder "$work/sockets" --patience 60s "$@"; }

# Another program that moves data for as long as the test lasts, and checks it.
export MRC_RETRY_EXPONENTIAL=25
port=$(free_port)
start_server server "$port" --planes 2 --give-up 600
start client "$mrc_perf" --port "$port" --planes 2 --size 64K --duration 3600s --check --quiet \
  --rate 100M --give-up 600 127.0.0.1
client=$pid
sent() { ask "[p['port']['tx_packets'] for p in d[0]['answer']]" planes --pid "$client"; }
carries() {
  is "all(p['port']['tx_packets'] > 100 for p in d[0]['answer'])" planes --pid "$client"
}
until_true 30 carries || fail "no data: $(ctl planes)"

say 'each controller, beside devices of other processes'
for name in explicit replace deny; do controller "$name"; done
expect 'none of their profiles is left' is "not d['ev_profiles']" profiles get

say 'ports: the planes of other processes go and come'
controller port
expect 'planes of others are up' is "all(p['up'] for p in d[0]['answer'])" planes --pid "$client"
changed() {
  is "sum(e['event'] == 'plane_down' for e in d[0]['answer']) >= 2" events --pid "$client"
}
until_true 20 changed || fail "the other process's planes did not go down: $(ctl events)"

say 'events of other processes come to a controller'
limit 60
"${run[@]}" "$examples/libmrc_controller_events" 60 >others.out 2>&1 &
listens=$!
port=$(free_port)
MRC_FAULTS='plane=1,blackhole@300ms-4s' start_server bad-server "$port" --planes 2 --give-up 600
MRC_FAULTS='plane=1,blackhole@300ms-4s' start bad "$mrc_perf" --port "$port" --planes 2 --size 64K \
  --duration 8s --rate 100M --check --quiet --give-up 600 127.0.0.1
heard() { grep -q 'port 2, .*ASSUMED_BAD' others.out && grep -q 'port 2, .*: GOOD' others.out; }
until_true 60 heard || fail "no event of another process: $(cat others.out)"
wait "$listens" || fail "controller_events ended with $?: $(cat others.out)"

say 'a file of profiles, and what outlives its maker'
cat >profiles.json <<'JSON'
{"cc_profiles": [{"id": 3, "state": "ONLINE", "algorithm": "fixed", "config": {"max_cwnd": 65536}}],
 "ev_profiles": [{"id": 4, "state": "ONLINE", "mode": "AUTO", "ev_count": 4, "min_active": 1,
                  "event_mask": 3}]}
JSON
ctl profiles diff profiles.json >diff.out || fail "diff: $(cat diff.out)"
grep -q 'CC profile 3 is new' diff.out || fail "diff says $(cat diff.out)"
expect 'diff changes nothing' is "not d['cc_profiles']" profiles get
ctl profiles put profiles.json >put.out || fail "put: $(cat put.out)"
expect 'it is there' is "d['cc_profiles'][0]['config'] == {'max_cwnd': 65536}" profiles get
ctl profiles get >got.json
expect 'as it was got' [ "$(ctl profiles diff got.json)" = 'no difference' ]
for wrong in '{"cc_profile": []}' '{' '{"ev_profiles": [{"id": 4, "state": "ONLINE"}]}'; do
  printf '%s' "$wrong" >wrong.json
  code=0
  ctl profiles put wrong.json >wrong.out 2>wrong.err || code=$?
  expect "exit status of put $wrong" [ "$code" -ne 0 ]
  grep -qE 'wrong.json|profile 4' wrong.err || fail "put $wrong: $(cat wrong.err)"
done
expect 'what is wrong changes nothing' [ "$(ctl profiles diff got.json)" = 'no difference' ]

say 'a process that is stopped is named, and delays nobody for long'
kill -STOP "$client"
limit 60
code=0
"${run[@]}" "$examples/libmrc_controller_port" >stopped.out 2>&1 || code=$?
expect 'the call fails' [ "$code" -ne 0 ]
grep -qE 'not confirmed|does not answer' stopped.out || fail "not named: $(cat stopped.out)"
kill -CONT "$client"
ctl plane 0 up --all >/dev/null
ctl plane 1 up --all >/dev/null
before=$(sent)
goes_on() { [[ $(sent) != "$before" ]]; }
until_true 30 goes_on || fail 'the process does not go on'

if command -v setpriv >/dev/null && ((EUID == 0)); then
  say 'a user without CAP_NET_ADMIN'
  chmod 755 "$work"
  mkdir -m 700 own
  chown 65534 own
  limit 60
  code=0
  MRC_CONTROL=$work/own setpriv --reuid 65534 --regid 65534 --clear-groups "${run[@]}" \
    "$examples/libmrc_controller_port" >user.out 2>&1 || code=$?
  expect 'is refused' [ "$code" -ne 0 ]
  grep -q 'CAP_NET_ADMIN.*MRC_VERBS_CONTROLLER=process' user.out ||
    fail "no reason: $(cat user.out)"
  MRC_VERBS_CONTROLLER=process MRC_CONTROL=$work/own setpriv --reuid 65534 --regid 65534 \
    --clear-groups "${run[@]}" "$examples/libmrc_controller_port" >user.out 2>&1 ||
    fail "alone: $(cat user.out)"
  if unshare --user --map-root-user true 2>/dev/null; then
    say 'root in a user namespace that the network does not belong to'
    code=0
    unshare --user --map-root-user "${run[@]}" "$examples/libmrc_controller_port" >user.out 2>&1 ||
      code=$?
    expect 'is refused' [ "$code" -ne 0 ]
    grep -q 'CAP_NET_ADMIN' user.out || fail "no reason: $(cat user.out)"
  fi
fi

interrupt "$client" 30
! grep -qi 'error\|wrong' "$work/client.err" || fail "the other program: $(cat "$work/client.err")"
