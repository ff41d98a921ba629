#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_probe on a real fabric of network namespaces: everything alive, then one fault after the
# other, each of which has to be named exactly; recovery, files, and what can't be done.
. "$(dirname "${BASH_SOURCE[0]}")/fabric_lib.sh"
need_program "$mrc_probe"

at() { "${fabric[@]}" exec "$demo" "$1" -- "${@:2}"; }  # at HOST COMMAND...
sweep() {  # sweep HOST OPTION...: exit status in $code, results in sweep.out and sweep.json
  code=0
  at "$1" "$mrc_probe" --json sweep.json "${@:2}" >sweep.out 2>sweep.err || code=$?
}
what_is_wrong() { sed -n 's/^\([a-z]*: .*\) (.*/\1/p' sweep.out; }  # up to the parenthesis
# On a busy machine probes come late, which looks like a loss: the sweep is repeated, each time with
# twice the patience, until it says exactly this.
holding=True  # an expression that has to be true of the JSON, too
sweep_says() {  # sweep_says HOST STATUS WRONG OPTION...: WRONG is all that is wrong, in lines
  local host=$1 status=$2 wrong=$3 timeout=10 end=$((SECONDS + 100))
  shift 3
  while ((SECONDS < end)); do
    sweep "$host" --timeout ${timeout}ms "$@"
    if [[ $code == "$status" && $(what_is_wrong) == "$wrong" &&
      $(value_of sweep.json "bool($holding)") == True ]]; then return; fi
    if ((timeout < 1000)); then timeout=$((2 * timeout)); fi
  done
  fail "a sweep of $host does not end with status $status and '$wrong', or not: $holding"
}
start_at() {  # start_at NAME HOST COMMAND...: as start does; $pid is the command's own
  start "$1" "${fabric[@]}" exec "$demo" "$2" -- "${@:3}"
}

tool up "$demo" >up.out
start_at answers h1 "$mrc_probe" --answer
answers=$pid
until_true 10 grep -qs 'h1 answers' answers.out || fail 'h1 does not answer'

say 'all alive'
holding='all(p["answered"] == p["full_answered"] == 3 for p in d["paths"]) and
  all(0 < p["rtt_us"]["min"] for p in d["paths"])' \
  sweep_says h0 0 ''
expect_text sweep.out 'all alive' '28 paths'
expect 'paths' [ "$(value_of sweep.json 'len(d["paths"])')" = 28 ]
expect 'JSON' [ "$(value_of sweep.json 'd["all_alive"], d["dead"], d["host"]')" = \
  "(True, [], 'h0')" ]
sweep_says h1 0 '' --only loops
expect_text sweep.out '20 paths'

found() {  # found NAME [OPTION...]: by h0, while the fabric is as it was made
  sweep_says h0 1 "dead: $1" "${@:2}"
  expect "JSON: $1" [ "$(value_of sweep.json '[f["part"] for f in d["dead"]]')" = "['$1']" ]
}
say 'each of these is found, and nothing else'
tool link "$demo" p1t0-0 p1t1-1 down
found 'link p1t0-0 - p1t1-1' --deny denying.json
tool link "$demo" p1t0-0 p1t1-1 up

tool link "$demo" h1 p3t0-1 down
found 'link h1 - p3t0-1'
tool link "$demo" h1 p3t0-1 up

say 'the own port: its address goes with it, and the rest is probed all the same'
tool link "$demo" h0 p1t0-0 down
found 'link h0 - p1t0-0'
expect_text sweep.out 'p1 has no carrier' 'it may be switch p1t0-0 or plane 1 as well'
tool link "$demo" h0 p1t0-0 up

say 'two at once'
tool link "$demo" p1t0-0 p1t1-0 down
tool switch "$demo" p2t0-1 down
sweep_says h0 1 $'dead: link p1t0-0 - p1t1-0\ndead: switch p2t0-1'
tool up "$demo" >up.out

say 'losses are not death, and each probe counts once'
# Numbers of paths leave out the first look, of three, where a second one follows; what is probed by
# the second alone comes last.
once='d["probes"] == sum(p["tries"] + p["full_tries"] for p in d["paths"]) +
  3 * sum(p["tries"] > 3 for p in d["paths"][:28]) +
  3 * sum(p["full_tries"] > 3 for p in d["paths"] if p["tries"] > 0)'
if tool set "$demo" 'p1t0-0>p1t1-0' loss=0.3 2>set.err; then
  # All may get through, by chance; then it is tried again.
  holding="10 < d['lossy'][0]['lost_percent'] < 60 and $once and
    d['lossy'][0]['direction'] == 'p1t0-0>p1t1-0'" sweep_says h0 0 'lossy: link p1t0-0 - p1t1-0'
  expect_text sweep.out 'from p1t0-0 to p1t1-0 only'
  tool set "$demo" 'p1t0-0>p1t1-0' clear
else
  say "left out: $(cat set.err)"
fi

say 'a link whose MTU is too small for data: small probes alone see nothing'
narrow_link() { ip -n "$prefix-demo-p1t0-0" link set s1 mtu "$1"; }
usual=$(ip netns exec "$prefix-demo-p1t0-0" cat /sys/class/net/s1/mtu)
narrow_link 1500
holding='d["full_size"] > 1500 and [f["part"] for f in d["narrow"]] == ["link p1t0-0 - p1t1-1"]' \
  sweep_says h0 1 'narrow: link p1t0-0 - p1t1-1'
expect_text sweep.out 'bytes do not pass, small ones do; '
sweep_says h0 0 '' --small
MRC_MTU=1024 sweep_says h0 0 ''
narrow_link "$usual"
sweep_says h0 0 ''

say 'a link that is slow and loses nothing: --load names it, and the direction'
if tool set "$demo" all rate=200Mbit 2>set.err; then
  sweep_says h0 0 '' --load
  tool set "$demo" 'p1t0-0>p1t1-1' rate=10Mbit
  sweep_says h0 0 ''  # which small packets, and single ones, do not see
  began=$SECONDS
  holding='d["slow"][0]["direction"] == "p1t0-0>p1t1-1" and not d["all_alive"] and
    d["slow"][0]["mbit_per_s"] < 20 < 100 < d["slow"][0]["usual_mbit_per_s"]' \
    sweep_says h0 1 'slow: link p1t0-0 - p1t1-1' --load
  say "named within $((SECONDS - began)) s"
  expect_text sweep.out 'from p1t0-0 to p1t1-1 only'
  tool set "$demo" 'p1t0-0>p1t1-1' rate=200Mbit
  tool set "$demo" 'p2t0-1>h1' rate=10Mbit
  holding='len(d["slow"]) == 1' sweep_says h0 1 'slow: link h1 - p2t0-1' --load
  tool set "$demo" all clear
else
  say "left out: $(cat set.err)"
fi

say 'what is denied is written, and read'
expect 'deny' [ "$(value_of denying.json 'd["deny"]')" = "[{'plane': 1, 't0': 0, 't1': 1}]" ]
sweep_says h0 0 '' "$work/denying.json" --verbose
expect 'denied paths' [ "$(grep -c ' denied$' sweep.out)" = 3 ]
at h0 "$mrc_probe" "$work/denying.json" --timeout 5s --deny - >deny.json
expect 'deny stays' [ "$(value_of deny.json 'd')" = "[{'plane': 1, 't0': 0, 't1': 1}]" ]
if [[ -x $mrc_perf ]]; then
  tool link "$demo" p1t0-0 p1t1-1 down
  start_at perf-server h1 "$mrc_perf" --quiet
  server=$pid
  until_listening 18515 at h1
  start_at perf h0 "$mrc_perf" fd00:1::2 --quiet --size 64K --duration 300ms \
    --fabric "$work/denying.json" --json perf.json
  exit_code "$pid" 30 0 'mrc_perf'
  exit_code "$server" 20
  tool link "$demo" p1t0-0 p1t1-1 up
fi

say '--watch sees it go and come back'
start_at watch h0 "$mrc_probe" --watch --interval 100ms --timeout 1s --json "$work/watch.json" \
  --deny "$work/watched.json"
watch=$pid
until_true 10 grep -qs 'all alive' watch.out || fail 'no first sweep'
tool link "$demo" p1t0-0 p1t1-1 down
until_true 10 grep -q '^[0-9:.]* dead   link p1t0-0 - p1t1-1 ' watch.out || fail 'death not seen'
denies_it() { [[ $(value_of watched.json 'd["deny"]') == "[{'plane': 1, 't0': 0, 't1': 1}]" ]]; }
until_true 10 denies_it || fail 'what is dead is not denied'
tool link "$demo" p1t0-0 p1t1-1 up
until_true 10 grep -q '^[0-9:.]* back   link p1t0-0 - p1t1-1 ' watch.out || fail 'recovery not seen'
denies_nothing() { [[ $(value_of watched.json 'd["deny"]') == '[]' ]]; }
until_true 10 denies_nothing || fail 'what came back is denied'
interrupt "$watch" 5 0
expect_text watch.out 'at the end:' 'changes;'
expect 'changes' [ "$(value_of watch.json \
  '[c["change"] for c in d["changes"] if "p1t0-0 - p1t1-1" in c["what"]]')" = "['dead', 'back']" ]

say 'who answers is asleep while nobody asks'
# Of 20 looks, since whoever polls waits for a processor on a busy machine, too, and never sleeps.
asleep=0
for _ in {1..20}; do
  if ! awk '{ print $3 }' /proc/"$answers"/task/*/stat | grep_all R; then asleep=$((asleep + 1)); fi
  sleep 0.05
done
expect 'looks that found all threads asleep' [ "$asleep" -ge 10 ]
kill -TERM "$answers"
exit_code "$answers" 5 0
expect_text answers.out 'probes answered'

say 'no one answers'
sweep_says h0 1 'silent: host h1'
sweep_says h0 0 '' --only loops

say 'a device answers hosts that it is not connected to, and processes of those that it is'
cat >three.json <<'JSON'
{ "name": "three", "planes": 2, "t0": 2, "t1": 2, "hosts": 3 }
JSON
before=$demo demo=$work/three.json
tool up "$demo" >up.out
start_at perf-server h2 "$mrc_perf" --quiet
server=$pid
until_listening 18515 at h2
# One message at a time, and a server that sleeps: the fabric is idle.
start_at perf h0 "$mrc_perf" fd00:1::3 --quiet --test completion --size 8 --duration 3600s \
  --fabric "$demo"
client=$pid
for host in h0 h1; do
  holding='all(p["answered"] > 0 for p in d["paths"] if p["to"] == "h2")' \
    sweep_says "$host" 0 '' --to h2 --tries 5
done
kill -INT "$client"
exit_code "$client" 20
exit_code "$server" 20
tool down "$demo" >down.out

say 'without source routes: EVs to hosts, and what is dead but for the T1s'
cat >ecmp.json <<'JSON'
{ "name": "ecmp", "forwarding": "ecmp", "planes": 2, "t0": 2, "t1": 2, "hosts": 4 }
JSON
demo=$work/ecmp.json
tool up "$demo" >up.out
answering=()
for host in h1 h2 h3; do
  start_at "answers-$host" "$host" "$mrc_probe" --answer
  answering+=("$pid")
  until_true 10 grep -qs "$host answers" "answers-$host.out" || fail "$host does not answer"
done
holding='all(p["rtt_us"] for p in d["paths"])' sweep_says h0 0 ''
expect_text sweep.out '96 paths'
expect 'EVs' [ "$(value_of sweep.json 'len({p["ev"] for p in d["paths"]})')" = 32 ]
tool switch "$demo" p1t0-1 down
sweep_says h0 1 'dead: switch p1t0-1'
expect 'deny' [ "$(value_of sweep.json 'd["deny"]')" = "[{'plane': 1, 't0': 1}]" ]
tool switch "$demo" p1t0-1 up
# The T0 that chooses this T1 does not see that the T1's other link is down.
tool link "$demo" p0t1-1 p0t0-1 down
holding='0 < len(d["dead_paths"]) < 32' sweep_says h0 1 \
  $'dead: path h0 p0t0-0 ? p0t0-1 h2\ndead: path h0 p0t0-0 ? p0t0-1 h3'
tool link "$demo" p0t1-1 p0t0-1 up
for pid in "${answering[@]}"; do
  kill -TERM "$pid"
  exit_code "$pid" 5
done
refused 3 'nothing leads back' -- at h0 "$mrc_probe" --only loops
tool down "$demo" >down.out
demo=$before

say 'what can not be done'
refused 2 'no fabric is named' -- "$mrc_probe"
refused 2 '--tries 0' -- "$mrc_probe" "$demo" --tries 0
refused 2 '--to h7' -- at h0 "$mrc_probe" --to h7
refused 2 '--to h0: is this host itself' -- at h0 "$mrc_probe" --to h0
refused 2 "can't be read" -- "$mrc_probe" nowhere.json
refused 3 'this is not host h1' -- at h0 "$mrc_probe" --host h1
refused 3 'no host has an address on this machine' -- "$mrc_probe" "$demo"
