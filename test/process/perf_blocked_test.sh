#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_perf between hosts that TCP joins and UDP does not: what is lost, and in which direction, is
# said at once. A server without --planes is refused.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
need_program "$mrc_perf"
unset MRC_UDP_PORT  # nobody else is in these networks
two_hosts 1
control_link

both() {  # both NAME SERVER_OPTION...: a server and a client
  name=$1
  start "$name-server" ip netns exec "$b" "$mrc_perf" --quiet --port 18515 "${@:2}"
  server=$pid
  until_listening 18515 ip netns exec "$b"
  start "$name" ip netns exec "$a" "$mrc_perf" 10.8.0.2 --port 18515 --quiet \
    --planes 10.9.0.1 --size 4K --iters 10
  client=$pid
}
ends() {  # both, with whatever status
  kill -INT "$client"
  exit_code "$client" 30
  exit_code "$server" 30
}
says() {  # says NAME TEXT: on standard error, three seconds after the start or so
  until_true 20 grep -qF -- "$2" "$work/$1.err" || fail "$1 does not say '$2'"
}
# What is sent to that address goes to a station that does not exist.
block() { ip -n "$1" neighbour replace "$2" lladdr 02:00:00:00:00:09 dev p0 nud permanent; }
pass() { ip -n "$1" neighbour del "$2" dev p0; }

say 'nothing is blocked'
both open --planes 10.9.0.2
exit_code "$client" 30 0
exit_code "$server" 30 0
for n in open open-server; do
  ! grep -q 'TCP reaches' "$work/$n.err" || fail "$n complains"
done

say 'from the client to the server'
block "$a" 10.9.0.2
both there --planes 10.9.0.2
says there "none of this host's packets of MRC arrives there: are UDP ports 4791 and up open there,"
says there-server 'none of its packets of MRC arrives here: are UDP ports 4791 and up open here,'
ends

say 'in both directions'
block "$b" 10.9.0.1
both none --planes 10.9.0.2
says none 'TCP reaches 10.8.0.2 port 18515, but no packet of MRC does, in either direction'
ends

say 'from the server to the client'
pass "$a" 10.9.0.2
both here --planes 10.9.0.2
says here 'none of its packets of MRC arrives here: are UDP ports 4791 and up open here,'
ends
pass "$b" 10.9.0.1

say 'a server without planes'
both bare
exit_code "$client" 30 1
exit_code "$server" 30 1
expect_text "$work/bare.err" 'is on a loopback address' --planes
expect_text "$work/bare-server.err" 'plane 0 here is on a loopback address' --planes
