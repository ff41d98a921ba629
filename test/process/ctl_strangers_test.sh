#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sockets of another user's that greet and then fall silent: they delay root's mrc_ctl by two
# seconds, however many they are and whatever --patience is, are named, and change no exit status;
# and they hide no device from `mrc_ctl serve`. Nor do those that greet or answer slowly, without
# end, or with what is no answer, change anything for others.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_ctl" "$mrc_perf"
((EUID == 0)) || skip 'becoming another user needs root'

cd "$work"
chmod 711 .
mkdir -m 1777 sockets
chmod 1777 sockets
export MRC_CONTROL=$PWD/sockets
patience=60s  # who has that, or two seconds for each of 30 sockets, breaks each limit below
limit=50
ctl() { "$mrc_ctl" --folder sockets --patience "$patience" "$@"; }
port=$(free_port)
start_server server "$port" --planes 2 --give-up 600
start client "$mrc_perf" --port "$port" --planes 2 --size 64K --rate 200M --duration 600 \
  --give-up 600 127.0.0.1
client=$pid
until_true 30 is 'len(d) == 2' list || fail "not two devices: $(ctl list)"
network=$(ask 'd[0]["network"]' list)
strangers() {  # strangers COUNT [OPTION...]
  rm -f strangers.out
  start strangers setpriv --reuid 65534 --clear-groups "$(command -v python3)" strangers.py \
    sockets "$1" "$network" "${@:2}"
  strangers=$pid
  until_true 20 grep -qs ready strangers.out || fail 'no strangers'
}
cp "$support/silent_sockets.py" strangers.py
chmod 644 strangers.py
strangers 30
soon() {  # soon COMMAND...: it ends well, and strangers' time is not added up
  local begin=$SECONDS
  "$@" >soon.out 2>soon.err || fail "$* ends with $?: $(tail -n 3 soon.err)"
  ((SECONDS - begin < limit)) || fail "$* took $((SECONDS - begin)) s"
}
for command in 'qps' 'dump'; do
  soon ctl --json "$command"
  expect "devices in $command" [ "$(jq length soon.out)" = 2 ]
  expect "strangers named by $command" \
    [ "$(grep -c 'a (pid 1) does not answer.* (user 65534)' soon.err)" = 30 ]
done
soon ctl plane 1 down --all
expect_text soon.err 'not confirmed: a (pid 1) does not answer'
expect 'plane 1' is 'not any(e["answer"][1]["enabled"] for e in d)' planes --name mrc_perf
soon ctl plane 1 up --all
soon ctl deny --plane 0 --ev 7
expect_text soon.out 'plane 0 EV 7 is denied'
soon ctl allow --plane 0 --ev 7
expect_text soon.out 'no rules for this host any more'

say 'one that is named counts'
stranger=$(ls sockets | grep '^1-' | head -n 1)
stranger=${stranger##*-}
refused 1 'does not answer' -- \
  "$mrc_ctl" --folder sockets --patience 4s planes --device "${stranger%.sock}"
kill_off "$strangers"

say 'one that answers slowly, with fields that are none'
rm -f sockets/1-*
mkfifo endless  # what it calls its fabric
chmod 666 endless
strangers 1 --answer 0.6 "$PWD/endless"
soon ctl top --rounds 3 --interval 100ms
expect_text soon.out 'top: 2 devices' '1 silent or slow'
soon ctl paths --for 1s --idle
expect 'rates of both' [ "$(grep -c '^peer [0-9]* of lane .*, in ' soon.out)" -ge 2 ]
soon ctl denied
expect_text soon.out 'a (pid 1), id'
start follower "$mrc_ctl" --folder sockets --patience "$patience" events --follow
follower=$pid
soon ctl plane 1 down --all
until_true 20 grep -qs 'mrc_perf.* plane_down' follower.out ||
  fail "no events: $(cat follower.out follower.err)"
soon ctl plane 1 up --all
interrupt "$follower" 20
kill_off "$strangers"

say 'one whose lists have no end, and one that greets slowly'
rm -f sockets/1-*
strangers 1 --answer 0.6 "$PWD/endless" --endless
soon ctl --json planes
expect 'devices beside one without end' [ "$(jq length soon.out)" = 2 ]
kill_off "$strangers"
rm -f sockets/1-*
strangers 1 --answer 0.3 "$PWD/endless"
soon ctl paths --for 1s --idle
expect_text soon.err 'a (pid 1)' '(user 65534)'
kill_off "$strangers"
rm -f sockets/1-*
strangers 1 --greeting 3
soon ctl top --rounds 30 --interval 100ms
expect_text soon.out 'top: 2 devices' '1 silent or slow'
kill_off "$strangers"

if can_serve; then
  say 'more of them than serve looks at'
  rm -f sockets/1-*
  ulimit -n 4096
  strangers 600
  web=$(free_port)
  start serve "$mrc_ctl" --folder sockets --patience 1s serve --listen "127.0.0.1:$web"
  serve=$pid
  until_listening "$web"
  sees_both() {
    python3 -B "$support/http_ask.py" GET "$web" /api/snapshot >snapshot.json 2>ask.head &&
      [[ $(jq '[.devices[] | select(.program == "mrc_perf" and .up)] | length' \
        snapshot.json) == 2 ]]
  }
  until_true 60 sees_both || fail "serve does not see the devices: $(head -c 500 snapshot.json)"
  kill -INT "$serve"
  exit_code "$serve" 60

  say 'a user who may have no more threads: devices are shown all the same'
  cp "$mrc_ctl" .
  web=$(free_port)
  # Its own, and those of the server but one: none for devices.
  start serve prlimit --nproc=17:4096 setpriv --reuid 65533 --clear-groups ./mrc_ctl \
    --folder sockets --patience 1s serve --listen "127.0.0.1:$web"
  serve=$pid
  until_listening "$web"
  names_limit() {
    python3 -B "$support/http_ask.py" GET "$web" /api/snapshot >snapshot.json 2>ask.head &&
      [[ $(jq '[.devices[] | select(.problem | contains("ulimit -u"))] | length' snapshot.json) \
        -ge 500 ]]
  }
  until_true 20 names_limit || fail "serve does not show them: $(head -c 500 snapshot.json)"
  setpriv --reuid 65533 --clear-groups prlimit --pid "$serve" --nproc=4096:4096
  is_asked() { ! names_limit && [[ $(jq '.devices | length' snapshot.json) -ge 500 ]]; }
  until_true 20 is_asked || fail "serve does not ask them: $(head -c 500 snapshot.json)"
  kill -INT "$serve"
  exit_code "$serve" 60
  kill_off "$strangers"
fi
kill -INT "$client"
exit_code "$client" 60
exit_code "$server" 60
