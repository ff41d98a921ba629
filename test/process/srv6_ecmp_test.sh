#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The same fabric without source routes: plain IPv6 with structured EVs in flow label and UDP source
# port, by which the T0s' hash chooses a T1.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
fabric_up '{ "name": "demo", "forwarding": "ecmp", "planes": 4, "t0": 2, "t1": 2, "hosts": 2 }'

say 'all T1s of all planes carry traffic, every byte is right'
start_pair ecmp --size 1M --iters 100 --check --quiet
end_pair ecmp 60
for p in 0 1 2 3; do
  for u in 0 1; do
    n=$(packets "p${p}t0-0" "s$u")
    say "plane $p T1 $u: $n packets"
    expect "the hash uses T1 $u of plane $p" [ "$n" -gt 300 ]
  done
done

# A veth passes bursts on in one piece, which packet ports can't read; a NIC cuts them.
say 'packet ports to UDP ports and back, which sees packets without a UDP checksum'
start udp-server "${at_host[@]}" h1 -- env -u MRC_FABRIC -u MRC_HOST MRC_GSO=off \
  MRC_PLANES=fd00:1::2,fd00:2::2,fd00:3::2,fd00:4::2 "$mrc_perf" --quiet --port 18515
server=$pid
until_listening 18515 on h1
start mixed "${at_host[@]}" h0 -- "$mrc_perf" fd00:1::2 --port 18515 --json "$work/mixed.json" \
  --size 64K --iters 100 --bidirectional --check --quiet
end_pair mixed 60

say 'the same by UDP source ports alone, to next hops that the description names'
fabric down >/dev/null
next_hops() {  # next_hops HOST
  local mac=02:aa:00:00:0$1
  printf '"next_hops": ["%s:00", "%s:01", "%s:02", "%s:03"]' "$mac" "$mac" "$mac" "$mac"
}
fabric_up '{ "name": "demo", "forwarding": "ecmp", "entropy": "udp", "planes": 4, "t0": 2, "t1": 2,
  "hosts": [{ '"$(next_hops 0)"' }, { '"$(next_hops 1)"' }] }'
for host in h0 h1; do
  for p in 1 2 3; do on "$host" ip -6 neigh del fe80::1 dev "p$p"; done  # mrc_perf itself needs p0
done
start_pair udp --size 1M --iters 100 --check --quiet
end_pair udp 60
for t1 in p{0,1,2,3}t1-{0,1}; do
  expect "$t1 is used" [ "$(packets "${t1/1-?/0-0}" "s${t1#*-}")" -gt 300 ]
done

say 'a path that dies is taken out of use, and the other T1 carries its plane'
start_pair dead --size 64K --duration 3600s --rate 200M --check --quiet
traffic_takes_all 'before'
fabric switch p1t1-0 down >/dev/null
traffic_takes_all 'T1 of plane 1 down' but 1.0
interrupt_pair dead
