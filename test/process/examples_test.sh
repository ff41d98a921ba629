#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The examples do what they say.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
examples=$build/examples
need_program "$examples/first_program"

say 'first_program: the text comes over'
succeeds success 'hello from the other side' -- "$examples/first_program"

copy() {  # copy NAME FILE: copies it over MRC and compares
  local port
  port=$(free_port)
  rm -f "$work/copy"
  start "$1-receiver" "$examples/copy_file" --port "$port" --output "$work/copy"
  local receiver=$pid
  start "$1" "$examples/copy_file" 127.0.0.1 --port "$port" "$2"
  exit_code "$pid" 100 0 "$1: the sender"
  exit_code "$receiver" 20 0 "$1: the receiver"
  cmp "$2" "$work/copy" || fail "$1: the copy differs"
  expect_text "$work/$1.out" "sha256 $(sha256sum <"$2" | cut -d ' ' -f 1) on both sides"
  expect_text "$work/$1-receiver.out" 'on both sides'
}

if [[ -x $examples/copy_file ]]; then
  head -c 50000001 /dev/urandom >"$work/large"
  head -c 1 /dev/urandom >"$work/byte"
  : >"$work/empty"
  say 'copy_file: 50 MB, one byte, nothing'
  copy large "$work/large"
  copy byte "$work/byte"
  copy empty "$work/empty"
  say 'copy_file: 50 MB over four planes with loss, one plane down for a while'
  MRC_PLANES=loopback:4 MRC_FAULTS='loss=0.01;plane=0,down@20ms-200ms' copy faulty "$work/large"

  say 'copy_file: a file that is not there'
  refused 1 "$work/nothing" 'No such file' -- \
    "$examples/copy_file" 127.0.0.1 --port 9 "$work/nothing"

  say 'copy_file: the sender is killed; the receiver says so and leaves no copy'
  port=$(free_port)
  rm -f "$work/copy"
  start receiver "$examples/copy_file" --port "$port" --output "$work/copy"
  receiver=$pid
  MRC_FAULTS=delay=50ms start sender "$examples/copy_file" 127.0.0.1 --port "$port" "$work/large"
  until_true 20 grep -q '%' "$work/receiver.out" || fail 'the copy does not get going'
  kill -KILL "$pid"
  exit_code "$receiver" 30 1
  expect_text "$work/receiver.err" 'sender is gone'
  expect 'no copy' [ ! -e "$work/copy" ]
else
  say 'copy_file was not built: left out'
fi

say 'event_loop: sleeps while nothing happens, ends when all is said, notices a death'
port=$(free_port)
start loop-receiver "$examples/event_loop" --port "$port"
receiver=$pid
MRC_PLANES=loopback:2 MRC_FAULTS=loss=0.01 start loop "$examples/event_loop" 127.0.0.1 \
  --port "$port" --messages 2000
exit_code "$pid" 60 0
exit_code "$receiver" 20 0 'exit status of the receiver'
expect_text "$work/loop.out" '2000 messages sent'
expect_text "$work/loop-receiver.out" '2000 received'
port=$(free_port)
start loop-receiver "$examples/event_loop" --port "$port"
receiver=$pid
start loop "$examples/event_loop" 127.0.0.1 --port "$port" --messages 100000000
until_true 20 grep -q connected "$work/loop-receiver.out" || fail 'event_loop does not connect'
kill -KILL "$pid"
exit_code "$receiver" 20 1 'exit status after a death'
expect_text "$work/loop-receiver.err" event_loop:

say 'ring_allreduce: four ranks, all sums right, also with loss'
succeeds '4 ranks' 'all sums right' -- \
  "$examples/ring_allreduce" --ranks 4 --count 100001 --iters 3
MRC_PLANES=loopback:2 MRC_FAULTS=loss=0.01 succeeds '3 ranks' 'all sums right' -- \
  "$examples/ring_allreduce" --ranks 3 --count 256K --iters 3

say 'four_lanes: four threads write over one device; also with loss, and with few open files'
succeeds 'lane 3: ' '4 lanes: ' 'every byte right' -- "$examples/four_lanes" --mib 8
MRC_PLANES=loopback:2 MRC_FAULTS=loss=0.01 succeeds '3 lanes: ' 'every byte right' -- \
  "$examples/four_lanes" --mib 2 --lanes 3
(ulimit -n 100 && exec "$examples/four_lanes" --mib 1) >"$work/few.out" 2>"$work/few.err" ||
  fail 'four_lanes with few open files'
expect_text "$work/few.out" 'every byte right'
expect_text "$work/few.err" 'instead of 4' 'ulimit -n'

say 'key_value: all values right, also with loss'
succeeds '3 clients, 300 keys: 900 lookups' 'all values right' -- \
  "$examples/key_value" --clients 3 --keys 300
MRC_PLANES=loopback:2 MRC_FAULTS=loss=0.01 \
  succeeds '5 clients, 50 keys: 250 lookups' 'all values right' -- \
  "$examples/key_value" --clients 5 --keys 50

say 'key_value: without these operations it says so'
MRC_STRICT=1 refused 1 'without option strict' 'not supported' -- "$examples/key_value" --keys 5
