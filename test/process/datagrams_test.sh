#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Datagrams between two processes, on one host and on two.
. "$(dirname "${BASH_SOURCE[0]}")/gid_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
gid_connect=$build/examples/datagrams # what gid_pair runs
need_program "$gid_connect"

# shellcheck disable=SC2034  # used by name
plain=(env)

say 'two processes of this host, on its default planes'
gid_pair host 300 plain plain
expect 'few are lost' few_lost "$work/host-a.out"
expect_text "$work/host-b.out" ' 0 lost'

say 'four planes of the loopback, with losses'
MRC_PLANES=loopback:4 MRC_FAULTS=loss=0.02 gid_pair four 200 plain plain

say 'planes with addresses of their own'
MRC_PLANES=127.0.0.1,127.0.0.2 gid_pair own 200 plain plain

if has_ipv6; then
  say 'IPv6'
  MRC_PLANES=loopback6:2 gid_pair six 300 plain plain
  expect 'the GID' [ "$(gid_of six-a)" = ::1 ]
fi

namespaces || { say 'two hosts need network namespaces and root: left out' && exit 0; }
two_hosts 2
# shellcheck disable=SC2034
first=(ip netns exec "$a" env MRC_PLANES=10.9.0.1,10.9.1.1)

say 'two hosts, by the first of two planes and by the second, which nothing else leads to'
# shellcheck disable=SC2034
other=(ip netns exec "$b" env MRC_PLANES=10.9.0.2,10.9.1.2)
gid_pair zero 300 first other
expect 'the GID' [ "$(gid_of zero-b)" = 10.9.0.2 ]
# shellcheck disable=SC2034
other=(ip netns exec "$b" env MRC_PLANES=10.9.1.2)
gid_pair one 300 first other
expect 'the GID' [ "$(gid_of one-b)" = 10.9.1.2 ]
