# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of mrc_fabric share, on top of lib.sh: the demo fabric under a prefix of their own,
# packets through it. Source it first. What it makes goes with the test.
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/test/process/lib.sh"
mrc_fabric=$build/tools/mrc_fabric
need_program "$mrc_fabric"
((EUID == 0)) || skip 'network namespaces need root'
for program in ip python3; do
  command -v $program >/dev/null || skip "$program is not installed"
done
[[ -e /proc/sys/net/ipv6/conf/all/seg6_enabled ]] || skip 'the kernel has no SRv6'
ip netns add "mrc-try-$$" 2>/dev/null || skip 'network namespaces can not be made here'
ip netns del "mrc-try-$$"

prefix=t$$
fabric=("$mrc_fabric" --prefix "$prefix")
probe=$source_dir/test/support/fabric_probe.py
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
  tool show "$demo" --json | awk -v port="\"$1\"," -v field="\"$2\":" '
    $1 == "\"direction\":" { here = $2 == port }
    here && $1 == field { gsub(/[",]/, ""); print $2 }'
}
between() { (($1 <= $2 && $2 <= $3)); }  # between LEAST VALUE MOST
