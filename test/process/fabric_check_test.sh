#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_ctl check between two hosts of a fabric: what fits, and a link that lets small packets through
# only, which is named, with the size.
. "$(dirname "${BASH_SOURCE[0]}")/fabric_lib.sh"
need_program "$mrc_ctl"

at() { "${fabric[@]}" exec "$demo" "$1" -- "${@:2}"; }  # at HOST COMMAND...
# On a busy machine probes come late, which looks like a loss: repeated, with more patience.
check_says() {  # check_says STATUS TEXT...: h0 of h1, in the end
  local wait=5 end=$((SECONDS + 100))
  while ((SECONDS < end)); do
    code=0
    at h0 "$mrc_ctl" check --wait ${wait}s 'fd00:1::2' >check.out 2>check.err || code=$?
    if [[ $code == "$1" ]] && (expect_text check.out "${@:2}") >/dev/null 2>&1; then return; fi
    if ((wait < 40)); then wait=$((2 * wait)); fi
  done
  cat check.out check.err >&2
  fail "check does not end with status $1 and '${*:2}', but $code"
}

tool up "$demo" >up.out
start listener "${fabric[@]}" exec "$demo" h1 -- "$mrc_ctl" check --listen
until_true 20 grep -qs 'answers checks' listener.out || fail 'h1 does not listen'

say 'all passes'
check_says 0 '28 of 28 paths' 'B packets'

say 'a link whose MTU is too small for data'
ip -n "$prefix-demo-p1t0-0" link set s1 mtu 1500
check_says 1 'link p1t0-0 - p1t1-1: packets of' 'bytes do not pass, small ones do'
