# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of mrc_fabric share, on top of lib.sh: the demo fabric under a prefix of their own,
# packets through it. Source it first. What it makes goes with the test.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_fabric"
need_tool ip
[[ -e /proc/sys/net/ipv6/conf/all/seg6_enabled ]] || skip 'the kernel has no SRv6'
need_namespaces

prefix=t$$
fabric=("$mrc_fabric" --prefix "$prefix")
probe=$support/fabric_probe.py
demo=$work/demo.json  # 4 planes, 2 T0 and 2 T1 in each, h0 and h1 under different T0s
cp "$source_dir/tools/fabrics/demo.json" "$demo"
cd "$work"

foreign='demo-p1t1-0'  # a namespace that somebody else makes

take_down() {
  local p name
  for p in "$prefix" "${prefix}b"; do
    for name in demo larger three ecmp; do
      "$mrc_fabric" --prefix "$p" down "$name" >/dev/null || true
    done
  done
  if ip netns list | grep_all "^$prefix-$foreign"; then ip netns del "$prefix-$foreign"; fi
}
trap 'take_down; clean_up' EXIT

tool() { "${fabric[@]}" "$@"; }
up_with_switch_ports() {  # or the test is skipped
  tool up "$demo" >up.out
  if ! tool set "$demo" all loss=0 2>set.err; then
    grep -q 'without switch ports\|does not take' set.err || fail 'set does not work'
    skip "no switch ports: $(head -n 1 set.err)"
  fi
  tool set "$demo" all clear
}
gone_completely() {  # nothing of this test's fabrics is left
  [[ -z $(wires "$prefix-demo") ]] && ! ip netns list | grep_all "^$prefix" &&
    ! compgen -G "/run/openmrc-fabrics/$prefix*" >/dev/null &&
    ! grep -q "/run/openmrc-fabrics/$prefix" /proc/self/mounts
}
wires() { pgrep -f "^mrc_fabric wire $1\$" || true; }  # wires FABRIC: process ids

listen() {  # listen NAME HOST COUNT OPTION...: for at most so many; result in NAME.out
  local name=$1 host=$2
  shift 2
  rm -f "$work/$name.out"
  start "$name" "${fabric[@]}" exec "$demo" "$host" -- python3 "$probe" receive "$@"
  listener=$pid
  until_true 10 grep -qs ready "$work/$name.out" || fail "$name: does not listen"
}
heard() {  # all is sent: the listener ends when nothing more comes
  kill -TERM "$listener" 2>/dev/null || true
  exit_code "$listener" 20
}
counted() { sed -n "s/^$2 //p" "$work/$1.out"; }  # counted NAME WHAT

send_plain() { tool exec "$demo" h0 -- python3 "$probe" send fd00:1::1 "$@"; }
send() { send_plain --inner fd00:1::2 "$@"; }  # send DESTINATION OPTION...: from h0 on a route
route() { echo "fcbb:0:1${1}0$3:2${1}0$2:3${1}$((1 - $3))0::"; }  # route PLANE UPLINK FROM_T0

port_value() {  # port_value DIRECTION FIELD: of `show --json`
  tool show "$demo" --json | jq -r --arg port "$1" --arg field "$2" '
    .ports[] | select(.direction == $port) | .. | objects | select(has($field))[$field]'
}
between() { (($1 <= $2 && $2 <= $3)); }  # between LEAST VALUE MOST
