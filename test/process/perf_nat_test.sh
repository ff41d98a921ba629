#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_perf between hosts whose addresses a router translates: planes behind it are refused at once,
# with the cause, and others work although TCP is translated.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
need_program "$mrc_perf"
need_tool nft
unset MRC_UDP_PORT  # nobody else is in these networks
two_hosts 1
switch=host-s-$$
host_begin "$switch"
for n in 1 2; do
  host=$([[ $n == 1 ]] && echo "$a" || echo "$b")
  ip -n "$host" link add r0 type veth peer name "r$n" netns "$switch"
  ip -n "$host" addr add "10.$n.0.2/24" dev r0
  ip -n "$switch" addr add "10.$n.0.1/24" dev "r$n"
  ip -n "$host" link set r0 up
  ip -n "$switch" link set "r$n" up
  ip -n "$host" route add default via "10.$n.0.1"
done
ip netns exec "$switch" sysctl -qw net.ipv4.ip_forward=1
# translate WHAT: packets of the first host, if they are that
translate() {
  ip netns exec "$switch" nft -f - <<TEXT
table ip nat
delete table ip nat
table ip nat {
  chain post {
    type nat hook postrouting priority 100;
    oifname "r2" $1 masquerade
  }
}
TEXT
}
translate '' 2>"$work/nft.err" ||
  skip "this kernel does not translate addresses: $(head -n 1 "$work/nft.err")"

both() {  # both NAME PLANE_THERE PLANE_HERE STATUS
  start "$1-server" ip netns exec "$b" "$mrc_perf" --quiet --port 18515 --planes "$2"
  server=$pid
  until_listening 18515 ip netns exec "$b"
  start "$1" ip netns exec "$a" "$mrc_perf" 10.2.0.2 --port 18515 --quiet --planes "$3" \
    --size 4K --iters 10
  exit_code "$pid" 60 "$4"
  exit_code "$server" 60 "$4"
}

say 'planes behind the router'
both planes 10.2.0.2 10.1.0.2 1
for n in planes planes-server; do
  expect_text "$work/$n.err" 'addresses are translated between the hosts (NAT)' \
    'this host is 10.1.0.2 and is seen there as 10.2.0.1'
  ! grep -q 'TCP reaches' "$work/$n.err" || fail "$n says two things: $(cat "$work/$n.err")"
done

say 'TCP only: planes of another network'
both other 10.9.0.2 10.9.0.1 0
! grep -q NAT "$work/other.err" || fail "complains: $(cat "$work/other.err")"

say 'UDP only'
translate 'ip protocol udp'
both udp 10.2.0.2 10.1.0.2 1
expect_text "$work/udp.err" 'addresses are translated between the hosts (NAT)' 'iCRC'

say 'nothing'
translate 'ip protocol icmp'
both none 10.2.0.2 10.1.0.2 0
