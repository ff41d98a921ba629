#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_ctl serve beside running programs: metrics as Prometheus wants them, who is answered and who
# may change something, other hosts that answer or do not, stopped processes, errors, Ctrl-C.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_ctl"
page=$source_dir/docs/serve.md

cd "$work"
mkdir sockets empty
export MRC_CONTROL=$PWD/sockets
need_serve

ask() {  # ask METHOD PATH [HEADER: VALUE]... [--body TEXT]: the body; head in ask.head
  local method=$1 path=$2
  shift 2
  python3 -B "$support/http_ask.py" "$method" "$port" "$path" "$@" 2>ask.head
}
status() {  # status CODE METHOD PATH ...: the request's status is that
  local want=$1
  shift
  ask "$@" >ask.body
  [[ $(sed -n '1s/^[^ ]* \([0-9]*\).*/\1/p' ask.head) == "$want" ]] ||
    fail "$*: not status $want: $(cat ask.head ask.body)"
}
is() {  # is EXPRESSION PATH: of the JSON d
  [[ $(ask GET "$2" | python3 -c 'import json, sys; d = json.load(sys.stdin); print(eval(
    "(" + sys.argv[1] + ")"))' "$1" 2>is.err) == True ]]
}
serve() {  # serve NAME OPTION...: at a free port, in $port; its pid in $pid
  local name=$1
  shift
  port=$(free_port)
  start "$name" "$mrc_ctl" --folder sockets serve --listen "127.0.0.1:$port" "$@"
  until_listening "$port"
}
fails() {  # fails STATUS TEXT OPTION...
  refused "$1" "$2" -- "$mrc_ctl" --folder sockets serve "${@:3}"
}

say 'nothing is open'
serve none
status 200 GET /metrics
grep -qx 'openmrc_devices 0' ask.body || fail "no devices: $(cat ask.body)"
python3 -B "$support/prometheus_text.py" <(cat ask.body) >/dev/null || fail 'metrics of no device'
is 'd["devices"] == [] and d["schema"] == 1' /api/snapshot || fail 'the snapshot of no device'
grep -q "http://127.0.0.1:$port/" none.out || fail 'it does not say where it listens'

say 'errors'
fails 2 'must be like' --listen nonsense:x
fails 2 'must be like' --peers '[::'
fails 2 'steer' --token-file none
fails 2 'no-such.json' --fabric no-such.json
fails 1 'another program does' --listen "127.0.0.1:$port"
fails 1 'must be an address of this host' --listen 192.0.2.1:9794
printf 'short\n' >token && chmod 600 token
fails 2 '16 characters' --steer --token-file token
printf '0123456789abcdef-secret\n' >token && chmod 644 token
fails 2 'chmod 600' --steer --token-file token
chmod 600 token
interrupt "$pid" 20

say 'a pair that moves data; the program has a name that needs care'
export MRC_RETRY_EXPONENTIAL=25  # one that is stopped for a while is no dead one
name='pe"r\f <b>&'
perf=$(free_port)
start server bash -c 'exec -a "$0" "$@"' "$name" "$mrc_perf" --port "$perf" --planes 2 --give-up 600
server=$pid
until_listening "$perf"
start client "$mrc_perf" --port "$perf" --planes 2 --size 64K --rate 40M \
  --duration 600 --give-up 600 127.0.0.1
client=$pid
serve reader --paths
reader=$pid reader_port=$port
until_true 30 is 'len(d["devices"]) == 2 and all(p["tx_bytes"] > 1e6 for v in d["devices"]
  for p in v["planes"] if v["program"] == "mrc_perf")' /api/snapshot || fail 'no data'

say 'metrics'
metrics() { ask GET /metrics >metrics.txt; }
value() {  # value PATTERN: the sum of the samples whose name and labels match
  metrics && grep -E "$1" metrics.txt | awk '{ sum += $NF } END { printf "%.0f\n", sum }'
}
metrics
grep -q '^Content-Type: text/plain; version=0.0.4' ask.head || fail "content type: $(cat ask.head)"
python3 -B "$support/prometheus_text.py" metrics.txt --table "$page" >check.out 2>check.err ||
  fail 'the metrics'
dashboard=$source_dir/tools/grafana/openmrc.json
python3 -B "$support/prometheus_text.py" metrics.txt --uses "$dashboard" 2>check.err ||
  fail 'the dashboard'
if command -v promtool >/dev/null; then
  promtool check metrics <metrics.txt >promtool.out 2>&1 || fail "promtool: $(cat promtool.out)"
fi
grep -qF 'program="pe\"r\\f <b>&"' metrics.txt || fail "the name: $(grep device_up metrics.txt)"
expect 'both are up' [ "$(value '^openmrc_device_up\{')" = 2 ]
sent="^openmrc_plane_sent_bytes_total\{pid=\"$client\""
before=$(value "$sent")
more() { (($(value "$sent") > before + 1000000)); }
until_true 30 more || fail 'the counters do not grow'
expect 'paths one by one' [ "$(value '^openmrc_path_usable\{')" -ge 4 ]
timed=$(grep -c '^openmrc_path_round_trip_seconds{' metrics.txt)
expect 'round-trip times of paths' [ "$timed" -ge 4 ]

say 'what is answered, and to whom'
for path in / /page.css /page.js /model.js /icon.svg /api/hosts /api/events; do
  status 200 GET "$path"
  for header in "Content-Security-Policy: default-src 'self'" 'X-Content-Type-Options: nosniff'; do
    grep -qF "$header" ask.head || fail "$path: no $header"
  done
done
status 200 HEAD /metrics
status 404 GET /../../etc/passwd
status 404 GET /api/plane/x
status 404 POST /nowhere --body '{}'
status 405 POST /metrics --body '{}'
status 405 GET /api/plane
status 405 DELETE /api/snapshot
status 400 GET "/api/events?since=x"
status 400 GET "/$(printf 'x%.0s' {1..1000})"
status 200 GET /metrics "Host: LOCALHOST:$port"
status 421 GET /metrics 'Host: evil.example'
status 421 POST /api/plane 'Host: evil.example' --body '{}'

say 'who may change something'
id=$(ask GET /api/snapshot | python3 -c 'import json, sys
print([d["device"] for d in json.load(sys.stdin)["devices"] if d["program"] == "mrc_perf"][0])')
json='Content-Type: application/json' token='X-OpenMRC-Token: 0123456789abcdef-secret'
at_plane() { echo '{"device": "'"$id"'", "plane": '"$1"', "enabled": false}'; }
down=$(at_plane 1)
up=${down/false/true}
status 403 POST /api/plane "$json" "$token" --body "$down"
grep -q 'only reads' ask.body || fail "without --steer: $(cat ask.body)"
serve steerer --steer --token-file token --allow-host node7.example
steerer=$pid
status 200 GET /metrics 'Host: Node7.Example:80'
status 403 POST /api/plane "$json" --body "$down"
status 403 POST /api/plane "$json" "${token%t}" --body "$down"
status 403 POST /api/plane "$json" "${token}x" --body "$down"
status 421 POST /api/plane "$json" "$token" 'Host: evil.example' --body "$down"
status 415 POST /api/plane 'Content-Type: text/plain' "$token" --body "$down"
status 415 POST /api/plane 'Content-Type: application/x-www-form-urlencoded' "$token" --body "$down"
for body in '' '[]' '{}' 'x' "$(at_plane -1)" "$(at_plane 32)" "$(at_plane '"1"')" \
  "${down/false/0}" "$(printf '[%.0s' {1..2000})"; do
  status 400 POST /api/plane "$json" "$token" --body "$body"
done
status 413 POST /api/plane "$json" "$token" --body "$(printf 'x%.0s' {1..5000})"
status 400 POST /api/plane "$json" "$token" 'Transfer-Encoding: chunked' \
  --raw '2\r\n{}\r\n0\r\n\r\n'
status 404 POST /api/plane "$json" "$token" --body "${down/$id/0000}"
status 502 POST /api/plane "$json" "$token" --body "$(at_plane 7)"
grep -q 'the last one is 1' ask.body || fail "a plane that is not there: $(cat ask.body)"
status 200 POST /api/plane "$json; charset=utf-8" "$token" --body "$down"
is '[p["enabled"] for d in d["devices"] if d["program"] == "mrc_perf" for p in d["planes"]] ==
  [True, False]' /api/snapshot || fail 'the plane is in use'
told() {
  is 'any(e["event"] == "plane_down" and e["plane"] == 1 for e in d["events"])' /api/events
}
until_true 20 told || fail 'no event'
status 200 POST /api/plane "$json" "$token" --body "$up"
used() { is 'all(p["enabled"] for d in d["devices"] for p in d["planes"])' /api/snapshot; }
until_true 20 used || fail 'the plane is out of use'
serve maker --steer
made=$(sed -n 's/.*token for changes is \([0-9a-f]*\)$/\1/p' maker.out)
expect 'a token is made' [ ${#made} = 32 ]
status 200 POST /api/plane "$json" "X-OpenMRC-Token: $made" --body "$up"
interrupt "$pid" 20

say 'other hosts'
peers=127.0.0.1:$reader_port
for kind in silent garbage deep odd; do
  peer=$(free_port)
  start "peer-$kind" python3 -B "$support/odd_http_peer.py" "$peer" "$kind"
  until_listening "$peer"
  peers+=,127.0.0.1:$peer
done
serve many --peers "$peers,127.0.0.1:1,no-such-host.invalid:9794"
many=$pid
for _ in 1 2 3; do
  is 'len(d["hosts"]) == 8 and len(d["hosts"][0]["devices"]) == 2' /api/hosts ||
    fail 'this host is not shown beside others'
done
answered() { is '[len(h.get("devices", [])) for h in d["hosts"]] == [2, 2, 0, 0, 0, 4, 0, 0] and
  [bool(h.get("problem")) for h in d["hosts"]] == [0, 0, 1, 1, 1, 0, 1, 1]' /api/hosts; }
until_true 30 answered || fail "other hosts: $(ask GET /api/hosts | cut -c -2000)"
interrupt "$many" 20

say 'a process that is stopped is said to be so, and hides nobody'
port=$reader_port
stopped_at=$EPOCHSECONDS
kill -STOP "$server"
up_are() {  # up_are SERVER CLIENT
  metrics
  grep -q "^openmrc_device_up{pid=\"$server\".* $1\$" metrics.txt &&
    grep -q "^openmrc_device_up{pid=\"$client\".* $2\$" metrics.txt
}
until_true 20 up_are 0 1 || fail "stopped: $(grep device_up metrics.txt)"
for _ in {1..40}; do metrics; done  # more than its socket keeps
python3 -B "$support/prometheus_text.py" metrics.txt >/dev/null || fail 'metrics of a stopped one'
up_are 0 1 || fail "still stopped: $(grep device_up metrics.txt)"
is 'any("does not answer" in v["problem"] and not v["up"] for v in d["devices"])' /api/snapshot ||
  fail 'the snapshot does not say so'
is "all($stopped_at - 60 < v['seen'] < $stopped_at + 5 for v in d['devices'] if not v['up'])" \
  /api/snapshot || fail 'it does not say when that one answered last'
kill -CONT "$server"
until_true 20 up_are 1 1 || fail "it goes on: $(grep device_up metrics.txt)"
kill_off "$server"
unlisted() { metrics && ! grep -q "pid=\"$server\"" metrics.txt; }
until_true 20 unlisted || fail 'a killed process is still there'

say 'Ctrl-C; the port is free at once'
interrupt "$steerer" 20
interrupt "$reader" 20
start again "$mrc_ctl" --folder sockets serve --listen "127.0.0.1:$reader_port"
until_listening "$reader_port"
interrupt "$pid" 20
