#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The MTU of two planes shrinks from 9,000 to 1,500 under traffic, at the sender's interfaces or,
# without a word, at a switch: in one plane or in both, over IPv4 and IPv6. Every byte arrives, no
# queue pair fails, the log names the planes, and when the MTU is back, so are packets of full size.
# A forged "packet too big" changes nothing.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
need_program "$mrc_perf"
((EUID == 0)) || skip 'network namespaces need root'
net=mrc-narrow-$$
ip netns add "$net-a" 2>/dev/null || skip 'network namespaces can not be made here'
ip netns add "$net-b"
ip netns add "$net-s"
trap 'clean_up; for n in a b s; do ip netns del "$net-$n"; done' EXIT
unset MRC_UDP_PORT  # nobody else is in these networks
export MRC_LOG=info

at() { ip netns exec "$net-$1" "${@:2}"; }
for n in a b s; do
  ip -n "$net-$n" link set lo up
  at "$n" sysctl -qw net.ipv6.conf.default.accept_dad=0
done
# A switch for each plane. Bursts leave the hosts as packets, so that a switch sees their sizes.
for p in 0 1; do
  ip -n "$net-s" link add "sw$p" mtu 9000 type bridge
  for n in a b; do
    ip -n "$net-$n" link add "p$p" mtu 9000 gso_max_segs 1 type veth peer name "$n$p" mtu 9000 \
      netns "$net-s"
    ip -n "$net-s" link set "$n$p" master "sw$p" up
    ip -n "$net-$n" addr add "10.7.$p.$([[ $n == a ]]; echo $((1 + $?)))/24" dev "p$p"
    ip -n "$net-$n" addr add "fd07:$p::$([[ $n == a ]]; echo $((1 + $?)))/64" dev "p$p" nodad
    ip -n "$net-$n" link set "p$p" up
  done
  ip -n "$net-s" link set "sw$p" up
done
# mrc_perf's control connection has a line of its own.
ip -n "$net-a" link add control type veth peer name control netns "$net-b"
for n in a b; do
  ip -n "$net-$n" addr add "10.8.0.$([[ $n == a ]]; echo $((1 + $?)))/24" dev control
  ip -n "$net-$n" link set control up
done

declare -A planes_of=([v4a]="10.7.0.1,10.7.1.1" [v4b]="10.7.0.2,10.7.1.2"
  [v6a]="fd07:0::1,fd07:1::1" [v6b]="fd07:0::2,fd07:1::2")

sent() {  # sent PLANE: bytes and packets that the sender has sent in it
  at a cat "/sys/class/net/p$1/statistics/tx_bytes" "/sys/class/net/p$1/statistics/tx_packets"
}
# sends PLANE LOW HIGH: packets leave in it, of LOW to HIGH bytes on average.
sends() {
  local before after packets
  mapfile -t before < <(sent "$1")
  sleep 0.2
  mapfile -t after < <(sent "$1")
  packets=$((after[1] - before[1]))
  ((packets > 100)) || return 1
  local average=$(((after[0] - before[0]) / packets))
  ((average >= $2 && average <= $3))
}
full() { sends "$1" 2000 9000; }
parts() { sends "$1" 500 1300; }
says() { grep -qE -- "$1" "$work/$name.err"; }

begin() {  # begin NAME FAMILY
  name=$1
  start "$name-server" ip netns exec "$net-b" "$mrc_perf" --quiet --port 18515 \
    --planes "${planes_of[$2b]}"
  server=$pid
  until_true 20 grep_listening || fail 'the server does not listen'
  start "$name" ip netns exec "$net-a" "$mrc_perf" 10.8.0.2 --port 18515 --quiet --check \
    --planes "${planes_of[$2a]}" --size 64K --duration 1000s --give-up 20s --json "$work/$name.json"
  client=$pid
  for p in 0 1; do
    until_true 20 full "$p" || fail "$name: plane $p carries no packets of full size at first"
  done
}
grep_listening() {
  at b cat /proc/net/tcp /proc/net/tcp6 |
    awk '$4 == "0A" && $2 ~ /:4853$/ { n++ } END { exit n == 0 }'
}
finish() {
  expect "$name: the client still runs" kill -0 "$client"
  kill -INT "$client"
  exit_code "$client" 20
  expect "$name: the client's exit status" [ "$code" = 130 ]
  exit_code "$server" 20
  checked_result "$name"
}
mtu() {  # mtu BYTES PLACE PLANE...: the interface of the sender (own), or that of the switch to b
  local bytes=$1 place=$2
  shift 2
  for p in "$@"; do
    if [[ $place == own ]]; then
      ip -n "$net-a" link set "p$p" mtu "$bytes"
    else
      ip -n "$net-s" link set "b$p" mtu "$bytes"
    fi
  done
}

for family in v4 v6; do
  for place in own switch; do
    if sanitized "$mrc_perf" && [[ $family$place != v4switch ]]; then continue; fi
    say "$family, $place: one plane, then both, then none"
    begin "$family-$place" "$family"
    mtu 1500 "$place" 1
    if [[ $place == own ]]; then
      until_true 20 says "plane 1: the interface's MTU leaves" || fail "$name: plane 1 is not named"
    else
      until_true 20 says 'plane 1 to .*: packets of [0-9]+ bytes do not pass' ||
        fail "$name: plane 1 is not named"
    fi
    until_true 20 full 0 || fail "$name: plane 0 does not carry on"
    mtu 1500 "$place" 0
    for p in 0 1; do
      until_true 20 parts "$p" || fail "$name: plane $p carries no parts"
    done
    mtu 9000 "$place" 0 1
    for p in 0 1; do
      until_true 20 full "$p" || fail "$name: plane $p is not used again"
    done
    expect "$name: the log says so" says 'bytes pass again'
    finish
  done
done

say 'a forged "packet too big" changes nothing'
begin forged v4
at s ip addr add 10.7.0.9/24 dev sw0
cat >"$work/forge.py" <<'PYTHON'
import socket, struct
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
a, b = socket.inet_aton("10.7.0.1"), socket.inet_aton("10.7.0.2")
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
for source in range(1024, 65536):  # whichever ports the paths have
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 4168, 0, 0x4000, 64, 17, 0, a, b)
    udp = struct.pack("!HHHH", source, 4791, 4148, 0)
    icmp = struct.pack("!BBHHH", 3, 4, 0, 0, 600) + ip + udp
    out.sendto(icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:], ("10.7.0.1", 0))
PYTHON
at s python3 "$work/forge.py"
believes() { ip -n "$net-a" route get 10.7.0.2 | grep_all 'mtu 600'; }
until_true 5 believes || fail 'the kernel has not believed the forged message: it tests nothing'
for p in 0 1; do
  until_true 20 full "$p" || fail "plane $p carries no packets of full size"
done
if says 'do not pass'; then fail 'a plane was called narrow'; fi
finish
