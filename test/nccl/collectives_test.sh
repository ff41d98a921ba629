#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NCCL's collectives through the plugin's table: all of them, with 2, 4 and 8 ranks, over several
# planes, with losses, through every version of the interface. Every byte is checked.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"

largest=1500000 ranks_list='2 4 8' versions='8 9 10 11 12' losses='0.001 0.01' lossy_sizes=64K,4M
# Threads and memory are the same for other numbers.
if sanitized "$nccl_perf"; then
  largest=300000 ranks_list=4 versions='10 12' losses=0.01 lossy_sizes=64K,300000
fi
quick=(--collective all --size "4,1000,64K,$largest" --warmup 0 --repetitions 1 --iterations 2)
for ranks in $ranks_list; do
  say "$ranks ranks"
  collectives "ranks$ranks" --ranks "$ranks" "${quick[@]}"
done

say 'four planes'
MRC_PLANES=loopback:4 collectives planes --ranks 3 "${quick[@]}"
say 'a NIC per plane'
MRC_PLANES=loopback:2 MRC_NCCL_MERGE=none collectives nics --ranks 2 "${quick[@]}"

stats=()
for rank in 0 1 2 3; do stats+=(--env "$rank:NCCL_MRC_STATS=$work/stats$rank.json"); done
for loss in $losses; do
  say "loss of $loss"
  rm -f "$work"/stats*.json
  MRC_PLANES=loopback:2 MRC_FAULTS="loss=$loss" collectives "loss$loss" --ranks 4 "${stats[@]}" \
    --collective all_reduce,all_to_all --size "$lossy_sizes" --warmup 0 --repetitions 1 \
    --iterations 2
  expect 'packets were lost' \
    [ "$(cat "$work"/stats[0-3].json | json /dev/stdin retransmits | total)" -gt 0 ]
done

for api in $versions; do
  say "version $api of the interface"
  # NCCL never finalises plugins of older versions: what these hold then is no leak.
  ASAN_OPTIONS=${ASAN_OPTIONS-}:detect_leaks=$((api > 10)) \
    collectives "api$api" --api "$api" --ranks 2 "${quick[@]}"
done

if sanitized "$nccl_perf"; then exit; fi  # no code of the plugin
say 'the same over TCP, which the benchmarks compare with'
collectives tcp --net socket --ranks 4 "${quick[@]}"
collectives threads --net socket --sockets 2 --threads 2 --ranks 2 "${quick[@]}"
