#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_fabric set delay=: packets of the directions named are late by that much and no others, all
# arrive, whole and in order; the process that holds them is there when it is needed, and only then.
. "$(dirname "${BASH_SOURCE[0]}")/fabric_lib.sh"
need_program "$mrc_perf" "$mrc_probe"
need_tool pgrep
delay_probe=$support/delay_probe.py bytes_probe=$support/bytes_probe.py

up_with_switch_ports

measure() {  # measure FROM TO ADDRESS [OPTION...]: datagrams one way; result in delays.out
  local from=$1 to=$2 address=$3
  shift 3
  rm -f "$work/delays.out"
  start delays "${fabric[@]}" exec "$demo" "$to" -- python3 "$delay_probe" receive "${most:-100000}"
  listener=$pid
  until_true 10 grep -qs ready "$work/delays.out" || fail 'the probe does not listen'
  tool exec "$demo" "$from" -- python3 "$delay_probe" send "$address" "$@"
  heard
}
delays() { counted delays "$1"; }  # delays min|median|..: microseconds, or a count
# That a machine is busy makes packets late, but none early: no lower bound is a matter of luck.
# Upper ones are: of what is not delayed by MICROSECONDS, one of many datagrams takes less.
comes_within() {  # comes_within MICROSECONDS FROM TO ADDRESS
  local end=$((SECONDS + 100))
  while true; do
    most=100 measure "${@:2}" --count 100
    expect "$2 to $4: all arrive" [ "$(delays count)" = 100 ]
    if (($(delays min) < $1)); then return; fi
    ((SECONDS < end)) || fail "$2 to $4: none comes within $1 us"
  done
}
is_late() {  # is_late MICROSECONDS FROM TO ADDRESS: by so much, and not by much more
  comes_within $((10 * $1)) "${@:2}"
  expect "$2 to $4: at least $1 us" [ "$(delays min)" -ge "$1" ]
}
is_punctual() { comes_within "$@"; }  # not delayed by so much
no_wire() { [[ -z $(wires "$prefix-demo") ]]; }

say 'one direction of one link'
tool set "$demo" 'h0>p0t0-0' delay=3ms
is_late 3000 h0 h1 fd00:1::2
is_punctual 3000 h1 h0 fd00:1::1
is_punctual 3000 h0 h1 fd00:2::2
expect 'condition' [ "$(port_value 'h0>p0t0-0' conditions)" = delay=3ms ]
expect 'delay' [ "$(port_value 'h0>p0t0-0' delay)" = 3ms ]
expect 'one process' [ "$(wires "$prefix-demo" | wc -l)" = 1 ]
expect 'said to be done, it ends' [ "$(tool set "$demo" 'h0>p0t0-0' delay=3ms | wc -c)" = 0 ]

say 'changed, on several links of the way, off'
tool set "$demo" 'h0>p0t0-0' delay=1.5ms
is_late 1500 h0 h1 fd00:1::2
is_punctual 3000 h0 h1 fd00:1::2
tool set "$demo" t0-t1 delay=4ms
tool set "$demo" h1-p0t0-1 delay=2ms
is_late 7500 h0 h1 fd00:1::2  # 1.5 + 4 + 2
is_late 2000 h1 h0 fd00:1::1
tool set "$demo" h1-p0t0-1 delay=off
tool set "$demo" t0-t1 clear
is_punctual 2000 h1 h0 fd00:1::1
is_late 1500 h0 h1 fd00:1::2
tool set "$demo" 'h0>p0t0-0' clear
is_punctual 1500 h0 h1 fd00:1::2
until_true 5 no_wire || fail 'the wire runs on'
expect 'no namespace' [ "$(ip netns list | grep -c "$prefix-demo-wire")" = 0 ]
for node in h0 p0t0-0 p0t1-1; do
  if tool exec "$demo" "$node" -- tc qdisc show | grep_all 'htb\|clsact' ||
    tool exec "$demo" "$node" -- ip link show | grep_all wire; then
    fail "clear leaves something at $node"
  fi
done

say 'with other conditions on both ends, which stay when the delay goes'
port='p0t0-1>h1'
queue='rate=50Mbit trim=64K ctl=1M lasthop'
shows() { tool show "$demo" | grep_all "^$port .*$1\$"; }
tool set "$demo" "$port" rate=50Mbit trim=64K delay=2ms
tool set "$demo" 'h1>p0t0-1' loss=1
is_late 2000 h0 h1 fd00:1::2
expect 'conditions' shows "  delay=2ms $queue"
tool set "$demo" "$port" delay=off
is_punctual 2000 h0 h1 fd00:1::2
expect 'conditions' shows "  $queue"
measure h1 h0 fd00:1::1 --count 5
expect 'the other direction loses all' [ "$(delays count)" = 0 ]
tool set "$demo" "$port" delay=2ms
tool set "$demo" 'h1>p0t0-1' clear
is_late 2000 h0 h1 fd00:1::2
is_punctual 2000 h1 h0 fd00:1::1
tool set "$demo" all clear

counters() {  # what the port's interfaces, its program and the wire have counted
  tool show "$demo" --json | jq -r '(.ports | INDEX(.direction)) as $ports |
    $ports["h0>p0t0-0"] as $there | $ports["p0t0-0>h0"] as $back |
    [$there.sent_packets, $there.switch_port.packets, $there.wire.passed, $back.received_packets,
     $there.sent_bytes, $back.received_bytes, $there.wire.dropped] | join(" ")'
}
say 'nothing is lost, overtaken or counted twice'
tool set "$demo" 'h0>p0t0-0' delay=5ms
sleep 0.1
read -r -a before < <(counters)
measure h0 h1 fd00:1::2 --count 5000 --per-second 5000 --size 1000
read -r -a after < <(counters)
expect 'all arrive' [ "$(delays count)" = 5000 ]
expect 'in order' [ "$(delays reordered)" = 0 ]
expect 'at least the delay' [ "$(delays min)" -ge 5000 ]
for i in 0 1 2 3; do  # the kernel may add some of its own
  expect "packets: ${before[*]}, ${after[*]}" between 5000 $((after[i] - before[i])) 5020
done
expect 'bytes' [ $((after[4] - before[4])) = $((after[5] - before[5])) ]
expect 'none dropped' [ "${after[6]}" = 0 ]

say 'TCP and UDP in bursts: every byte'
tool set "$demo" all delay=300us
start bytes-receiver "${fabric[@]}" exec "$demo" h1 -- python3 "$bytes_probe" receive
receiver=$pid
until_true 10 grep -qs ready "$work/bytes-receiver.out" || fail 'the probe does not listen'
tool exec "$demo" h0 -- python3 "$bytes_probe" send fd00:1::2 >bytes.out 2>&1 || fail 'bytes'
exit_code "$receiver" 20
expect_text bytes.out 'TCP is right' 'UDP is right'

say 'every path over a delayed link, and no other'
tool set "$demo" all clear
tool set "$demo" 'p0t0-0>p0t1-0' delay=3ms
only_these_are_late() {
  tool exec "$demo" h0 -- "$mrc_probe" --only loops --timeout 1s --json "$work/probe.json" \
    >probe.out
  jq -e '[.paths[] | select((.rtt_us | not) or .rtt_us.min >= 3000).path] as $late |
    [.paths[].path | select(contains("p0t0-0 p0t1-0"))] as $those |
    ($those | length) == 2 and $late == $those' probe.json >late.out
}
until_true 10 only_these_are_late || fail 'round trips'

say 'MRC over delayed links in all planes: every byte'
tool set "$demo" all delay=300us
start server "${fabric[@]}" exec "$demo" h1 -- "$mrc_perf" --quiet --port 18515
server=$pid
until_listening 18515 tool exec "$demo" h1 --
start mrc "${fabric[@]}" exec "$demo" h0 -- "$mrc_perf" fd00:1::2 --port 18515 --check --quiet \
  --size 64K --iters 500 --json "$work/mrc.json"
exit_code "$pid" 60 0
exit_code "$server" 20
checked_result mrc

# With sanitizers this is enough: what follows tests commands, and takes as long again.
if sanitized "$mrc_fabric"; then exit; fi

say 'a link down and up, a switch anew, a node that was lost'
tool set "$demo" all clear
tool set "$demo" 'h0>p0t0-0' delay=2ms
tool link "$demo" h0 p0t0-0 down
tool link "$demo" h0 p0t0-0 up
is_late 2000 h0 h1 fd00:1::2
for node in p0t0-0 p0t0-0 p0t0-1; do
  tool switch "$demo" "$node" restart
  is_late 2000 h0 h1 fd00:1::2
done
for node in p0t0-0 h0 wire; do
  ip netns del "$prefix-demo-$node"
  tool up "$demo" >up.out
  is_late 2000 h0 h1 fd00:1::2
done
expect 'one process' [ "$(wires "$prefix-demo" | wc -l)" = 1 ]

say 'the wire is killed: show says so, up and the next set repair it'
for repair in "up $demo" "set $demo h1-p1t0-1 loss=0"; do
  kill -KILL "$(wires "$prefix-demo")"
  until_true 5 no_wire || fail 'the wire is not killed'
  tool show "$demo" >show.out
  expect_text show.out 'the wire does not run'
  # shellcheck disable=SC2086  # words
  tool $repair >repair.out
  is_late 2000 h0 h1 fd00:1::2
done
expect 'show has nothing to say' [ "$(tool show "$demo" | grep -c 'not run')" = 0 ]
kill -TERM "$(wires "$prefix-demo")"
until_true 5 no_wire || fail 'the wire does not end by SIGTERM'
tool up "$demo" >up.out

say 'set ends, also in a pipe, while the wire goes on'
timeout 60 bash -c '"$@" 2>&1 | cat' - "${fabric[@]}" set "$demo" 'h0>p0t0-0' delay=3ms ||
  fail 'the pipe stays open'
is_late 3000 h0 h1 fd00:1::2

say 'another fabric beside it'
"$mrc_fabric" --prefix "${prefix}b" up "$demo" >up.out
"$mrc_fabric" --prefix "${prefix}b" set "$demo" all delay=9ms
is_punctual 9000 h0 h1 fd00:1::2
expect 'a wire of its own' [ "$(wires "${prefix}b-demo" | wc -l)" = 1 ]
"$mrc_fabric" --prefix "${prefix}b" down "$demo" >down.out
expect 'no wire' [ -z "$(wires "${prefix}b-demo")" ]
is_late 3000 h0 h1 fd00:1::2

say 'what is no delay'
for word in 5 0.5us 11s -1ms fast ''; do
  refused 2 "delay=$word" '1us to 10s' -- tool set "$demo" all "delay=$word"
done

say 'names that the wire has'
sed 's/"hosts": 2/"hosts": [{"name": "wire"}, {}]/' "$demo" >host.json
sed 's/"hosts": 2/"hosts": [{"interfaces": ["wire0", "a", "b", "c"]}, {}]/' "$demo" >interface.json
for file in host interface; do refused 2 "'wire" 'take another name' -- tool up $file.json; done

say 'down leaves nothing, whoever still runs a program there'
start sleeper "${fabric[@]}" exec "$demo" p0t0-0 -- sleep 100
tool down "$demo" >down.out
gone_completely || fail 'something is left'

say 'killed at any point of set: set repairs, down removes'
tool up "$demo" >up.out
for moment in 0.01 0.03 0.06 0.1 0.15 0.2; do
  start killed "${fabric[@]}" set "$demo" all "delay=2ms"
  sleep "$moment"
  kill_off "$pid"
  if [[ $moment == 0.03 || $moment == 0.15 ]]; then
    tool set "$demo" 'h0>p0t0-0' delay=2ms
    is_late 2000 h0 h1 fd00:1::2
  fi
  if [[ $moment == 0.06 ]]; then
    tool set "$demo" all clear
    is_punctual 2000 h0 h1 fd00:1::2
  fi
  if [[ $moment == 0.1 ]]; then tool down "$demo" >down.out; tool up "$demo" >up.out; fi
done
tool down "$demo" >down.out
gone_completely || fail 'something is left'
