# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Two hosts in network namespaces. Source it first.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
a=host-a-$$ b=host-b-$$ switch=
hosts_end() {
  local ns
  clean_up
  for ns in "$a" "$b" ${switch:+"$switch"}; do ip netns del "$ns" 2>/dev/null || true; done
}

host_begin() {  # host_begin NAMESPACE: without links
  ip netns add "$1"
  ip netns exec "$1" sysctl -qw net.ipv6.conf.default.accept_dad=0 \
    net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
  ip -n "$1" link set lo up
}
is_up() { [[ $(ip -n "$1" -br link show "$2") == *" UP "* ]]; }  # is_up NAMESPACE INTERFACE
host_address() {  # host_address NAMESPACE PLANE HOST_NUMBER: of interface pN, which is up then
  ip -n "$1" address add "10.9.$2.$3/24" dev "p$2"
  ip -n "$1" address add "fd00:9:$2::$3/64" dev "p$2" nodad
  ip -n "$1" link set "p$2" up
}

# Namespaces $a and $b with interfaces p0, p1 .., which are up and have the addresses 10.9.P.1 and
# fd00:9:P::1, and 10.9.P.2 and fd00:9:P::2: each plane is a subnet of its own.
two_hosts() {  # two_hosts PLANES [OPTION...]: joined directly; of each end, for `ip link add`
  need_namespaces
  trap hosts_end EXIT
  host_begin "$a"
  host_begin "$b"
  join_hosts "$@"
}
join_hosts() {  # join_hosts PLANES [OPTION...]: what two_hosts does if there were none before
  local plane
  for ((plane = 0; plane < $1; ++plane)); do
    ip -n "$a" link add "p$plane" "${@:2}" type veth peer name "p$plane" "${@:2}" netns "$b"
    host_address "$a" "$plane" 1
    host_address "$b" "$plane" 2
  done
  for ((plane = 0; plane < $1; ++plane)); do
    until_true 20 is_up "$a" "p$plane" && until_true 20 is_up "$b" "p$plane" ||
      fail "plane $plane is not up"
  done
}

# The same with a switch between them, so that a link can be dead at one of them only: bridges br0,
# br1 .. in namespace $switch with ports portP1 and portP2.
two_hosts_at_switch() {  # two_hosts_at_switch PLANES [OPTION...]
  local ns plane host
  switch=host-s-$$
  need_namespaces
  trap hosts_end EXIT
  for ns in "$a" "$b" "$switch"; do host_begin "$ns"; done
  for ((plane = 0; plane < $1; ++plane)); do
    ip -n "$switch" link add "br$plane" "${@:2}" type bridge
    ip -n "$switch" link set "br$plane" up
    host=1
    for ns in "$a" "$b"; do
      ip link add "p$plane" "${@:2}" netns "$ns" type veth \
        peer name "port$plane$host" "${@:2}" netns "$switch"
      ip -n "$switch" link set "port$plane$host" master "br$plane" up
      host_address "$ns" "$plane" "$host"
      until_true 20 is_up "$ns" "p$plane" || fail "plane $plane is not up"
      host=2
    done
  done
}
at() { ip netns exec "$@"; }  # at NAMESPACE COMMAND...
control_link() {  # a line of its own for what is not MRC; the second host is $control there
  ip -n "$a" link add control mtu 9000 type veth \
    peer name control mtu 9000 netns "$b"
  ip -n "$a" address add 10.8.0.1/24 dev control
  ip -n "$b" address add 10.8.0.2/24 dev control
  ip -n "$a" link set control up
  ip -n "$b" link set control up
}

# Besides what they have, hosts get interface r0 to router $switch, with addresses 10.1.0.2 and
# 10.2.0.2. Skips the test where the router can't translate addresses.
hosts_at_router() {
  local ns n=1
  need_tool nft
  switch=host-s-$$
  host_begin "$switch"
  for ns in "$a" "$b"; do
    ip -n "$ns" link add r0 type veth peer name "r$n" netns "$switch"
    ip -n "$ns" addr add "10.$n.0.2/24" dev r0
    ip -n "$switch" addr add "10.$n.0.1/24" dev "r$n"
    ip -n "$ns" link set r0 up
    ip -n "$switch" link set "r$n" up
    ip -n "$ns" route add default via "10.$n.0.1"
    n=2
  done
  ip netns exec "$switch" sysctl -qw net.ipv4.ip_forward=1
  translate '' 2>"$work/nft.err" ||
    skip "this kernel does not translate addresses: $(head -n 1 "$work/nft.err")"
}
translate() {  # translate WHAT: to the second host, the first one's packets, if they are that
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

links() {  # links STATE HOST PLANE...: what host 1 or 2 sees of its links
  local state=$1 host=$2 plane
  shift 2
  for plane; do ip -n "$switch" link set "port$plane$host" "$state"; done
}
# links_down PLANES COMMAND...: COMMAND, with the name of a case behind it, while links of these
# planes (words) are down at the first host, at both, at the second.
links_down() {
  local planes
  read -ra planes <<<"$1"
  shift
  links down 1 "${planes[@]}"
  "$@" "$(printf %s "${planes[@]}")-one"
  links down 2 "${planes[@]}"
  "$@" "$(printf %s "${planes[@]}")-both"
  links up 1 "${planes[@]}"
  "$@" "$(printf %s "${planes[@]}")-two"
  links up 2 "${planes[@]}"
}
# shellcheck disable=SC2034  # for those who source it
control=10.8.0.2
# shellcheck disable=SC2034
four=10.9.0.1,10.9.1.1,10.9.2.1 six=fd00:9:0::1,fd00:9:1::1,fd00:9:2::1  # of the first host
at_second() { local other=${1//1,/2,} && printf %s "${other%1}2"; }  # at_second PLANES
