#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# By which links the packets of planes leave that do not have one and a subnet of their own each.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
need_program "$mrc_perf"
unset MRC_UDP_PORT  # nobody else is in these networks
export MRC_LOG=info
two_hosts_at_switch 2 mtu 9000
control_link

begin() {  # begin NAME PLANES_A PLANES_B
  name=$1
  start "$name-server" ip netns exec "$b" "$mrc_perf" --quiet --port 18515 --planes "$3"
  server=$pid
  until_listening 18515 at "$b"
  start "$name" ip netns exec "$a" "$mrc_perf" "$control" --port 18515 --quiet --check \
    --planes "$2" --size 64K --duration 1000s --rate 200M --give-up 20s --json "$work/$name.json"
  client=$pid
}
sent() { at "$a" cat "/sys/class/net/p$1/statistics/tx_bytes"; }
carries() {  # carries LINK: a MiB, soon
  local before
  before=$(sent "$1")
  until_true 20 more_than "$((before + (1 << 20)))" "$1" || fail "$name: link $1 carries nothing"
}
more_than() { (($(sent "$2") > $1)); }
finish() {
  expect "$name: the client still runs" kill -0 "$client"
  interrupt "$client" 20 130 "$name: the client"
  exit_code "$server" 20
  checked_result "$name"
}

say 'one plane over all links: its addresses are on lo, and no router leads there'
route_to() {  # route_to NAMESPACE OTHER OWN
  ip -n "$1" address add "$3/32" dev lo
  at "$1" sysctl -qw net.ipv4.fib_multipath_hash_policy=1
  ip -n "$1" route add "$2" src "$3" nexthop dev p0 nexthop dev p1
}
route_to "$a" 10.7.0.2 10.7.0.1
route_to "$b" 10.7.0.1 10.7.0.2
begin lo 10.7.0.1 10.7.0.2
for link in 0 1; do carries "$link"; done
say 'one of the links becomes narrower'
ip -n "$a" link set p1 mtu 2000
for link in 0 1; do carries "$link"; done
finish

say 'both planes in one subnet, each with a switch of its own, then both at one'
host=1
for ns in "$a" "$b"; do
  # An interface answers for its own addresses only, as `mrc_ctl check` advises.
  at "$ns" sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2
  for link in 0 1; do
    ip -n "$ns" link set "p$link" mtu 9000
    ip -n "$ns" address add "10.6.0.$((2 * link + host))/24" dev "p$link"
    ip -n "$ns" address add "fd06::$((2 * link + host))/64" dev "p$link" nodad
  done
  host=2
done
for place in apart together; do
  if [[ $place == together ]]; then
    for host in 1 2; do ip -n "$switch" link set "port1$host" master br0; done
  fi
  for family in v4 v6; do
    net=10.6.0.
    if [[ $family == v6 ]]; then net=fd06::; fi
    begin "$place-$family" "${net}1,${net}3" "${net}2,${net}4"
    for link in 0 1; do carries "$link"; done
    ip -n "$a" link set p0 down
    carries 1
    sleep 1
    carries 1
    finish
    ip -n "$a" link set p0 up
    ip -n "$a" address replace fd06::1/64 dev p0 nodad
  done
done
