#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_perf with each kind of fault: slower perhaps, but no byte is wrong and no queue pair fails.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"

run() {  # run NAME SCHEDULE OPTION...
  local name=$1 schedule=$2
  shift 2
  say "$schedule: every byte arrives"
  checked_run "$name" --planes 4 --size 64K --duration 400ms --fault "$schedule" "$@"
}
run random 'loss=0.02;duplicate=0.02;reorder=0.02;corrupt=0.02;ecn=0.05;path=1,loss=0.1'
run trims 'trim=0.02;trim_last_hop=0.02;delay=300us,jitter=300us' --test write_imm \
  --option trim=on --qps 4
run planes 'plane=1,blackhole@50ms-200ms;plane=2,down@100ms-200ms;plane=3,delay=1ms'

say 'faults of the environment count for the process that has them'
MRC_FAULTS=loss=0.05 checked_run environment --planes 2 --size 64K --iters 300
expect 'loss leads to retransmissions' \
  [ "$(json "$work/environment.json" retransmits | head -n 1)" -gt 0 ]
