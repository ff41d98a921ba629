#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs of Debian, unmodified, that connect while plane 0 is down, or all planes for a while.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"
need_tool ibv_rc_pingpong ib_send_bw

say 'plane 0 is down all the time: its address is not the GID'
export MRC_FAULTS='plane=0,down@0ms-100s'
"$mrcrun" --quiet ibv_devinfo -v >"$work/devinfo.out" 2>"$work/devinfo.err"
expect_text "$work/devinfo.out" '::ffff:127.0.0.2, RoCE v2'
pingpong rc ibv_rc_pingpong -g 0
pingpong ud ibv_ud_pingpong -g 0
for tool in ib_{write,send,read,atomic}_bw; do pair "$tool" 60 "$tool" -n 300; done

say 'plane 0 is a black hole, and nobody knows'
export MRC_FAULTS='plane=0,blackhole@0ms-100s'
pingpong rc-hole ibv_rc_pingpong -g 0
pair send-hole 60 ib_send_bw -n 300

say 'an outage of the first 1.5 s: of one plane, of all'
for fault in plane=0,down blackhole; do
  MRC_FAULTS=$fault@0ms-1500ms pair "send-$fault" 60 ib_send_bw -n 300
  MRC_FAULTS=$fault@0ms-1500ms pair "write-$fault" 60 ib_write_bw -n 300
done
