# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of the verbs shim with real programs share. Source it first.
. "$(dirname "${BASH_SOURCE[0]}")/../process/lib.sh"
shim=$build/verbs_shim/libibverbs.so.1
[[ -e $shim ]] || skip 'the verbs shim was not built'
# A sanitizer's runtime would have to come before the programs'.
! sanitized "$shim" || skip 'real programs do not run with a sanitized library'
mrcrun=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/verbs_shim/mrcrun
export MRC_VERBS_DIR=$build/verbs_shim MRC_PLANES=loopback:2

need_tool() { command -v "$1" >/dev/null || skip "$1 is not installed (scripts/install-deps)"; }

# pair NAME SECONDS TOOL OPTION...: a perftest tool between two processes. Both must end well within
# that time; their output is in $work/NAME.{server,client}.out.
pair() {
  local name=$1 limit=$2 port server status=0
  shift 2
  port=$(free_port)
  timeout -k 2 "$limit" "$mrcrun" --quiet "$@" -F -p "$port" >"$work/$name.server.out" 2>&1 &
  server=$!
  pids+=("$server")
  wait_until_listening "$port" "$server"
  timeout -k 2 "$limit" "$mrcrun" --quiet "$@" -F -p "$port" 127.0.0.1 \
    >"$work/$name.client.out" 2>&1 || status=$?
  ((status == 0)) || fail "$*: the client ended with $status"
  wait "$server" || fail "$*: the server ended with $?"
}

wait_until_listening() {  # wait_until_listening PORT PID
  local try
  for ((try = 0; try < 200; ++try)); do
    if listening "$1"; then return; fi
    kill -0 "$2" 2>/dev/null || return 0  # ended already; the client says why
    sleep 0.05
  done
}

# lines NAME: sizes for which the client has printed a result.
lines() { awk '$1 ~ /^[0-9]+$/ && NF >= 5 { n++ } END { print n + 0 }' "$work/$1.client.out"; }

# pingpong NAME TOOL OPTION...: an example of libibverbs between two processes; it checks its data.
pingpong() {
  local name=$1 port server
  shift
  port=$(free_port)
  timeout -k 2 60 "$mrcrun" --quiet "$@" -c -p "$port" >"$work/$name.server.out" 2>&1 &
  server=$!
  pids+=("$server")
  wait_until_listening "$port" "$server"
  timeout -k 2 60 "$mrcrun" --quiet "$@" -c -p "$port" 127.0.0.1 >"$work/$name.client.out" 2>&1 ||
    fail "$*: the client ended with $?"
  wait "$server" || fail "$*: the server ended with $?"
}
