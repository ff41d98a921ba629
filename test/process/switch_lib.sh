# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Two hosts with a switch between them, so that a link can be dead at one of them only. Source it
# after lib.sh.

# Namespaces $a and $b with interfaces p0, p1 .., which are up and have the addresses 10.9.P.1 and
# fd00:9:P::1, and 10.9.P.2 and fd00:9:P::2: each plane is a subnet of its own.
two_hosts_at_switch() {  # two_hosts_at_switch PLANES
  ((EUID == 0)) || skip 'two hosts need root'
  local ns plane host
  a=planes-a-$$ b=planes-b-$$ switch=planes-s-$$
  ip netns add "$switch" 2>/dev/null || skip 'no network namespaces here'
  trap end_two_hosts_at_switch EXIT
  ip netns add "$a"
  ip netns add "$b"
  for ns in "$a" "$b" "$switch"; do
    ip netns exec "$ns" sysctl -qw net.ipv6.conf.default.accept_dad=0 \
      net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
    ip -n "$ns" link set lo up
  done
  for ((plane = 0; plane < $1; ++plane)); do
    ip -n "$switch" link add "br$plane" type bridge
    ip -n "$switch" link set "br$plane" up
    host=1
    for ns in "$a" "$b"; do
      ip link add "p$plane" netns "$ns" type veth peer name "port$plane$host" netns "$switch"
      ip -n "$ns" address add "10.9.$plane.$host/24" dev "p$plane"
      ip -n "$ns" address add "fd00:9:$plane::$host/64" dev "p$plane" nodad
      ip -n "$switch" link set "port$plane$host" master "br$plane" up
      ip -n "$ns" link set "p$plane" up
      host=2
    done
  done
}
end_two_hosts_at_switch() {
  local ns
  for ns in "$a" "$b" "$switch"; do ip netns del "$ns" 2>/dev/null || true; done
  clean_up
}
links() {  # links STATE HOST PLANE...: what host 1 or 2 sees of its links
  local state=$1 host=$2 plane
  shift 2
  for plane; do ip -n "$switch" link set "port$plane$host" "$state"; done
}
# shellcheck disable=SC2034  # for those who source it
four=10.9.0.1,10.9.1.1,10.9.2.1 six=fd00:9:0::1,fd00:9:1::1,fd00:9:2::1  # of the first host
at_second() { local other=${1//1,/2,} && printf %s "${other%1}2"; }  # at_second PLANES
