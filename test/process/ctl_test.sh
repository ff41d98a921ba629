#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_ctl beside running programs: what it lists and shows, a plane that goes out of use under load,
# processes that are killed or stopped, users without rights, bad options.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_ctl"

cd "$work"
mkdir sockets
export MRC_CONTROL=$PWD/sockets
patience=60s
ctl() { "$mrc_ctl" --folder sockets --patience "$patience" "$@"; }
fails() { refused "$1" "$2" -- ctl "${@:3}"; }  # fails STATUS TEXT OPTION...

# Nothing is open.
[[ $(ctl list) == 'No device is open.' ]] || fail "list without devices: $(ctl list)"
fails 3 'no such device' planes
fails 2 'must be up or down' plane 0 sideways
ctl plane 1 down --all >plane.out || fail 'a rule for devices that open later'
grep -q 'no device is open here' plane.out || fail "a rule for later: $(cat plane.out)"
ctl plane 1 up --all >plane.out || fail 'taken back'
fails 2 'a command is missing: allow, check'
fails 2 "there is no command 'plames'; did you mean 'planes'?" plames
fails 2 "there is no command 'gte'; did you mean 'get'?" profiles gte
fails 2 'part is required' drain
"$mrc_ctl" --help >help.out
grep -q 'control socket' help.out || fail 'no --help'

# A pair that moves data for as long as the test lasts.
export MRC_RETRY_EXPONENTIAL=25  # one that is stopped for a while is no dead one
port=$(free_port)
start_server server "$port" --planes 2 --give-up 600
some=(--planes 2 --size 64K --rate 200M --duration 600 --give-up 600)  # sleeps most of the time
start client "$mrc_perf" --port "$port" "${some[@]}" --qps 4 127.0.0.1
client=$pid
until_true 30 is 'len(d) == 2' list || fail "not two devices: $(ctl list)"
carries() {  # carries PID: bytes have left in all planes
  is 'all(p["port"]["tx_bytes"] > 1e6 for p in d[0]["answer"])' planes --pid "$1"
}
until_true 30 carries "$client" || fail "no data: $(ctl planes)"

is 'd[0]["program"] == "mrc_perf" and d[0]["planes"] == 2' list || fail 'list'
is 'd[0]["pid"] == '"$client" list --pid "$client" || fail 'list --pid'
is 'len(d) == 2' list --name mrc_perf || fail 'list --name'
is 'len(d) == 0' list --name mrc_per || fail 'list --name of none'
id=$(ask 'd[0]["device"]' list --pid "$client")
is 'len(d) == 1' list --device "${id:0:6}" || fail 'list --device'
is 'all(q["state"] == "RTS" for q in d[0]["answer"])' qps --pid "$client" || fail 'qps'
shared='(lambda x: x[0] > 1e6 and 3 * x[0] > x[3])(
  sorted(q["stats"]["tx_bytes"] for q in d[0]["answer"])[-4:])'
until_true 30 is "$shared" qps --pid "$client" || fail 'queue pairs do not share the rate'
is 'd[0]["answer"][0]["queue_pairs"] >= 1' peers --pid "$client" || fail 'peers'
is 'sum(p["packets"] for p in d[0]["answer"][0]["paths"]) > 0' paths --pid "$client" ||
  fail 'paths'
is 'd[0]["answer"]["retry_exponential"] == "25"' config --pid "$client" || fail 'config'
is 'd[0]["counters"]["engine"]["tx_data"] > 0 and bool(d[0]["paths"] and d[0]["config"])' \
  dump --pid "$client" || fail 'dump'
for command in show planes qps peers paths events config; do
  ctl "$command" >"$command.out" 2>"$command.err" || fail "$command: $(cat "$command.err")"
  [[ -s $command.out ]] || fail "$command says nothing"
done
grep -q 'mrc_perf (pid' planes.out || fail 'planes of two devices do not say whose'
ctl top --rounds 2 --interval 200ms >top.out || fail 'top'
grep -Eq 'sending [0-9.]+ [GMk]?b/s' top.out || fail "top: $(cat top.out)"

# In a terminal: sorted by name, the second device in detail, a plane drained and used again.
keys() { python3 "$support/press_keys.py" 400 "$@"; }
keys 'recv b/s' n 'r: RTT  q: end' j '> mrc_perf' '\n' 'queue pair' d '0-9' 1 'is disabled' \
  d '0-9' 1 'is enabled' '\x1b' 'paths up' q -- \
  "$mrc_ctl" --folder sockets --patience 60s top --interval 300ms >keys.out 2>keys.err ||
  fail "top in a terminal: $(cat keys.err)"
planes='[e["event"] for a in d for e in a["answer"] if e["event"][:5] == "plane"]'
until_true 30 is "$planes"' == ["plane_down", "plane_up"]' events ||
  fail "top has drained nothing: $(ctl events)"

# A plane goes out of use under load: no packet leaves in it, and nothing fails.
fails 2 'devices are open' plane 1 down
start follower "$mrc_ctl" --folder sockets --patience 60s events --follow --pid "$client"
ctl plane 1 down --pid "$client" >plane.out || fail 'plane down'
sent_before=$(ask 'd[0]["answer"][1]["port"]["tx_packets"]' planes --pid "$client")
others_before=$(ask 'd[0]["answer"][0]["port"]["tx_packets"]' planes --pid "$client")
sent() {  # sent PLANE EXPRESSION: of n, the packets that the client has sent in it
  is "(lambda n: $2)(d[0]['answer'][$1]['port']['tx_packets'])" planes --pid "$client"
}
until_true 30 sent 0 "n > $others_before + 1000" || fail 'no data in the other plane'
sent 1 "n == $sent_before" ||
  fail 'packets left in a plane that is out of use'
until_true 20 grep -qs 'plane_down' follower.out || fail 'events --follow is silent'
ctl plane 1 up --all >plane.out || fail 'plane up'
until_true 30 sent 1 "n > $sent_before + 1000" || fail 'it carries nothing afterwards'
until_true 20 grep -qs 'plane_up' follower.out || fail 'events --follow: no return'
all='[e["event"] + str(e.get("plane")) for a in d for e in a["answer"]]'
events_of() { ask "$all" events "$@"; }
[[ $(events_of --pid "$client" --kind plane_up --since 1h) == *"'plane_up1']" ]] ||
  fail "events by kind: $(events_of --pid "$client")"
[[ $(events_of --pid "$client" --kind plane --plane 0) == '[]' ]] || fail 'events by plane'
[[ $(events_of --since 0s) == '[]' ]] || fail 'events by age'
fails 2 'there is path' events --kind planes
fails 2 'must be a time such as 90s' events --since yesterday
is 'd[0]["answer"][1]["times_down"] > d[0]["answer"][0]["times_down"]' planes --pid "$client" ||
  fail 'how often planes were down'
fails 1 'the last one is 1' plane 7 down --pid "$client"
fails 1 "mrc_perf (pid $client): faults can be changed only" faults loss=0.1 --pid "$client"
grep -Eq 'access right|json' refused.err && fail "words that mean nothing: $(cat refused.err)"
printf '{\n "ev_profiles": [}' >profiles.json
fails 2 'profiles.json:2:' profiles put profiles.json
grep -q 'json.exception' refused.err && fail "the JSON library's words: $(cat refused.err)"
ctl log info --pid "$client" >log.out || fail 'log'

# Each path to the peer is probed; those of a plane that is out of use are left alone.
all='all(p["sent"] > 0 and p["rtt_ns"] for a in d for e in a["answer"] for p in e["probes"])'
until_true 60 is "$all" probe --time 1s --pid "$client" || fail "probe: $(ctl probe)"
until_true 60 is 'len(d) == 1 and len(d[0]["answer"][0]["probes"]) == 32' probe --pid "$client" ||
  fail 'probe does not have all paths'
planes='{p["plane"] for p in d[0]["answer"][0]["probes"]} == {1}'
until_true 60 is "$planes" probe --plane 1 --peer 0 \
  --pid "$client" || fail 'probe --plane'
address=$(ask 'd[0]["answer"][0]["addresses"].split(", ")[1].split(":")[0]' peers --pid "$client")
until_true 60 is 'len(d[0]["answer"]) == 1' probe --peer "$address" --pid "$client" ||
  fail 'probe --peer ADDRESS'
fails 1 'no device has a peer 77' probe --peer 77
fails 2 'must be a time' probe --time 2s
ctl plane 1 down --pid "$client" >plane.out || fail 'plane down'
ctl probe --pid "$client" >probe.out || true
expect_text probe.out 'not sent' 'paths answered; 16 were left out' 'RTT us'
ctl plane 1 up --pid "$client" >plane.out || fail 'plane up'

# An EV of one process that is denied carries nothing.
ev=$(ask 'd[0]["answer"][0]["paths"][0]["ev"]' paths --pid "$client")
plane=$(ask 'd[0]["answer"][0]["paths"][0]["plane"]' paths --pid "$client")
ctl deny --plane "$plane" --ev "$ev" --pid "$client" >deny.out || fail 'deny an EV'
grep -q '1 paths carry nothing' deny.out || fail "deny an EV: $(cat deny.out)"
path='next(p for p in d[0]["answer"][0]["paths"] if p["ev"] == '"$ev"')'
others='min(p["packets"] for p in d[0]["answer"][0]["paths"] if p["ev"] != '"$ev"')'
denied_at=$(ask "$path"'["packets"]' paths --pid "$client")
others_at=$(ask "$others" paths --pid "$client")
until_true 60 is "$others > $others_at + 100" paths --pid "$client" || fail 'no data beside it'
peer=$(ask 'd[0]["answer"][0]["peer"]' paths --pid "$client")
is 'd[0]["answer"][0]["paths"][0]["ev"] == '"$ev"' and len(d[0]["answer"][0]["paths"]) == 1' \
  paths --bad --plane "$plane" --peer "$peer" --pid "$client" || fail 'paths --bad'
is 'd[0]["answer"] == []' paths --peer 77 --pid "$client" || fail 'paths of no peer'
is 'all(p["plane"] == 0 for p in d[0]["answer"][0]["paths"])' paths --plane 0 --pid "$client" ||
  fail 'paths --plane'
is "$path"'["packets"] == '"$denied_at and $path"'["state"] == "denied"' paths --pid "$client" ||
  fail 'packets left with an EV that is denied'
ctl allow --plane "$plane" --ev "$ev" --pid "$client" >allow.out || fail 'allow'
until_true 60 is "$path"'["packets"] > '"$denied_at" paths --pid "$client" || fail 'not used again'
fails 2 "a host's port is in a plane" deny h1
fails 1 'no rule denies exactly these' allow --plane 0 --ev 1

# A rule for the host that no device can follow is refused, and leaves nothing.
fails 1 "'plane 7 is down' means nothing to the devices that are open here: mrc_perf (pid" \
  plane 7 down --all
fails 1 'no device that is open here has a plane 7' plane 7 up --all
fails 1 "'switch p0t1-1 is denied' means nothing" deny p0t1-1
if [[ $(id -u) == 0 ]]; then
  refused 1 'open in other network namespaces: mrc_perf (pid' -- unshare --net \
    "$mrc_ctl" --folder sockets --patience "$patience" deny --plane "$plane" --ev "$ev"
fi
ctl denied >denied.out
grep -q 'for all devices' denied.out && fail "refused rules are there: $(cat denied.out)"

# What holds for the host holds for programs that start later.
ctl drain 1 >plane.out || fail 'plane down for the host'
grep -q 'plane 1 is down' plane.out || fail "plane down for the host: $(cat plane.out)"
grep -q "pid $client): 16 paths carry nothing" plane.out || fail "which paths: $(cat plane.out)"
later=$(free_port) first_server=$server
start_server later-server "$later" --planes 2 --give-up 600
start later "$mrc_perf" --port "$later" "${some[@]}" 127.0.0.1
later_client=$pid
until_true 30 is 'len(d) == 1 and d[0]["answer"][0]["port"]["tx_packets"] > 1000' planes \
  --pid "$later_client" || fail 'a later program sends nothing'
is 'd[0]["answer"][1]["port"]["tx_packets"] == 0 and d[0]["answer"][1]["enabled"] == False' planes \
  --pid "$later_client" || fail 'a later program uses the plane'
gone "$later_client" && fail "a later program ended: $(cat later.err)"
kill -INT "$later_client"
exit_code "$later_client" 60
exit_code "$server" 60
server=$first_server
ctl undrain plane 1 >plane.out || fail 'plane up for the host'
grep -q 'no rules for this host' plane.out || fail "plane up for the host: $(cat plane.out)"
ctl drain 1 --pid "$client" >plane.out || fail 'drain in one process'
grep -q 'plane 1 is disabled' plane.out || fail "drain in one process: $(cat plane.out)"
ctl undrain 1 --pid "$client" >plane.out || fail 'undrain in one process'
fails 1 "'switch p1t1-1 is denied' means nothing" drain p1t1-1
fails 2 'plane 32: must be 0 to 31' drain 32

# Users without rights.
if [[ $(id -u) == 0 ]]; then
  chmod 755 . sockets
  other() { setpriv --reuid 65534 --clear-groups "$@"; }
  if other test -x "$mrc_ctl"; then
    other "$mrc_ctl" --folder "$PWD/sockets" list >other.out || fail 'list of another user'
    grep -q '2 more of other users' other.out ||
      fail "another user can connect: $(cat other.out)"
    for command in 'deny p0t1-0' 'plane 0 down --all' 'allow --everything'; do
      read -ra words <<<"$command"
      if other "$mrc_ctl" --folder "$PWD/sockets" "${words[@]}" >other.out 2>other.err; then
        fail "another user may steer the host: $command"
      fi
      grep -q 'where root may change them' other.err || fail "$command: $(cat other.err)"
    done
    for command in planes paths dump 'plane 0 down' 'log off'; do
      read -ra words <<<"$command"
      code=0
      other "$mrc_ctl" --folder "$PWD/sockets" --pid "$client" "${words[@]}" \
        >other.out 2>other.err || code=$?
      [[ $code == 3 && ! -s other.out ]] || fail "$command of another user ends with $code"
    done
    python3 -c 'import os, socket, sys
os.setgroups([])
os.setresuid(65534, 65534, 65534)
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[1])
except PermissionError:
    sys.exit(0)
sys.exit("connected")' "$(echo "$PWD/sockets/$client"-*.sock)" || fail 'another user can connect'

    # In the folder that all users share each sees devices of its own, and root those of all.
    chmod 1777 sockets
    start_server others-server "$later" --planes 2 --give-up 600
    start others setpriv --reuid 65534 --clear-groups "$mrc_perf" --port "$later" \
      "${some[@]}" 127.0.0.1
    others=$pid
    until_true 30 is 'len(d) == 1 and d[0]["uid"] == 65534' list --pid "$others" ||
      fail "root does not see another user's device: $(ctl list)"
    other "$mrc_ctl" --folder "$PWD/sockets" --json list >other.json || fail 'list of another user'
    expect "another user's devices" [ "$(jq -c 'map(.pid)' other.json)" = "[$others]" ]
    other "$mrc_ctl" --folder "$PWD/sockets" --patience 60s --pid "$others" plane 1 down \
      >other.out || fail 'another user may not steer its own device'
    is 'd[0]["answer"][1]["enabled"] == False' planes --pid "$others" || fail 'it has no effect'
    is 'd[0]["answer"][1]["enabled"] == True' planes --pid "$client" || fail "it is root's, too"
    kill -INT "$others"
    exit_code "$others" 60
    exit_code "$server" 60
    server=$first_server
  else
    say "another user can't reach $mrc_ctl: not tried"
  fi
fi

# One that is stopped is named, and delays the others by a second; one that is killed disappears.
kill -STOP "$server"
until_true 20 grep -q '^State:.T' "/proc/$server/status" || fail 'it does not stop'
patience=50ms
for _ in {1..66}; do  # more than its socket keeps
  begin=$SECONDS
  ctl list >stopped.out 2>stopped.err && fail 'the list is whole beside a stopped process'
  ((SECONDS - begin < 20)) || fail 'a stopped process delays the list'
done
expect_text stopped.err 'does not answer'
patience=600s  # of which one that is not asked for takes nothing
begin=$SECONDS
is 'len(d) == 1' list --pid "$client" || fail 'one that is stopped hides the other'
((SECONDS - begin < 300)) || fail 'one that is stopped delays what is asked of another'
patience=60s
kill -CONT "$server"
until_true 20 is 'len(d) == 2' list || fail 'it is not back'
kill_off "$server"
unlisted() { is 'len(d) == 0' list --pid "$server"; }
until_true 20 unlisted || fail "a killed process is still there: $(ctl list)"
[[ -z $(find sockets -name "$server-*") ]] || fail 'its socket is still there'

# Its peer ends, as it has to, and leaves nothing.
exit_code "$client" 60
[[ -z $(find sockets -name '*.sock*') ]] || fail 'a socket is left'
