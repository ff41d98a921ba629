#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_perf between hosts whose addresses a router translates: planes behind it are refused at once,
# with the cause, and others work although TCP is translated.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
need_program "$mrc_perf"
unset MRC_UDP_PORT  # nobody else is in these networks
two_hosts 1
hosts_at_router

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
