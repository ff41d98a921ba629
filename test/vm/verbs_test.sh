#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154
# verbs_test.sh: devices of option verbs on real RDMA devices, by UD alone and with placement (UC):
# every byte right while NICs, addresses, devices and switch ports fail, memory that nobody writes
# to behind a completion, and clear errors.
vm_options=(--nics 4 --timeout 1000)
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
perf=$MRC_BUILD_DIR/bench/mrc_perf guard=$MRC_BUILD_DIR/test/vm/verbs_guard
control_port=18700
all=  # checks that take long for what they find
if [[ ${MRC_TEST_SCOPE-} == long ]]; then all=yes; fi

# perf FROM TO ARGUMENT...: mrc_perf between two lists of devices; its report is $work/perf.
perf() {
  local from=$1 to=$2 server status=0
  shift 2
  control_port=$((control_port + 1))
  timeout 150 "$perf" --verbs "$to" --port $control_port --json "$work/server" >"$work/log" 2>&1 &
  server=$!
  until_true 20 listening $control_port || fail 'mrc_perf does not listen'
  timeout 150 "$perf" --verbs "$from" --port $control_port --size 64K --check --quiet \
    --give-up 100s --json "$work/perf" "$@" 127.0.0.1 || status=$?
  wait $server || status=$?
  ((status == 0)) || { tail -n 5 "$work/log" && fail "mrc_perf ended with status $status"; }
  [[ $(jq '.results[0].check_errors' "$work/perf") == 0 ]] || fail 'bytes differ'
}
sent() { jq ".device.planes[0].port.$1" "$work/perf"; }

plain() {  # plain MODE: on for placement
  local seconds
  for seconds in 1 5 20; do  # a busy machine needs longer until the first packets are placed
    perf rxe1 rxe2 --duration "${seconds}s" --option placement="$1"
    if [[ $1 == off ]] || (($(sent tx_placed) > 100)); then break; fi
  done
  if [[ $1 == on ]]; then
    (($(sent tx_placed) > 100)) || fail "$(sent tx_placed) packets placed"
  else
    (($(sent tx_placed) == 0)) || fail "$(sent tx_placed) packets placed by UD"
  fi
}
with_loss() {
  lose 1 1
  lose 2 1
  perf rxe1 rxe2 --duration 2s --option placement="$1"
  (($(jq '.results[0].retransmits' "$work/perf") > 0)) || fail 'nothing was lost'
}
both_ways() { perf rxe1 rxe2 --bidirectional --qps 8 --duration 1s --option placement="$1"; }

# once_flowing COMMAND...: runs COMMAND when rxe1 has begun to send.
once_flowing() {
  local begin
  begin=$(packets_from 1)
  until_true 100 sent_since "$begin" || fail 'no data flow'
  sleep 1
  "$@"
}
sent_since() { (($(packets_from 1) > $1 + 1000)); }

# break_later COMMAND...: the same, beside what follows; broken_since waits for it.
break_later() {
  (once_flowing "$@") >"$work/breaker" 2>&1 &
  breaker=$!
  # It must not break the next check.
  trap 'kill "$breaker" 2>/dev/null || true; for n in 1 2 3 4; do nic_up $n; wire_up $n; done' EXIT
}
broken_since() { wait "$breaker" || fail "$(cat "$work/breaker")"; }

# broken MODE COMMAND...: runs COMMAND while data flow, and data flow again afterwards. What waits
# for the outage to end does so in growing intervals, and a busy machine takes its time: then once
# more, for longer.
broken() {
  local mode=$1 seconds
  shift
  for seconds in 12 40 120; do
    break_later "$@"
    perf rxe1 rxe2 --duration "${seconds}s" --timeline "$work/timeline" --option placement="$mode"
    broken_since
    if flows_at_end; then return; fi
  done
  cat "$work/timeline" && fail 'no data in the last five seconds'
}
flows_at_end() {
  python3 - "$work/timeline" <<'PY'
import csv, sys
rows = [r for r in csv.DictReader(line for line in open(sys.argv[1]) if not line.startswith("#"))]
value = next(k for k in rows[0] if "gbps" in k)
time = next(k for k in rows[0] if k.startswith("t") or "time" in k)
last = max(float(r[time]) for r in rows)
sys.exit(sum(float(r[value]) for r in rows if float(r[time]) > last - 5) <= 0)
PY
}
down_and_up() { nic_down "$1" && sleep "${2:-1}" && nic_up "$1"; }  # down_and_up N [SECONDS]
wire_down_and_up() { wire_down "$1" && sleep 1 && wire_up "$1"; }
address_goes() { address_delete "$1" && sleep 0.5 && address_add "$1"; }
device_goes() { device_delete "$1" && sleep 0.3 && device_add "$1"; }

two_planes() {
  break_later down_and_up 1 2
  perf rxe1,rxe2 rxe3,rxe4 --duration 6s
  broken_since
  (($(jq '.device.planes[1].port.tx_packets' "$work/perf") > 1000)) || fail 'plane 1 stood still'
}

source_ports_differ() {
  local ports
  capture_start 1
  perf rxe1 rxe2 --duration 1s --option placement="$1"
  capture_stop 1
  ports=$(source_ports 1 1 | wc -l)
  ((ports >= 16)) || fail "$ports UDP source ports for 16 paths"
}

# guard ARGUMENT...: verbs_guard; its report is $work/guard.
guard() { timeout 170 "$guard" "$@" >"$work/guard" || { cat "$work/guard" && return 1; }; }
guarded() { jq ".receiver.$1" "$work/guard"; }
nothing_behind_completions() {
  keep_order
  faults 2 delay 2ms loss 1%  # without jitter, which would reorder
  faults 1 delay 1ms loss 1%
  guard --messages 5000 --qps 4 --size 4096 --faults 'loss=0.01'
  cat "$work/guard"
  (($(guarded rx_placed) > 10000)) || fail "$(guarded rx_placed) packets were placed"
  (($(guarded peers_refused) == 0)) || fail 'moved to UD'
}
noticed() {  # a network that duplicates and reorders
  duplicate 2 5
  guard --messages 500 --qps 2 --size 4096
  (($(guarded peers_refused) == 1 && $(guarded late_writes) > 0)) ||
    fail "refused $(guarded peers_refused), late $(guarded late_writes)"
}

refused() {  # refused TEXT DEVICE: a device of that name fails, and says so
  timeout 200 "$guard" --from "$2" --messages 1 >"$work/refused" 2>&1 && fail 'it works'
  grep -qF -- "$1" "$work/refused" || fail "$(tail -n 1 "$work/refused")"
}
without_locked_memory() {
  (ulimit -l 64 && timeout 200 setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$guard" \
    --messages 1) >"$work/refused" 2>&1 && fail 'it works'
  grep -qF 'raise RLIMIT_MEMLOCK' "$work/refused" || fail "$(tail -n 1 "$work/refused")"
}
on_a_nic_that_is_down() {
  nic_down 1
  until_true 10 port_is 1 DOWN || fail 'the port stays active'
  refused 'is its network interface up?' rxe1
}

# nccl CASE: the NCCL plugin's conformance driver, both sides on rxe1, or two processes.
nccl() {
  MRC_VERBS=rxe1 MRC_TEST_NCCL_SCALE=20 timeout 100 "$MRC_BUILD_DIR/test/test_nccl_conformance" \
    -tc="$1" >"$work/nccl" 2>&1 || { tail -n 30 "$work/nccl" && return 1; }
  grep -q '1 passed' "$work/nccl" || fail 'there is no such case'
}

bare_verbs() {  # bare_verbs MODE: the benchmark, on a wire that loses nothing, and some of it
  local percent report
  for percent in 0 5; do
    lose 2 $percent
    report=$(timeout 60 "$MRC_BUILD_DIR/bench/bare_verbs" "$1" --seconds 1 --json)
    jq -e ".sent > 100 and (.lost > 0) == ($percent > 0)" <<<"$report" || fail "$report"
  done
}

no_faults_left() { for n in 1 2 3 4; do no_faults $n; done; }

for mode in off on; do
  check "placement $mode: every byte arrives" plain $mode
  if [[ $mode == off && ! $all ]]; then continue; fi
  check "placement $mode: 1 % loss in both directions" with_loss $mode
  no_faults_left
  check "placement $mode: source ports differ" source_ports_differ $mode
done
check 'receiver: NIC down and up' broken on down_and_up 2
check 'nothing is written behind a completion' nothing_behind_completions
no_faults_left
check 'a network that duplicates is noticed' noticed
no_faults_left
if [[ -x $MRC_BUILD_DIR/test/test_nccl_conformance ]]; then
  check 'NCCL: two processes' nccl 'Two processes exchange random messages'
fi
if [[ $all ]]; then  # test_verbs_port has these, too, with devices of its own, or any plane
  for mode in off on; do check "placement $mode: both ways, 8 queue pairs" both_ways $mode; done
  for mode in ud uc; do check "bare_verbs $mode: what the wire loses" bare_verbs $mode; done
  no_faults_left
  check 'two planes, one goes down and up' two_planes
  check 'device deleted and added' broken on device_goes 2
  check 'sender: NIC down and up' broken on down_and_up 1
  check 'switch port down and up' broken on wire_down_and_up 2
  check 'address deleted and added' broken on address_goes 2
  check 'NCCL: a killed peer' nccl 'A peer that is killed is a remote error*'
  check 'NCCL: connections' nccl 'Connections are set up in any interleaving'
  check 'NCCL: memory' nccl 'Memory is registered and deregistered while messages go'
fi
check 'no such device' refused 'there is no RDMA device rxe9' rxe9
check 'no such port' refused 'has no port 7' rxe1:7
check 'no such address' refused 'does not have the address 10.9.9.9' rxe1@10.9.9.9
check 'no such form' refused 'is not the number of a port' rxe1:x
check 'too little locked memory' without_locked_memory
check 'NIC down from the start' on_a_nic_that_is_down
nic_up 1
finish
