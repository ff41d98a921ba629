#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What NCCL's log says of switches that fail and return, in a fabric with two paths for each plane:
# a T1 (half of the paths of a plane), a T0 (a host's link), all T1s of a plane, and of all planes.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"
. "$source_dir/test/process/srv6_lib.sh"

fabric_up '{ "name": "demo", "planes": 2, "t0": 2, "t1": 2, "hosts": 2 }'
start ranks "$nccl_perf" --json "$work/ranks.json" --patience 60s \
  --netns "$prefix-demo-h0,$prefix-demo-h1" --env "MRC_FABRIC=$fabric_file" \
  --env 0:MRC_HOST=h0 --env 1:MRC_HOST=h1 --env NCCL_SOCKET_IFNAME=p --env NCCL_DEBUG=WARN \
  --env MRC_NCCL_OUTAGE=600s --collective all_reduce --size 64K --warmup 0 --repetitions 1 \
  --iterations 100000000

lines() { cat "$work"/ranks.*; }
said() { lines | grep_all -E "WARN NET/MRC : mrc0: .*$1"; }
until_true 30 grows 0 || fail 'no traffic'
! said . || fail 'a line before anything has failed'

fails() {  # fails WHAT LINE COMMAND...: of mrc_fabric
  say "$1 fails"
  fabric "${@:3}"
  until_true 5 said "$2" || fail "$1 fails: no line '$2'"
}
returns() {
  say "$1 returns"
  fabric "${@:3}"
  until_true 5 said "$2" || fail "$1 returns: no line '$2'"
}
fails 'a T1' 'plane 1 p1 [0-9a-f:]*: 1 of 2 paths does not work \(path 0\); 3 of 4 paths are left' \
  switch p1t1-0 down
returns 'the T1' 'plane 1 p1 [0-9a-f:]*: all 2 paths work again' switch p1t1-0 up
fails 'a T0' 'plane 0 p0 [0-9a-f:]* is down; 1 of 2 planes is left' switch p0t0-1 down
returns 'the T0' 'plane 0 p0 [0-9a-f:]* is up again' switch p0t0-1 up
fabric switch p0t1-0 down
fails 'all T1s of a plane' \
  'plane 0 p0 [0-9a-f:]*: none of 2 paths works; 2 of 4 paths are left in all planes' \
  switch p0t1-1 down
fabric switch p1t1-0 down
fails 'all T1s' 'nothing arrives at .* over any path: traffic there waits' \
  switch p1t1-1 down
fabric switch p1t1-0 up
returns 'some T1s' 'packets arrive again at ' switch p1t1-1 up
fabric switch p0t1-0 up
returns 'the other T1s' 'plane 0 p0 [0-9a-f:]*: all 2 paths work again' switch p0t1-1 up
until_true 30 grows 0 || fail 'traffic does not go on'
interrupt "$pid" 60
