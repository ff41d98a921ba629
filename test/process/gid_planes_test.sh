#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts with three planes, each a subnet of its own, connect by GID while planes are dead: any
# that works will do, whichever side knows of it, over IPv4 and IPv6.
. "$(dirname "${BASH_SOURCE[0]}")/gid_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
two_hosts_at_switch 3
export MRC_PEER=openmrc MRC_LOG=info

# shellcheck disable=SC2034  # used by name
hosts() {  # hosts PLANES FAULTS_A FAULTS_B: what runs on the hosts, in $one and $two
  one=(ip netns exec "$a" env MRC_PLANES="$1" MRC_FAULTS="$2")
  two=(ip netns exec "$b" env MRC_PLANES="$(at_second "$1")" MRC_FAULTS="$3")
}

all_well() {  # all_well PLANES CASE
  hosts "$1" '' ''
  gid_pair "${1%%[.:]*}-$2" 20 one two
}
say 'links that are down, at either host and at both'
for dead in 0 1 2 '0 1' '0 2' '1 2'; do links_down "$dead" all_well "$four"; done
for dead in 0 '0 1' '1 2'; do links_down "$dead" all_well "$six"; done

say 'one host finds plane 0 dead, the other does not, and neither'
hosts "$four" 'plane=0,down' ''
gid_pair down-here 20 one two
hosts "$four" '' 'plane=0,down'
gid_pair down-there 20 one two
hosts "$four" 'plane=0,blackhole' ''
gid_pair hole-here 20 one two
expect_text "$work/hole-here-a.err" 'found by plane'
hosts "$six" 'plane=0,blackhole;plane=1,blackhole' ''
gid_pair hole-six 20 one two

say 'datagrams'
gid_connect=$build/examples/datagrams
need_program "$gid_connect"
hosts "$four" '' ''
links down 1 0
gid_pair datagrams-one 20 one two
links up 1 0
hosts "$four" '' 'plane=0,blackhole'
gid_pair datagrams-hole 20 one two
hosts "$six" 'plane=0,blackhole' ''
gid_pair datagrams-six 20 one two
