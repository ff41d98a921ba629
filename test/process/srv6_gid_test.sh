#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Connecting by GID, QPN and PSN over a source-routed fabric; datagrams over it.
. "$(dirname "${BASH_SOURCE[0]}")/srv6_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/gid_lib.sh"
fabric_up "$source_dir/tools/fabrics/demo.json"
# shellcheck disable=SC2034  # used by name
h0=("$mrc_fabric" exec --prefix "$prefix" "$fabric_file" h0 --) \
  h1=("$mrc_fabric" exec --prefix "$prefix" "$fabric_file" h1 --)

say 'two hosts: all planes and paths, found by an address in plane 0'
gid_pair hosts 300 h0 h1
expect 'the GID' [ "$(gid_of hosts-b)" = fd00:1::2 ]
expect_text "$work/hosts-a.out" 'over 4 planes, 16 paths'

say 'two processes of one host'
gid_pair same 300 h0 h0

say 'the plane of the GID is a black hole: the others are asked'
MRC_FAULTS='plane=0,blackhole' gid_pair hole 100 h0 h1

say 'an address that is not in the fabric'
gid_refused 'fd00:77::1 5 6' 'GID fd00:77::1: no host of fabric' 'add the peer to it' -- "${h0[@]}"

say 'datagrams: by the plane of the GID, and between two processes of one host'
gid_connect=$build/examples/datagrams
need_program "$gid_connect"
gid_pair datagrams 300 h0 h1
expect_text "$work/datagrams-a.out" 'over 4 planes, '
expect 'few are lost' few_lost "$work/datagrams-a.out"
gid_pair datagrams-same 300 h0 h0
