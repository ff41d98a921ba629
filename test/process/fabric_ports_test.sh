#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_fabric set: switch ports lose, mark, trim, shape and prefer packets as they were told to, and
# count what they do.
. "$(dirname "${BASH_SOURCE[0]}")/fabric_lib.sh"

up_with_switch_ports

port='p0t0-1>h1'  # the last one on the way from h0 to h1 in plane 0
way=$(route 0 1 0)
set_port() {  # set_port CONDITION...: these and no others
  tool set "$demo" "$port" clear
  tool set "$demo" "$port" "$@"
}
flood() {  # flood NAME COUNT OPTION...: sends so many, first at $began; what arrives is in NAME
  listen "$1" h1 "$2"
  began=$(send "$way" --began --count "$2" "${@:3}")
  heard
}

say 'loss: what does not arrive is counted'
set_port loss=0.1
flood loss 5000 --size 64
arrived=$(counted loss count)
expect 'about a tenth is lost' between 4350 "$arrived" 4650
# A few packets of the kernel's own come by.
expect 'the rest is counted' between 5000 $((arrived + $(port_value "$port" lost))) 5005
expect 'conditions are shown' [ "$(port_value "$port" conditions)" = loss=0.1 ]

say 'CE marks: only where the sender allows them'
set_port ce=0.2
flood ce 5000 --size 64 --ecn 2
expect 'nothing is lost' [ "$(counted ce count)" = 5000 ]
expect 'about a fifth is marked' between 850 "$(counted ce marked)" 1150
expect 'and counted' [ "$(counted ce marked)" = "$(port_value "$port" marked)" ]
flood not_ect 1000 --size 64 --ecn 0
expect 'not-ECT stays' [ "$(counted not_ect marked)" = 0 ]
set_port ce=1
listen ce_inside h1 1 --packets
send "$way" --ecn 1 --dscp 4 --size 1
heard
expect 'outer and inner' grep -q '^p0 6130.*\(0000\)\{4\}61300000' ce_inside.out

say 'black hole, one direction only'
set_port blackhole
flood hole 10
expect 'nothing arrives' [ "$(counted hole count)" = 0 ]
listen back h0 1
tool exec "$demo" h1 -- python3 "$probe" send fd00:1::2 --inner fd00:1::1 "$(route 0 1 1)"
heard
expect 'the other way is open' [ "$(counted back count)" = 1 ]

# A busy machine is late with packets and never early: no more can come than the rate and the burst
# of two packets allow since the first was sent. How much less comes is not judged: the kernel was
# told the rate. More is sent than passes while it is sent, and than the queue takes.
no_faster() {  # no_faster MBIT: than that came what `flood rate` has sent
  awk -v mbit="$1" -v bytes="$(counted rate bytes)" -v began="$began" \
    -v last="$(counted rate last)" \
    'BEGIN { exit 8 * bytes > 1.05e6 * mbit * (last - began) + 8 * 2 * 9500 }'
}
for rate in 20 150; do
  say "rate: $rate Mbit/s"
  set_port rate=${rate}Mbit drop=128K
  flood rate 5000 --size 4096
  expect "no more than $rate Mbit/s" no_faster $rate
  expect "a class of $rate Mbit/s" \
    grep -q "rate ${rate}Mbit " <(tool exec "$demo" p0t0-1 -- tc class show dev h1)
  expect 'the queue was full' between 123000 "$(port_value "$port" queue_max)" 131072
  expect 'all are counted' \
    [ $(($(counted rate count) + $(port_value "$port" dropped))) = 5000 ]
done

say 'ECN: from the first threshold on, all from the second on'
# So slow that the queue does not get shorter while it is filled: 26 packets in a second.
set_port rate=1Mbit drop=256K ecn=20K:40K
flood ecn 50 --size 4096 --ecn 1 --dscp 4
expect 'nothing is lost' [ "$(counted ecn count)" = 50 ]
expect 'nothing is dropped' [ "$(port_value "$port" dropped)" = 0 ]
expect 'most is marked' between 25 "$(counted ecn marked)" 46
expect 'and counted' [ "$(counted ecn marked)" = "$(port_value "$port" marked)" ]

# What fabric/packet.hpp makes of a packet: 28 bytes from the UDP header on, both IP lengths
# shortened, DSCP 16 (trimmed at the last hop) outside, the UDP length as it was. What the way does:
# three hops, only the host's uSID left. As hexadecimal digits, two per byte.
zeros=$(printf '0%.0s' {1..20})
outer() {  # outer SENT LENGTH: of the packet that was sent
  echo "64200000${2}${1:12:2}3d${1:16:32}fcbb00003010${zeros}"
}
udp() { echo "${1:$2:56}"; }  # udp SENT AT
trimmed() {  # trimmed NAME EXPECTED SEND_OPTION...: checks one packet
  expect "$1: exactly" [ "$(sed -n 's/^p0 //p' "$work/$1.out")" = "$2" ]
}
say 'trimming: exactly what is left'
set_port rate=50Mbit trim=1
options=(--size 3000 --dscp 8 --ecn 2 --hex)
listen usid h1 1 --packets
sent=$(send "$way" "${options[@]}")
heard
trimmed usid "$(outer "$sent" 0044)${sent:80:8}001c${sent:92:68}$(udp "$sent" 160)"
listen srh h1 1 --packets
sent=$(send fcbb:0:1000:2001:: --segment fcbb:0:3010:: "${options[@]}")
heard
srh="${sent:80:6}00${sent:88:40}"  # no segments left
trimmed srh "$(outer "$sent" 005c)$srh${sent:128:8}001c${sent:140:68}$(udp "$sent" 208)"
listen plain h1 1 --packets
sent=$(send_plain fd00:1::2 "${options[@]}")
heard
trimmed plain "64200000001c${sent:12:2}3d${sent:16:64}$(udp "$sent" 80)"
expect 'all are counted' [ "$(port_value "$port" trimmed)" = 3 ]
for dscp in 0 63; do  # no_trim, and one that nobody knows
  flood not_trimmable 1 --dscp $dscp
  expect "DSCP $dscp is dropped" [ "$(counted not_trimmable count)" = 0 ]
done
expect 'they are counted' [ "$(port_value "$port" dropped)" = 2 ]

say 'trimming on the way has a DSCP of its own'
tool set "$demo" "$port" clear
tool set "$demo" 'p0t0-0>p0t1-1' rate=50Mbit trim=1
flood on_the_way 1 --dscp 4
expect 'DSCP trimmed' [ "$(counted on_the_way dscp12)" = 1 ]
tool set "$demo" 'p0t0-0>p0t1-1' clear

say 'overload: everything arrives, whole or trimmed; control packets pass the queue'
set_port rate=5Mbit trim=64K
listen overload h1 1100
start control "${fabric[@]}" exec "$demo" h0 -- python3 "$probe" send fd00:1::1 \
  --inner fd00:1::2 "$way" --count 100 --per-second 1000 --dscp 46 --size 40
control=$pid
send "$way" --count 1000 --size 4096 --dscp 4
exit_code "$control" 5
heard
expect 'everything arrives' [ "$(counted overload count)" = 1100 ]
expect 'control' [ "$(counted overload dscp46)" = 100 ]
expect 'most is trimmed' between 500 "$(counted overload dscp16)" 990
expect 'and counted' [ "$(counted overload dscp16)" = "$(port_value "$port" trimmed)" ]
expect 'first is what is small' \
  [ "$(port_value "$port" control)" = $((100 + $(counted overload dscp16))) ]
set_port rate=1Mbit trim=1 ctl=300
flood control_full 500 --dscp 46
expect 'a full control queue drops' [ "$(port_value "$port" dropped)" -gt 0 ]
expect 'all are counted' \
  [ $(($(counted control_full count) + $(port_value "$port" dropped))) = 500 ]

say 'a switch that starts anew keeps its conditions, and new conditions the others'
set_port loss=1
tool switch "$demo" p0t0-1 restart
flood restarted 5
expect 'nothing arrives' [ "$(counted restarted count)" = 0 ]
tool set "$demo" "$port" ce=1
expect 'conditions' grep -q "blackhole ce=1" <(tool show "$demo")
tool up "$demo" >up.out
expect 'conditions' grep -q "blackhole ce=1" <(tool show "$demo")

say 'kinds of links'
tool set "$demo" all clear
tool set "$demo" t0-host rate=1Gbit
expect 'ports' [ "$(tool show "$demo" | grep -c rate=1Gbit)" = 8 ]
for kind in t0-t1 't1>t0'; do tool set "$demo" "$kind" rate=2Gbit trim=256K; done
expect 'ports' [ "$(tool show "$demo" | grep -c 'rate=2Gbit.*lasthop=off')" = 32 ]
tool set "$demo" h0-p2t0-0 loss=0.5
expect 'ports' [ "$(tool show "$demo" | grep -c '^\(h0>p2t0-0\|p2t0-0>h0\).*loss=0.5')" = 2 ]
tool set "$demo" all clear
expect 'none' [ "$(tool show "$demo" | grep -c Gbit)" = 0 ]
if tool exec "$demo" p0t0-1 -- tc qdisc show | grep_all 'htb\|clsact'; then
  fail 'clear leaves something'
fi
