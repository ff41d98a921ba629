#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes that know only GID, QPN and PSN of each other, on one host and on two.
. "$(dirname "${BASH_SOURCE[0]}")/gid_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"

# shellcheck disable=SC2034  # used by name
plain=(env)

say 'two processes of this host, on its default planes'
gid_pair host 300 plain plain
expect 'one GID' [ "$(gid_of host-a)" = "$(gid_of host-b)" ]

say 'four planes of the loopback, with losses'
MRC_PLANES=loopback:4 MRC_FAULTS=loss=0.02 gid_pair four 300 plain plain
expect_text "$work/four-a.out" 'over 4 planes, 64 paths'

if has_ipv6; then
  say 'IPv6'
  MRC_PLANES=loopback6:2 gid_pair six 300 plain plain
  expect 'the GID' [ "$(gid_of six-a)" = ::1 ]
fi

say 'a line that is none, and a GID that leads nowhere'
gid_refused 'hello there' "'hello there' is not a GID" -- env
gid_refused 'fd00::1 5 6' 'no plane of this device has its IP version' -- env MRC_PLANES=loopback:1
gid_refused '127.0.0.77 5 6' \
  'peer not found: 127.0.0.77, queue pair 5: no OpenMRC device answers' -- \
  env MRC_PEER=openmrc MRC_PLANES=loopback:1

namespaces || { say 'two hosts need network namespaces and root: left out' && exit 0; }
two_hosts 0

say 'a host without any route: the loopback'
alone=(ip netns exec "$a")
gid_pair alone 100 alone alone
expect 'the GID' [ "$(gid_of alone-a)" = 127.0.0.1 ]

say 'two hosts without configuration: their default routes say what the GID is'
join_hosts 1
ip -n "$a" route add default via 10.9.0.2
ip -n "$b" route add default via 10.9.0.1
other=(ip netns exec "$b")
gid_pair hosts 300 alone other
expect 'the GID' [ "$(gid_of hosts-a)" = 10.9.0.1 ]
expect 'the GID' [ "$(gid_of hosts-b)" = 10.9.0.2 ]
late=1.5 gid_pair late 100 alone other

say 'a link-local GID that leads nowhere: messages have its zone'
ip -n "$a" addr add fe80::1/64 dev p0 nodad
gid_refused 'fe80::77 5 6' 'peer not found: fe80::77%p0, queue pair 5: ' \
  'asked by plane 0 to fe80::77%p0' -- ip netns exec "$a" \
  env MRC_PEER=openmrc MRC_PLANES=fe80::1%p0 MRC_CONNECT_TIMEOUT=1s
