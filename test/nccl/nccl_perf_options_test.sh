#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Options of nccl_perf: help, errors that tell the remedy, results, Ctrl-C, ranks that die.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"

refused() {  # refused STATUS TEXT OPTION...: exits so, and says so
  local status=$1 text=$2
  shift 2
  start refused "$nccl_perf" "$@"
  exit_code "$pid" 30
  expect "$*: the exit status" [ "$code" = "$status" ]
  expect_text "$work/refused.err" "$text"
}

say 'help and wrong options'
"$nccl_perf" --help >"$work/help.out"
expect_text "$work/help.out" --collective --size --netns --kill --against --json
refused 2 'must be all, or a list of all_reduce' --collective allreduce
refused 2 'a size from 4 to 1 GiB' --size 3
refused 2 'RANK@TIME' --kill 1
refused 2 'there is no such rank' --kill 2@1s
refused 2 'there is no such rank' --env 2:A=B
refused 2 'there is no such rank' --against socket --against-env 2:A=B
refused 2 'only with --against' --against-env A=B
refused 2 'name a copy' --against mrc
refused 2 'NAME=VALUE' --against socket --against-env A
refused 2 'names 1 namespaces for 2 ranks' --netns a
refused 2 'give both or none' --net socket --threads 2
refused 1 "can't write file" --json /nowhere/at/all
refused 3 "can't enter network namespace 'mrc-none'" --netns mrc-none,mrc-none
refused 3 'no network: plugin nowhere' --net nowhere
refused 3 'listen -> system error' --net socket --congestion nothing
NCCL_SOCKET_IFNAME=nothing refused 3 'NCCL_SOCKET_IFNAME' --net socket

say 'results'
"$nccl_perf" --net socket --size 64K..256K --collective all_gather --repetitions 3 --iterations 1 \
  --json "$work/results.json" >"$work/table.out"
expect 'sizes' [ "$(json "$work/results.json" size | xargs)" = '65536 131072 262144' ]
expect 'lines of the table' [ "$(grep -c '^ *all_gather' "$work/table.out")" = 3 ]

say 'two networks take turns'
"$nccl_perf" --net socket --against socket --size 4,64K --repetitions 3 --iterations 2 --check \
  --json "$work/turns.json" >"$work/turns.out"
expect 'sizes' [ "$(json "$work/turns.json" size | xargs)" = '4 4 65536 65536' ]
expect 'lines with a ratio' [ "$(grep -c 'socket, [0-9.]* ([0-9.]* \.\. [0-9.]*)' \
  "$work/turns.out")" = 2 ]
start variable "$nccl_perf" --size 4 --against socket --against-env NCCL_SOCKET_IFNAME=nothing
exit_code "$pid" 60
expect 'the exit status' [ "$code" = 3 ]
expect_text "$work/variable.err" 'ERROR no network'

say 'a variable of one rank'
start variable "$nccl_perf" --net socket --size 4 --env 1:NCCL_SOCKET_IFNAME=nothing
exit_code "$pid" 60
expect 'the exit status' [ "$code" = 3 ]
expect_text "$work/variable.err" 'rank 1: ERROR no network' \
  'rank 0: ERROR bootstrap: rank 1 is gone'

say 'Ctrl-C'
start endless "$nccl_perf" --ranks 3 --size 64K --iterations 100000000 --json "$work/endless.json"
until_true 30 pgrep -P "$pid" >/dev/null || fail 'no ranks'
until_true 20 catches "$pid" || fail 'it has no handler of SIGINT'
sleep 0.3
kill -INT "$pid"
exit_code "$pid" 30
expect 'the exit status' [ "$code" = 130 ]
expect 'interrupted' [ "$(json "$work/endless.json" interrupted)" = true ]

say 'a rank that is killed'
start killed "$nccl_perf" --net socket --ranks 3 --size 64K --iterations 100000000 \
  --kill 1@300ms --json "$work/killed.json"
exit_code "$pid" 90
expect 'the exit status' [ "$code" = 3 ]
expect_text "$work/killed.err" 'rank 1: ended by signal 9' 'rank 0: ERROR' 'rank 2: ERROR'
