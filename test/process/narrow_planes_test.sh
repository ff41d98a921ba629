#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The MTU of two planes shrinks from 9,000 to 1,500 under traffic, at the sender's interfaces or,
# without a word, at a switch: in one plane or in both, over IPv4 and IPv6. Every byte arrives, no
# queue pair fails, the log names the planes, and when the MTU is back, so are packets of full size.
# A forged "packet too big" changes nothing.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
need_program "$mrc_perf"
unset MRC_UDP_PORT  # nobody else is in these networks
export MRC_LOG=info

# Bursts leave the hosts as packets, so that a switch sees their sizes.
two_hosts_at_switch 2 mtu 9000 gso_max_segs 1
control_link

sent() {  # sent PLANE: bytes and packets that the sender has sent in it
  at "$a" cat "/sys/class/net/p$1/statistics/tx_bytes" "/sys/class/net/p$1/statistics/tx_packets"
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
whole() { sends "$1" 2000 9000; }
parts() { sends "$1" 500 1300; }
says() { grep -qE -- "$1" "$work/$name.err"; }

begin() {  # begin NAME PLANES: those of the first host
  name=$1
  start "$name-server" ip netns exec "$b" "$mrc_perf" --quiet --port 18515 \
    --planes "$(at_second "$2")"
  server=$pid
  until_listening 18515 at "$b"
  start "$name" ip netns exec "$a" "$mrc_perf" "$control" --port 18515 --quiet --check \
    --planes "$2" --size 64K --duration 1000s --rate 200M --give-up 20s --json "$work/$name.json"
  client=$pid
  for p in 0 1; do
    until_true 20 whole "$p" || fail "$name: plane $p carries no packets of full size at first"
  done
}
finish() {
  expect "$name: the client still runs" kill -0 "$client"
  interrupt "$client" 20 130 "$name: the client"
  exit_code "$server" 20
  checked_result "$name"
}
mtu() {  # mtu BYTES PLACE PLANE...: the interface of the sender (own), or that of the switch to b
  local bytes=$1 place=$2
  shift 2
  for p in "$@"; do
    if [[ $place == own ]]; then
      ip -n "$a" link set "p$p" mtu "$bytes"
    else
      ip -n "$switch" link set "port${p}2" mtu "$bytes"
    fi
  done
}

for planes in "${four%,*}" "${six%,*}"; do
  family=v4
  if [[ $planes == *:* ]]; then family=v6; fi
  for place in own switch; do
    # One family each will do for `scripts/check`.
    if ! full && [[ $family$place == v4own || $family$place == v6switch ]]; then continue; fi
    if sanitized "$mrc_perf" && [[ $family$place != v4switch ]]; then continue; fi
    say "$family, $place: one plane, then both, then none"
    begin "$family-$place" "$planes"
    mtu 1500 "$place" 1
    if [[ $place == own ]]; then
      until_true 20 says "plane 1: the interface's MTU leaves" || fail "$name: plane 1 is not named"
    else
      until_true 20 says 'plane 1 to .*: packets of [0-9]+ bytes do not pass' ||
        fail "$name: plane 1 is not named"
    fi
    until_true 20 whole 0 || fail "$name: plane 0 does not carry on"
    mtu 1500 "$place" 0
    for p in 0 1; do
      until_true 20 parts "$p" || fail "$name: plane $p carries no parts"
    done
    mtu 9000 "$place" 0 1
    for p in 0 1; do
      until_true 20 whole "$p" || fail "$name: plane $p is not used again"
    done
    expect "$name: the log says so" says 'bytes pass again'
    finish
  done
done

say 'a forged "packet too big" changes nothing'
begin forged "${four%,*}"
at "$switch" ip addr add 10.9.0.9/24 dev br0
cat >"$work/forge.py" <<'PYTHON'
import socket, struct
def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
a, b = socket.inet_aton("10.9.0.1"), socket.inet_aton("10.9.0.2")
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
for source in range(1024, 65536):  # whichever ports the paths have
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 4168, 0, 0x4000, 64, 17, 0, a, b)
    udp = struct.pack("!HHHH", source, 4791, 4148, 0)
    icmp = struct.pack("!BBHHH", 3, 4, 0, 0, 600) + ip + udp
    out.sendto(icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:], ("10.9.0.1", 0))
PYTHON
at "$switch" python3 "$work/forge.py"
believes() { ip -n "$a" route get 10.9.0.2 | grep_all 'mtu 600'; }
until_true 5 believes || fail 'the kernel has not believed the forged message: it tests nothing'
for p in 0 1; do
  until_true 20 whole "$p" || fail "plane $p carries no packets of full size"
done
if says 'do not pass'; then fail 'a plane was called narrow'; fi
finish
