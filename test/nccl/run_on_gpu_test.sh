#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_on_gpu_test.sh CXX: nccl_plugin/test/run_on_gpu as far as it goes without a GPU. Its ranks are
# run_on_gpu_rank.py, except in the last part, which needs PyTorch.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
here=$source_dir/test/nccl
cxx=${1:-c++}
gpu=$source_dir/nccl_plugin/test/gpu
python=$(command -v python3)
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' || skip 'python3 is older than 3.9'
export PYTHONDONTWRITEBYTECODE=1 TMPDIR=$work GPU_DIR=$gpu FAKE_DIR=$work/ranks
cd "$work"
mkdir ranks

run() {  # run STATUS ARGUMENT...: run_on_gpu ends with that status; output in run.out and run.err
  local expected=$1 status=0
  shift
  "$python" "$gpu/../run_on_gpu" "$@" >run.out 2>run.err || status=$?
  expect "exit status of run_on_gpu $*" [ "$status" = "$expected" ]
}
value() {  # value EXPRESSION: of the newest results, as r
  "$python" -c 'if True:
    import glob, json, sys
    (name,) = glob.glob("out/nccl_gpu*.json")
    r = json.load(open(name))
    parts = {p["name"]: p for p in r["parts"]}
    print(eval(sys.argv[1]))' "$1"
}

say 'the functions, on known data; all files compile'
"$python" "$here/run_on_gpu_test.py" "$gpu" 2>functions.err || fail 'run_on_gpu_test.py'
for file in "$gpu"/*.py "$gpu/../run_on_gpu"; do
  "$python" -c 'import sys; compile(open(sys.argv[1]).read(), sys.argv[1], "exec")' "$file"
done

say 'help, arguments, plan'
run 0 --help
expect_text run.out --plugin --budget --only --rehearse 'Exit status' 77
run 2 --budget 0
expect_text run.err '--budget: must be more than 0 seconds'
run 2 --only 'mrc-*,nothing'
expect_text run.err "no part is called 'nothing'" training-socket lanes
run 2 --set PATH=x
expect_text run.err "'PATH=x' is not NAME=VALUE"
run 2 --plugin a,b.so
expect_text run.err 'NCCL does not take a path with a comma'
NCCL_ALGO=Tree MRC_MTU=1024 run 0 --dry-run --plugin /x/plugin.so --set MRC_MTU=8192
expect_text run.out 'mrc-4-ranks-4-lanes: 4 ranks' NCCL_HOSTID=openmrc-rank-0 \
  MRC_PLANES=loopback:4 MRC_LANES=3 MRC_TIMEOUT=77 MRC_FAULTS=loss=0.01 MRC_MTU=8192 \
  NCCL_NET_PLUGIN=/x/plugin.so NCCL_NET=Socket NCCL_P2P_DISABLE=1 'of 540 s'
grep -q 'NCCL_ALGO=Tree\|MRC_MTU=1024' run.out && fail "the caller's variables are passed on"
run 0 --dry-run --only 'training-*'
expect_text run.out '3 parts'
run 1 --report "$gpu/plan.py"
expect_text run.err 'is no result of this program'

say 'what is missing is named, with exit status 77'
run 77 --plugin "$work/nothing.so"
expect_text run.err "there is no plugin at $work/nothing.so" 'cmake --build'
echo 'extern "C" { int ncclNetPlugin_v11 = 0; }' >plugin.cpp
"$cxx" -shared -fPIC -o plugin.so plugin.cpp
mkdir none without
echo 'raise ImportError("planted")' >none/torch.py
PYTHONPATH=$work/none run 77 --plugin plugin.so
expect_text run.err 'no PyTorch' planted --python
run 77 --plugin plugin.so --python "$work/no-python"
expect_text run.err "cannot run $work/no-python" --python
printf '%s\n' '__version__ = "1.2.3"' 'class version: cuda = "13.0"' 'class cuda:' \
  '  is_available = staticmethod(lambda: False)' >without/torch.py
PYTHONPATH=$work/without run 77 --plugin plugin.so
expect_text run.err 'PyTorch 1.2.3 finds no GPU'
export MRC_TEST_GPU_RANK=$here/run_on_gpu_rank.py
FAKE_MODE=no-nccl run 77 --plugin plugin.so
expect_text run.err 'was built without NCCL'

say 'everything is well: all parts, tables, logs'
run 0 --plugin plugin.so --out out --logs --only '*-*,refusal' --set MRC_MTU=8192
expect_text run.out 'Sample GPU' 'NCCL 2.28.9' 'plugin OpenMRC 9.8.7 (interface v11)' '18 passed' \
  'A rank is killed' \
  'median (least to largest): mrc-2-ranks 2.00 (2.00 to 2.00)' 'identical' '8 B' '256 MiB' \
  '100 ms at 4.5 s' 'NET/MRC x 4' "value '77' is not allowed" '1.00 %' '25 25 25 25'
expect 'the page is what was printed' [ "$(head -n 5 out/nccl_gpu*.md)" = "$(head -n 5 run.out)" ]
expect 'parts' [ "$(value 'len(parts)')" = 18 ]
expect 'rows' [ "$(value 'len(parts["mrc-2-ranks"]["rows"])')" = 50 ]
expect 'bus bandwidth' \
  [ "$(value 'round(parts["mrc-4-ranks-4-lanes"]["rows"][0]["gbytes_per_s"], 6)')" = 3.0 ]
expect 'sizes' [ "$(value 'max(x["bytes"] for x in parts["socket-4-ranks"]["rows"])')" = 268435456 ]
tar xzf out/nccl_gpu*_logs.tar.gz
rank=$(echo nccl_gpu*_logs/mrc-4-ranks-4-lanes/rank.3.txt)
expect_text "$rank" NCCL_HOSTID=openmrc-rank-3 MRC_LANES=4 MRC_MTU=8192 NCCL_NET=MRC
grep -q '^MRC_' nccl_gpu*_logs/socket-4-ranks/rank.3.txt && fail 'MRC_* without the plugin'
run 0 --report out/nccl_gpu*.json
expect 'the same page again' cmp run.out out/nccl_gpu*.md

check_mode() {  # check_mode MODE PARTS TEXT...: the parts end with a failure that says TEXT
  local mode=$1 only=$2
  shift 2
  rm -rf out
  FAKE_MODE=$mode run 1 --plugin plugin.so --out out --only "$only" --budget 300 \
    --start "${start_limit-45}"
  expect_text run.err "$@"
}
say 'one part fails: it says why, and the others are run'
check_mode wrong 'mrc-2-ranks,socket-2-ranks,training-*' 'all_gather, 32 KiB: 5 wrong elements' \
  'training-mrc: passed'
expect_text run.out WRONG '3 passed, 2 failed'
check_mode silent 'refusal,mrc-2-ranks' '0 of 2 ranks refused' 'no WARN that names MRC_TIMEOUT' \
  'the net is Socket, not MRC'
check_mode diverge 'training-socket,training-mrc' 'training-mrc: passed'
expect_text run.out 'the loss curve differs from training-socket: by 0.01 of a loss' '1 failed'
check_mode crash 'training-mrc' 'rank 0: ended 5 s after another rank failed' \
  'rank 1: exit status 3' 'planted'
start_limit=1 check_mode hang 'refusal' 'rank 0: not done after 6 s, ended' 'rank 1: not done'
start_limit=5 check_mode deaf peer-death 'rank 1 did not notice that rank 3 was dead'
check_mode careless peer-death 'rank 0 ended without an error although rank 3 was dead'
rm -rf out
run 1 --plugin plugin.so --out out --only 'refusal,mrc-2-ranks' --budget 30
expect_text run.err 'refusal: passed' 'mrc-2-ranks: not run' 'left of 30 s'
echo 'no library' >bad.so
run 1 --plugin bad.so --out out --only refusal
expect_text run.out 'the plugin does not load' '1 not run'

say 'ended from outside: no rank stays, and there are results'
ranks_gone() {
  local file
  for file in ranks/*; do gone "$(cat "$file")" || return 1; done
}
ranks_there() { [[ -s ranks/$1.openmrc-rank-0 && -s ranks/$1.openmrc-rank-1 ]]; }
for signal in TERM KILL; do
  rm -rf out ranks/*
  FAKE_MODE=hang-sockets start ended "$python" "$gpu/../run_on_gpu" --plugin plugin.so --out out \
    --only 'mrc-2-ranks,socket-2-ranks' --budget 100
  until_true 60 ranks_there Socket || fail 'the ranks were not started'
  kill "-$signal" "$pid"
  exit_code "$pid" 30
  until_true 10 ranks_gone || fail "ranks stay after SIG$signal"
  if [[ $signal == TERM ]]; then expect 'exit status' [ "$code" = 143 ]; fi
  expect 'results of the part before' [ "$(value 'parts["mrc-2-ranks"]["status"]')" = passed ]
done
unset MRC_TEST_GPU_RANK

say 'the built plugin'
built=$build/nccl_plugin/libnccl-net-mrc.so
if [[ -f $built ]]; then
  versions=$(cd "$gpu" && "$python" -c 'if True:
    import sys, ranks
    print(ranks.load(sys.executable, sys.argv[1]))' "$built")
  expect "it loads, not $versions" [ "$versions" = "([6, 7, 8, 9, 10, 11, 12], '')" ]
else
  echo 'it was not built: left out'
fi

say 'the program of a rank, with gloo'
if ! "$python" -c 'import torch; assert torch.distributed.is_available()' 2>/dev/null; then
  echo 'there is no PyTorch: left out'
  exit 0
fi
rm -rf out
run 0 --rehearse --out out --only 'rehearsal-collectives,rehearsal-death,rehearsal-training*'
expect_text run.out '4 passed' identical 'Neither NCCL nor the plugin'
