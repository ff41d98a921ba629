#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts with three planes connect through the NCCL plugin while planes that their handles name
# are dead, at either host and at both: any that is left will do, over IPv4 and IPv6.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"
unset NCCL_SOCKET_IFNAME  # planes are named
two_hosts_at_switch 3
subsets=(0 1 2 '0 1' '0 2' '1 2')
if ! full || sanitized "$nccl_perf"; then subsets=(0 '1 2'); fi

run() {  # run PLANES CASE: all_reduce between the hosts, every byte checked
  collectives "${1%%[.:]*}-$2" --netns "$a,$b" --env NCCL_DEBUG=WARN --env 0:MRC_PLANES="$1" \
    --env 1:MRC_PLANES="$(at_second "$1")" --collective all_reduce --size 64K --warmup 0 \
    --repetitions 1 --iterations 2
}
for planes in "$four" "$six"; do
  say "links that are down: $planes"
  for dead in "${subsets[@]}"; do links_down "$dead" run "$planes"; done
  say 'others at the one host than at the other'
  links down 1 0
  links down 2 1
  run "$planes" mixed
  links up 1 0
  links up 2 1
done

say 'planes that neither host finds dead'
switches() {  # switches STATE PLANE...
  local state=$1 plane
  shift
  for plane; do ip -n "$switch" link set "br$plane" "$state"; done
}
for planes in "$four" "$six"; do
  for dead in "${subsets[@]}"; do
    # shellcheck disable=SC2086  # several words
    switches down $dead
    run "$planes" "hole-${dead/ /}"
    # shellcheck disable=SC2086
    switches up $dead
  done
done

say 'of two planes one'
for planes in "${four%,*}" "${six%,*}"; do
  for dead in 0 1; do links_down "$dead" run "$planes"; done
done
