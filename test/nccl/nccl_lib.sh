# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of the NCCL plugin by nccl_perf share. Source it first.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
plugin=$build/nccl_plugin/libnccl-net-mrc.so
need_program "$nccl_perf"
[[ -e $plugin ]] || skip 'the plugin was not built'

without NCCL_
export NCCL_SOCKET_IFNAME=lo

# The sanitizers' runtime is in nccl_perf, too, so the plugin finds it.
collectives() {  # collectives NAME OPTION...: all ranks end well, and all data was right
  local name=$1
  shift
  start "$name" "$nccl_perf" --quiet --check --json "$work/$name.json" --patience 60s "$@"
  exit_code "$pid" 250 0 "$name"
  expect "$name: checked_bytes" [ "$(json "$work/$name.json" checked_bytes | total)" -gt 0 ]
}
