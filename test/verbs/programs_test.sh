#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs of Debian, unmodified, with the verbs shim: what they say of the device, and perftest
# between two processes, each program once; in all variants where scripts/check --full runs it.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"
need_tool ibv_devinfo ib_write_bw

say 'ibv_devices, ibv_devinfo'
"$mrcrun" ibv_devices >"$work/devices.out" 2>"$work/devices.err"
grep -Eq '^[[:space:]]+mrc0[[:space:]]+02[0-9a-f]{14}$' "$work/devices.out" || fail 'no device'
grep -q '^mrcrun: verbs device mrc0 over UDP on loopback:2 ' "$work/devices.err" || fail 'no line'
"$mrcrun" --quiet ibv_devinfo -v >"$work/devinfo.out" 2>"$work/devinfo.err"
for line in 'state:.*PORT_ACTIVE' 'active_mtu:.*4096' 'link_layer:.*Ethernet' \
  'GID.*::ffff:127.0.0.1, RoCE v2' 'gid_tbl_len:.*1'; do
  grep -q "$line" "$work/devinfo.out" || fail "ibv_devinfo does not say $line"
done
[[ ! -s $work/devinfo.err ]] || fail 'something on standard error'

say 'without address that peers could use there is no device, and a reason'
if unshare -Urn true 2>/dev/null; then
  MRC_PLANES= timeout 100 unshare -Urn "$mrcrun" --quiet ibv_devinfo \
    >"$work/alone.out" 2>&1 && fail 'ibv_devinfo succeeded' || true
  grep -q 'no default route.*set MRC_PLANES' "$work/alone.out" || fail 'no reason'
fi

say 'perftest'
pair bw 60 ib_write_bw -n 1000
pair all 100 ib_write_bw -n 20 -a
expect 'every size was measured' [ "$(lines all)" -eq 23 ]
pair latency 60 ib_write_lat -n 200
if full; then
  pair both 60 ib_write_bw -n 500 -b
  pair many 60 ib_write_bw -n 300 -q 8
  pair list 60 ib_write_bw -n 320 -l 4
  pair moderated 60 ib_write_bw -n 500 -Q 16
  pair unreliable 60 ib_write_bw -n 500 -c UC
  pair timed 60 ib_write_bw -D 1
fi

say 'SEND, READ, atomics'
for tool in ib_send_bw ib_read_bw ib_atomic_bw; do pair "$tool" 60 "$tool" -n 500; done
for tool in ib_send_lat ib_read_lat ib_atomic_lat; do pair "$tool" 60 "$tool" -n 100; done
if full; then
  pair send_all 100 ib_send_bw -n 20 -a
  pair read_all 100 ib_read_bw -n 20 -a
  pair send_srq 60 ib_send_bw -n 500 --use-srq
  pair send_events 60 ib_send_bw -n 500 -e
  pair send_uc 60 ib_send_bw -n 500 -c UC
  pair swap 60 ib_atomic_bw -n 300 -A CMP_AND_SWAP
  pair read_many 60 ib_read_bw -n 200 -q 8
fi

say 'ping-pong of libibverbs: its own examples'
pingpong rc ibv_rc_pingpong -g 0
if full; then
  pingpong rc-e ibv_rc_pingpong -g 0 -e
  pingpong rc-N ibv_rc_pingpong -g 0 -N
fi
pingpong srq ibv_srq_pingpong -g 0
pingpong uc ibv_uc_pingpong -g 0

say 'GID index 3, as scripts for network cards pass it'
pair index3 60 ib_write_bw -n 300 -x 3
pingpong index3 ibv_rc_pingpong -g 3

# says_why NAME REASON TOOL OPTION...: a tool that can't work says why, once, without being asked.
says_why() {
  local name=$1 reason=$2
  shift 2
  two_processes "$name" 20 "$@"
  ((status != 0)) || fail "$*: succeeded"
  wait "$server" || true
  [[ $(cat "$work/$name".*.out | grep -c "$reason") -ge 1 ]] || fail "$*: no reason"
  [[ $(grep -c '^openmrc:' "$work/$name.client.out") -le 1 ]] || fail "$*: said more than once"
}
say 'what is refused says why: an index that there is not, a peer by LID'
says_why index7 'GID index 7: there is one GID; indices 0 to 3 name it' ib_write_bw -F -x 7
says_why lid 'address without GRH: RoCE names peers by GID, not by LID' ibv_rc_pingpong

say 'with losses, corruption, and a plane that goes and comes'
losses=(0.01)
if full; then losses+=(0.001); fi
for loss in "${losses[@]}"; do
  for tool in ib_{write,send,read,atomic}_bw; do
    MRC_FAULTS=loss=$loss pair "$tool-$loss" 60 "$tool" -n 500
  done
  if ! full; then continue; fi
  for tool in ib_{write,send,read,atomic}_lat; do
    MRC_FAULTS=loss=$loss pair "$tool-$loss" 60 "$tool" -n 500
  done
done
MRC_FAULTS=corrupt=0.01 pair corrupt 60 ib_write_bw -n 1000
MRC_FAULTS='plane=1,down@500ms-1500ms' pair plane 60 ib_write_bw -D 3

say 'several lanes underneath'
MRC_LANES=2 pair lanes 60 ib_write_bw -n 500 -q 4

say 'a device node for those that look for one'
"$mrcrun" --quiet python3 -c 'import os; assert os.access("/dev/infiniband/mrc0", os.R_OK)' ||
  say '(python3 does not use access() here)'
say 'mistakes of mrcrun'
! "$mrcrun" 2>"$work/usage.err" || fail 'mrcrun without command succeeded'
grep -q '^Usage: mrcrun' "$work/usage.err" || fail 'no usage'
! MRC_VERBS=rxe0 "$mrcrun" true 2>"$work/rdma.err" || fail 'made a device of RDMA devices'
grep -q 'MRC_VERBS is set' "$work/rdma.err" || fail 'the message does not name MRC_VERBS'
! MRC_VERBS_DIR=/nowhere "$mrcrun" true 2>"$work/nowhere.err" || fail 'no library, and it went on'
grep -q 'MRC_VERBS_DIR' "$work/nowhere.err" || fail 'no remedy'
