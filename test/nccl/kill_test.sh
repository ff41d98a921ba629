#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One of eight ranks dies by SIGKILL at a random moment, set-up included: all others get an error
# and end by themselves, although only two of them are its neighbours. 20 times, or 50.
#
# Within twice the configured time on a quiet machine; a busy one gets a minute. The test tells what
# it measured.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"

seconds=2  # after which a silent peer counts as dead: seven times 1.024 us * 2^18
export NCCL_MRC_TIMEOUT=18 NCCL_MRC_RETRY_CNT_LINEAR=6 NCCL_MRC_RETRY_CNT_EXP=0
kills=20
if [[ $scope == long ]]; then kills=50; fi
if sanitized "$nccl_perf"; then kills=2; fi
worst=0
for ((i = 0; i < kills; ++i)); do
  rank=$((RANDOM % 8)) after=$((RANDOM % 800))
  start kill "$nccl_perf" --ranks 8 --channels 1 --size 1M --warmup 0 --repetitions 1 \
    --iterations 100000000 --quiet --patience 60s --kill "$rank@${after}ms" \
    --json "$work/kill.json"
  exit_code "$pid" 100
  expect "rank $rank killed after $after ms: the exit status" [ "$code" = 3 ]
  took=$(python3 - "$work/kill.json" <<'PY'
import json, sys
end = json.load(open(sys.argv[1]))["end"]
killed = end["kill"]
if not killed:
    sys.exit(print("bad: the ranks had ended before"))
others = [r for i, r in enumerate(end["ranks"]) if i != killed["rank"]]
bad = [r for r in others if r["late"] or r["status"] != 3]
print(f"bad {bad}" if bad else f"{max(r['seconds'] for r in others) - killed['seconds']:.3f}")
PY
  )
  [[ $took != bad* ]] || fail "rank $rank killed after $after ms: $took"
  worst=$(python3 -c "print(max($worst, $took))")
done
say "$kills kills: the last rank ended at most $worst s later (time-out $seconds s)"
