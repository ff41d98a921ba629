#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Options of nccl_perf: help, errors that tell the remedy, results, Ctrl-C, ranks that die.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"

fails() { refused "$1" "$2" -- "$nccl_perf" "${@:3}"; }  # fails STATUS TEXT OPTION...

say 'help and wrong options'
"$nccl_perf" --help >"$work/help.out"
expect_text "$work/help.out" --collective --size --netns --kill --against --json
expect 'each option begins a line' [ "$(grep -Ec '^  --(api|sockets) ' "$work/help.out")" = 2 ]
fails 2 'must be all, or a list of all_reduce' --collective allreduce
fails 2 'a size from 4 to 1 GiB' --size 3
fails 2 'RANK@TIME' --kill 1
fails 2 'there is no such rank' --kill 2@1s
fails 2 'there is no such rank' --env 2:A=B
fails 2 'there is no such rank' --against socket --against-env 2:A=B
fails 2 'only with --against' --against-env A=B
fails 2 'name a copy' --against mrc
fails 2 'NAME=VALUE' --against socket --against-env A
fails 2 'names 1 namespaces for 2 ranks' --netns a
fails 2 'give both or none' --net socket --threads 2
fails 1 "can't write file" --json /nowhere/at/all
fails 3 "can't enter network namespace 'mrc-none'" --netns mrc-none,mrc-none
fails 3 'no network: plugin nowhere' --net nowhere
fails 3 'listen -> system error' --net socket --congestion nothing
NCCL_SOCKET_IFNAME=nothing fails 3 'NCCL_SOCKET_IFNAME' --net socket

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
fails 3 'ERROR no network' --size 4 --against socket --against-env NCCL_SOCKET_IFNAME=nothing

say 'a variable of one rank'
refused 3 'rank 1: ERROR no network' 'rank 0: ERROR bootstrap: rank 1 is gone' -- \
  "$nccl_perf" --net socket --size 4 --env 1:NCCL_SOCKET_IFNAME=nothing

say 'Ctrl-C'
start endless "$nccl_perf" --ranks 3 --size 64K --iterations 100000000 --json "$work/endless.json"
until_true 30 pgrep -P "$pid" >/dev/null || fail 'no ranks'
until_true 20 catches "$pid" || fail 'it has no handler of SIGINT'
sleep 0.3
interrupt "$pid" 30
expect 'interrupted' [ "$(json "$work/endless.json" interrupted)" = true ]

say 'a rank that is killed'
start killed "$nccl_perf" --net socket --ranks 3 --size 64K --iterations 100000000 \
  --kill 1@300ms --json "$work/killed.json"
exit_code "$pid" 90 3
expect_text "$work/killed.err" 'rank 1: ended by signal 9' 'rank 0: ERROR' 'rank 2: ERROR'
