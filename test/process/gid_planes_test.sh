#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two hosts with three planes, each a subnet of its own, connect by GID while planes are dead: any
# that works will do, whichever side knows of it, over IPv4 and IPv6.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/gid_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/switch_lib.sh"
two_hosts_at_switch 3
export MRC_PEER=openmrc MRC_LOG=info

# shellcheck disable=SC2034  # used by name
hosts() {  # hosts PLANES FAULTS_A FAULTS_B: what runs on the hosts, in $one and $two
  one=(ip netns exec "$a" env MRC_PLANES="$1" MRC_FAULTS="$2")
  two=(ip netns exec "$b" env MRC_PLANES="$(at_second "$1")" MRC_FAULTS="$3")
}

dead_planes() {  # dead_planes PLANES PLANE...: at the first host, at both, at the second
  local planes=$1 name
  shift
  name=${planes%%[.:]*}$(printf %s "$@")
  hosts "$planes" '' ''
  links down 1 "$@"
  gid_pair "$name-one" 20 one two
  links down 2 "$@"
  gid_pair "$name-both" 20 one two
  links up 1 "$@"
  gid_pair "$name-two" 20 one two
  links up 2 "$@"
}
say 'links that are down, at either host and at both'
for dead in 0 1 2 '0 1' '0 2' '1 2'; do
  # shellcheck disable=SC2086  # several words
  dead_planes "$four" $dead
done
dead_planes "$six" 0
dead_planes "$six" 0 1
dead_planes "$six" 1 2

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
