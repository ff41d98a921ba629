#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One of eight ranks dies by SIGKILL at a random moment, set-up included: all others get an error
# and end by themselves, although only two of them are its neighbours. 8 times, or 20, or 50.
#
# Within twice the configured time on a quiet machine; a busy one gets a minute. The test tells what
# it measured.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"

seconds=2  # after which a silent peer counts as dead: seven times 1.024 us * 2^18
export NCCL_MRC_TIMEOUT=18 NCCL_MRC_RETRY_CNT_LINEAR=6 NCCL_MRC_RETRY_CNT_EXP=0
kills=8
if full; then kills=20; fi
if [[ $scope == long ]]; then kills=50; fi
if sanitized "$nccl_perf"; then kills=2; fi
worst=0
for ((i = 0; i < kills; ++i)); do
  rank=$((RANDOM % 8)) after=$((RANDOM % 800))
  start kill "$nccl_perf" --ranks 8 --channels 1 --size 1M --warmup 0 --repetitions 1 \
    --iterations 100000000 --quiet --patience 60s --kill "$rank@${after}ms" \
    --json "$work/kill.json"
  exit_code "$pid" 100 3 "rank $rank killed after $after ms"
  took=$(jq -r '.end | .kill as $killed | if $killed then
      (.ranks | to_entries | map(select(.key != $killed.rank).value)) as $others |
      ($others | map(select(.late or .status != 3))) as $bad |
      if $bad == [] then ($others | map(.seconds) | max) - $killed.seconds else "bad \($bad)" end
    else "bad: the ranks had ended before" end' "$work/kill.json")
  [[ $took != bad* ]] || fail "rank $rank killed after $after ms: $took"
  worst=$(jq -n "[$worst, $took] | max")
done
say "$kills kills: the last rank ended at most $worst s later (time-out $seconds s)"
