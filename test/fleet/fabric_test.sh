#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A fleet between two hosts of a fabric: two NCCL jobs, perftest over the verbs shim and mrc_perf,
# all seen and steered by mrc_ctl at host h0. A plane is drained under load, and captures show that
# nothing of any process uses it. (Links that are denied: process/srv6_deny_test.sh; processes that
# are killed or stopped: process/ctl_test.sh.)
. "$(dirname "${BASH_SOURCE[0]}")/../process/srv6_lib.sh"
mrcrun=$source_dir/verbs_shim/mrcrun
need_program "$mrc_ctl" "$nccl_perf"
[[ -e $build/nccl_plugin/libnccl-net-mrc.so ]] || skip 'the NCCL plugin was not built'
need_tool tcpdump
without NCCL_

fabric_up '{ "name": "demo", "planes": 4, "t0": 2, "t1": 2, "hosts": 2, "link_speed": 0.5 }'
fabric set t0-host rate=200Mbit ecn=40000:140000 trim=200000 >/dev/null
mkdir "$work/sockets"
export MRC_CONTROL=$work/sockets
export MRC_RETRY_EXPONENTIAL=25 MRC_STALL_WARNING=0  # a busy machine is no dead one

ctl() { on h0 "$mrc_ctl" --folder "$work/sockets" --patience 60s "$@"; }
# Both hosts' sockets are in one folder; rules hold for those in the network of mrc_ctl. Of the JSON
# that mrc_ctl prints, d is what h0's devices say, and by(f) is f of each, by program.
ask() {  # ask EXPRESSION OPTION...
  local expression=$1
  shift
  ctl --json "$@" >"$work/ask.json" 2>"$work/ask.err" || return 1
  python3 -c 'import json, sys
d = [x for x in json.load(open(sys.argv[1])) if x["network"] == sys.argv[3] or not sys.argv[3]]
names = sorted(x["program"] for x in d)
print(eval(sys.argv[2]))' "$work/ask.json" "$expression" "${network-}"
}

all_run() {  # all_run WHEN: nothing has ended, and no queue pair has failed
  local one
  for one in "${running[@]}"; do gone "$one" && fail "$1: process $one has ended"; done
  is '{q["state"] for x in d for q in x["answer"]} <= {"RTS", "RTR"}' qps ||
    fail "$1: a queue pair has failed: $(ctl qps)"
}

say 'two NCCL jobs, perftest and mrc_perf'
job() {  # job NAME OPTION...: between the two hosts, until Ctrl-C
  start "$1" "$nccl_perf" --quiet --check --json "$work/$1.json" --patience 600s \
    --netns "$prefix-demo-h0,$prefix-demo-h1" --env "MRC_FABRIC=$fabric_file" \
    --env 0:MRC_HOST=h0 --env 1:MRC_HOST=h1 --env NCCL_SOCKET_IFNAME=p \
    --warmup 0 --repetitions 1 --iterations 100000000 "${@:2}"
  running+=("$pid")
}
running=()
job reduce --collective all_reduce --size 1M
reduce=$pid
job exchange --collective all_to_all --size 512K
exchange=$pid
start_pair perf --size 64K --duration 3600s --check --quiet --give-up 600
perf=$pid perf_server=$server
running+=("$perf" "$perf_server")
programs=(mrc_perf nccl_perf nccl_perf)
perftest=
if command -v ib_write_bw >/dev/null && [[ -e $build/verbs_shim/libibverbs.so.1 ]]; then
  # perftest's own connection is of IPv4, which the fabric does not carry.
  link_hosts
  tool=(env "MRC_VERBS_DIR=$build/verbs_shim" MRC_VERBS_MIN_TIMEOUT=60s "$mrcrun" --quiet
    ib_write_bw -d mrc0 -F -p 18600 -s 65536 -D 2 --run_infinitely)
  start perftest-server "${at_host[@]}" h1 -- "${tool[@]}"
  perftest_server=$pid
  until_listening 18600 on h1
  start perftest "${at_host[@]}" h0 -- "${tool[@]}" 192.0.2.2
  perftest=$pid
  running+=("$perftest" "$perftest_server")
  programs=(ib_write_bw "${programs[@]}")
else
  say 'perftest, or the verbs shim, is not there: left out'
fi
until_true 30 is 'len(d) == 1' list --pid "$perf" || fail 'mrc_perf is not listed'
network=$(ask 'd[0]["network"]' list --pid "$perf")

say 'list, top and paths show all of them'
expected=$(printf ", '%s'" "${programs[@]}")
until_true 60 is "names == [${expected:2}]" list || fail "not all are listed: $(ctl list)"
carried='{p["plane"] for l in x["answer"] for p in l["paths"] if p["packets"] > 100}'
until_true 60 is "all($carried == {0, 1, 2, 3} for x in d)" paths ||
  fail "not all carry data in all planes: $(ctl paths)"
ctl top --rounds 2 --interval 500ms >"$work/top.out" || fail 'top'
ctl list >"$work/list.out" || fail 'list'
for name in "${programs[@]}"; do expect_text "$work/top.out" "$name"; done
for name in "${programs[@]}"; do expect_text "$work/list.out" "$name"; done
traffic_takes_all 'before'

say 'a plane is drained under load: it carries nothing, and nobody fails'
ctl plane 2 down --all >"$work/down.out" 2>"$work/down.err" || fail "$(cat "$work/down.err")"
sleep 1  # queues of the fabric run dry; the peers have been told
capture plane h0 p2 inout
capture plane-others h0 p1 inout
traffic_takes_all 'plane 2 down' but '2.*'
end_captures
expect 'packets in plane 2' [ "$(seen plane)" = 0 ]
expect 'packets in plane 1' [ "$(seen plane-others)" -gt 1000 ]
all_run 'plane 2 down'
ctl plane 2 up --all >"$work/up.out" || fail 'plane up'
traffic_takes_all 'plane 2 up'
all_run 'plane 2 up'

say 'all end well, and every byte was right'
if [[ -n $perftest ]]; then
  kill_off "$perftest"
  kill_off "$perftest_server"
  until_true 20 is 'len(d) == 3' list || fail "a killed process is still there: $(ctl list)"
fi
pid=$perf server=$perf_server
interrupt_pair perf
checked_result perf
holds "$work/perf.json" 'no queue pair failed' 'd["device"]["engine"]["qp_errors"] == 0'
for name in reduce exchange; do
  interrupt "${!name}" 60 130 "$name"
  expect "$name: bytes checked" [ "$(json "$work/$name.json" checked_bytes | total)" -gt 1000000 ]
  ! grep -q ERROR "$work/$name.err" || fail "$name: a rank saw an error"
done
[[ -z $(find "$work/sockets" -name '*.sock*') ]] || fail "left: $(ls "$work/sockets")"
