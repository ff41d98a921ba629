# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of the NCCL plugin by nccl_perf share, on top of test/process/lib.sh. Source it
# first.
source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
. "$source_dir/test/process/lib.sh"
nccl_perf=$build/bench/nccl_perf
plugin=$build/nccl_plugin/libnccl-net-mrc.so
need_program "$nccl_perf"
[[ -e $plugin ]] || skip 'the plugin was not built'

while IFS='=' read -r name _; do
  if [[ $name == NCCL_* ]]; then unset "$name"; fi
done < <(env)
export NCCL_SOCKET_IFNAME=lo

# Two hosts: namespaces $a and $b, with links p0, p1 .. between them, which are up and have the
# addresses 10.9.P.1/24 and 10.9.P.2/24. Planes are named, so NCCL_SOCKET_IFNAME is not set.
two_hosts() {  # two_hosts LINKS [OPTION...]: of each end, for `ip link add`
  local links=$1 plane
  shift
  unset NCCL_SOCKET_IFNAME
  a=hosts-$$-a b=hosts-$$-b
  [[ $(id -u) = 0 ]] && ip netns add "$a" 2>/dev/null || skip 'network namespaces need root'
  trap end_two_hosts EXIT
  ip netns add "$b"
  for ((plane = 0; plane < links; ++plane)); do
    ip -n "$a" link add "p$plane" "$@" type veth peer name "p$plane" "$@" netns "$b"
    ip -n "$a" address add "10.9.$plane.1/24" dev "p$plane"
    ip -n "$b" address add "10.9.$plane.2/24" dev "p$plane"
    ip -n "$a" link set "p$plane" up
    ip -n "$b" link set "p$plane" up
  done
  ip -n "$a" link set lo up
  ip -n "$b" link set lo up
}
end_two_hosts() {
  clean_up
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
}

# The sanitizers' runtime is in nccl_perf, too, so the plugin finds it.
collectives() {  # collectives NAME OPTION...: all ranks end well, and all data was right
  local name=$1
  shift
  start "$name" "$nccl_perf" --quiet --check --json "$work/$name.json" --patience 60s "$@"
  exit_code "$pid" 250
  expect "$name: the exit status" [ "$code" = 0 ]
  expect "$name: checked_bytes" [ "$(json "$work/$name.json" checked_bytes | total)" -gt 0 ]
}
