#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_fabric: fabrics come up and go, every path leads where it should, links and switches fail and
# come back, switch ports do to packets what was set. Real packets in real network namespaces.
. "$(dirname "${BASH_SOURCE[0]}")/fabric_lib.sh"
larger=$source_dir/tools/fabrics/larger.json

routes_from() {  # routes_from HOST_NUMBER: all of them
  local plane uplink
  for plane in 0 1 2 3; do
    for uplink in 0 1; do route "$plane" "$uplink" "$1"; done
  done
}
say 'up, twice'
tool up "$demo" >up.out
expect_text up.out '2 hosts, 4 planes'
expect 'namespaces' [ "$(ip netns list | grep -c "^$prefix-demo-")" = 18 ]
tool up "$demo" >up.out
expect 'namespaces' [ "$(ip netns list | grep -c "^$prefix-demo-")" = 18 ]

zeros=$(printf '0%.0s' {1..20})
all_paths_deliver() {  # one packet on each path, in both directions
  local from to plane
  for from in 0 1; do
    to=$((1 - from))
    listen paths "h$to" 8 --packets
    # shellcheck disable=SC2046  # one word per path
    tool exec "$demo" "h$from" -- python3 "$probe" send "fd00:1::$((from + 1))" \
      --inner "fd00:1::$((to + 1))" $(routes_from "$from")
    heard
    expect "h$from to h$to: count" [ "$(counted paths count)" = 8 ]
    for plane in 0 1 2 3; do  # at the right port, and nothing of the route left but the host
      expect "h$from to h$to in plane $plane" [ "$(grep -c \
        "^p$plane 60000000.*fcbb00003${plane}${to}0${zeros}60000000" paths.out)" = 2 ]
    done
  done
}
say 'every path delivers at the right port'
all_paths_deliver
say 'a segment routing header is used up on the way'
listen srh h1 1 --packets
send fcbb:0:1000:2001:: --segment fcbb:0:3010::
heard
expect 'count' [ "$(counted srh count)" = 1 ]
expect 'next segment, none left' grep -q '^p0 60.*fcbb00003010.*2902040000000000' "$work/srh.out"

say 'plain IPv6: flows are spread over the uplinks'
listen ecmp h1 64
send_plain fd00:1::2 --count 64 --flows 64
heard
expect 'count' [ "$(counted ecmp count)" = 64 ]
for t1 in 0 1; do
  expect "p0t1-$t1 has its share" [ "$(port_value "p0t0-0>p0t1-$t1" sent_packets)" -gt 16 ]
done

say 'exec: environment, exit status, signals'
# shellcheck disable=SC2016  # the shell inside is to expand them
tool exec "$demo" h1 -- sh -c 'echo "$MRC_HOST $MRC_FABRIC"; cat /sys/class/net/p3/address' >env.out
expect_text env.out "h1 $demo" 02:0c:00:01:00:03
refused 7 -- tool exec "$demo" h1 -- sh -c 'exit 7'
refused 127 nonexistent -- tool exec "$demo" h1 -- /nonexistent
start sleeper "${fabric[@]}" exec "$demo" h0 -- sleep 100
until_true 5 grep -q sleep "/proc/$pid/comm" || fail 'exec does not become the program'
kill -TERM "$pid"
exit_code "$pid" 5 143 'ended by the signal'

delivers() {  # delivers DESTINATION: 0 or 1
  listen one h1 1
  send "$1" 2>/dev/null
  heard
  counted one count
}
say 'a link goes down and comes back'
tool link "$demo" p2t0-0 p2t1-1 down
expect 'path over it' [ "$(delivers "$(route 2 1 0)")" = 0 ]
expect 'path beside it' [ "$(delivers "$(route 2 0 0)")" = 1 ]
expect 'state' [ "$(port_value 'p2t0-0>p2t1-1' state)" = down ]
tool link "$demo" p2t0-0 p2t1-1 up
expect 'path over it' [ "$(delivers "$(route 2 1 0)")" = 1 ]
tool link "$demo" h0 p1t0-0 down
expect 'plane' [ "$(delivers "$(route 1 0 0)")" = 0 ]
tool link "$demo" h0 p1t0-0 up
expect 'plane' [ "$(delivers "$(route 1 0 0)")" = 1 ]

say 'a switch goes down, comes back, starts anew with its conditions'
tool switch "$demo" p3t1-0 down
expect 'path over it' [ "$(delivers "$(route 3 0 0)")" = 0 ]
expect 'path beside it' [ "$(delivers "$(route 3 1 0)")" = 1 ]
tool switch "$demo" p3t1-0 up
expect 'path over it' [ "$(delivers "$(route 3 0 0)")" = 1 ]
tool link "$demo" p3t0-1 p3t1-1 down
tool switch "$demo" p3t1-0 restart
expect 'path over it' [ "$(delivers "$(route 3 0 0)")" = 1 ]
expect 'what was down otherwise is down' [ "$(delivers "$(route 3 1 0)")" = 0 ]

say 'up repairs what was broken'
ip netns del "$prefix-demo-p0t1-1"
tool show "$demo" >show.out
expect_text show.out 'missing: p0t1-1'
ip -n "$prefix-demo-h1" link del p2
# One end of a link, which is there without the other one.
ip -n "$prefix-demo-h0" link del p3
ip -n "$prefix-demo-h0" link add p3 type ifb
ip -n "$prefix-demo-h0" link set p3 up
ip -n "$prefix-demo-p1t0-0" route flush fcbb:0:2100::/48
tool up "$demo" >up.out
all_paths_deliver

say 'two fabrics beside each other'
"$mrc_fabric" --prefix "${prefix}b" up "$demo" >up.out
all_paths_deliver
"$mrc_fabric" --prefix "${prefix}b" down "$demo" >down.out
all_paths_deliver

say 'show: all there'
tool show "$demo" >show.out
expect_text show.out '2 hosts and 16 switches' 'p3t1-1>p3t0-1'
expect 'nothing is missing' [ "$(grep -c missing show.out)" = 0 ]
tool show "$demo" --json >show.json
expect 'nodes' [ "$(json show.json namespace | grep -c "$prefix-demo-")" = 18 ]
say 'show --watch, until Ctrl-C'
start watch "${fabric[@]}" show "$demo" --watch
until_true 5 grep -qs packets/s "$work/watch.out" || fail 'nothing to watch'
interrupt "$pid" 5 0

say 'bad options name the cause'
refused 2 "a command is missing" -- tool
refused 2 nothing.json -- tool up nothing.json
refused 2 "no node 'h7'" 'h0 to h1' -- tool exec "$demo" h7 -- true
refused 2 'no link between h0 and p0t1-0' p3t0-0 -- tool link "$demo" h0 p0t1-0 down
refused 2 sideways -- tool link "$demo" h0 p0t0-0 sideways
refused 2 'h0 is a host' -- tool switch "$demo" h0 down
refused 2 "no link 'h0>h1'" 'A>B' -- tool set "$demo" 'h0>h1' loss=0.1
refused 2 speed=1 'no such condition' -- tool set "$demo" all speed=1
refused 2 loss=2 probability -- tool set "$demo" all loss=2
refused 2 rate=1 100kbit -- tool set "$demo" all rate=1
refused 2 ecn=5 MIN:MAX -- tool set "$demo" all rate=1Gbit ecn=5
refused 2 ecn=64K:8K -- tool set "$demo" all rate=1Gbit ecn=64K:8K
refused 2 delay=11s '1us to 10s' -- tool set "$demo" all delay=11s
refused 2 trim=64K 'needs a rate' -- tool set "$demo" all trim=64K
refused 2 ios -- tool export "$demo" --format ios --out .
refused 2 --prefix "'a/b'" -- tool --prefix a/b up "$demo"
sed 's/"t1": 2/"t1": 3/' "$demo" >other.json
refused 1 'another description' down -- tool up other.json
refused 1 'another description' -- tool show other.json
refused 1 'is not up' 'mrc_fabric up' -- tool show "$larger"

say 'export: a configuration for every switch'
tool export "$demo" --format sonic --out sonic >export.out
tool export "$demo" --format frr --out frr >export.out
expect 'files' [ "$(find sonic frr -type f | wc -l)" = 32 ]
expect_text sonic/p1t0-0/config_db.json '"MRC|fcbb:0:1100::/48"' '"default|fcbb:0:2101::/48"' \
  '"nexthop": "fe80::1,fe80::1"'
expect_text frr/p1t1-1/frr.conf 'sid fcbb:0:2101::/48 locator MRC behavior uN' \
  'ipv6 route fcbb:0:3110::/48 fe80::2 l1'

say 'down leaves nothing, and may be said twice'
tool down "$demo" >down.out
expect_text down.out 'is removed'
gone_completely || fail 'something is left'
tool down demo >down.out
expect_text down.out 'is not up'

say 'names that somebody else has are left alone'
ip netns add "$prefix-$foreign"
refused 1 "$prefix-$foreign" 'ip netns del' -- tool up "$demo"
expect 'one namespace' [ "$(ip netns list | grep -c "^$prefix-")" = 1 ]
ip netns del "$prefix-$foreign"

say 'killed at any point of up: up repairs, down removes'
for delay in 0.01 0.05 0.1 0.2; do
  start killed "${fabric[@]}" up "$larger"
  sleep "$delay"
  kill_off "$pid"
  if [[ $delay == 0.05 ]]; then tool up "$larger" >up.out; fi
  tool down larger >down.out
  gone_completely || fail "something is left after $delay s"
done

mkdir -p /run/openmrc-fabrics/.unfinished && echo half >/run/openmrc-fabrics/.unfinished/plan
tool up "$larger" >up.out
tool down larger >down.out
expect 'no unfinished folder' [ ! -e /run/openmrc-fabrics/.unfinished ]

if command -v setpriv >/dev/null; then
  say 'without privilege: says so'
  chmod 711 "$work"
  install -m 755 "$mrc_fabric" "$work/mrc_fabric"
  chmod 644 "$demo"
  refused 1 root sudo -- \
    setpriv --reuid 65534 --regid 65534 --clear-groups "$work/mrc_fabric" up "$demo"
fi
