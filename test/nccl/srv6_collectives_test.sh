#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Collectives through a fabric of kernel SRv6 switches while a T1, a T0 and a host's port fail and
# return: no rank notices, and every byte is right.
. "$(dirname "${BASH_SOURCE[0]}")/nccl_lib.sh"
. "$source_dir/test/process/srv6_lib.sh"

fabric_up "$source_dir/tools/fabrics/demo.json"
ranks=(--netns "$prefix-demo-h0,$prefix-demo-h1" --env "MRC_FABRIC=$fabric_file"
  --env 0:MRC_HOST=h0 --env 1:MRC_HOST=h1 --env NCCL_SOCKET_IFNAME=p)

say 'all collectives'
collectives all "${ranks[@]}" --collective all --size 1000,64K,1500000 --warmup 0 --repetitions 1 \
  --iterations 2

say 'while parts fail'
start failing "$nccl_perf" --check --json "$work/failing.json" --patience 60s "${ranks[@]}" \
  --collective all_reduce --size 1M --warmup 0 --repetitions 1 --iterations 100000000
running() { kill -0 "$pid" 2>/dev/null || fail 'the ranks did not survive'; }
fail_and_return() {  # fail_and_return WHAT PLANE DOWN... -- UP...
  local what=$1 plane=$2 down=()
  shift 2
  while [[ $1 != -- ]]; do down+=("$1") && shift; done
  shift
  say "$what"
  fabric "${down[@]}"
  sleep 1
  running
  fabric "$@"
  until_true 30 grows "$plane" || fail "$what returned, but plane $plane has no traffic"
  running
}
until_true 30 grows 1 || fail 'no traffic'
# Plane 0 stays: set-up connections use it.
fail_and_return 'a T1' 1 switch p1t1-0 down -- switch p1t1-0 up
fail_and_return 'a T0' 2 switch p2t0-1 down -- switch p2t0-1 up
fail_and_return "a host's port" 3 link h0 p3t0-0 down -- link h0 p3t0-0 up
interrupt "$pid" 60
expect 'bytes checked' [ "$(json "$work/failing.json" checked_bytes)" -gt 10000000 ]
! grep -q ERROR "$work/failing.err" || fail 'a rank saw an error'
