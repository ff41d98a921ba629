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

# What runs before a program, in $run: it ends what hangs. Programs of latency poll, and a message
# takes a slice of time where others want the processor, too. So they get twenty times the SECONDS,
# as in until_true().
limit() { run=(timeout -k 2 "$((20 * $1))" "$mrcrun" --quiet); }  # limit SECONDS

# pair NAME SECONDS TOOL OPTION...: a perftest tool between two processes. Both must end well within
# that time; their output is in $work/NAME.{server,client}.out.
pair() {
  local name=$1 port server status=0 run
  limit "$2"
  shift 2
  port=$(free_port)
  "${run[@]}" "$@" -F -p "$port" >"$work/$name.server.out" 2>&1 &
  server=$!
  wait_until_listening "$port" "$server"
  "${run[@]}" "$@" -F -p "$port" 127.0.0.1 >"$work/$name.client.out" 2>&1 || status=$?
  ((status == 0)) || fail "$*: the client ended with $status"
  wait "$server" || fail "$*: the server ended with $?"
}

wait_until_listening() {  # wait_until_listening PORT PID
  listening_or_gone() { listening "$1" || gone "$2"; }  # if it has ended, the client says why
  until_true 20 listening_or_gone "$@" || fail "nobody listens on port $1"
}

# lines NAME: sizes for which the client has printed a result.
lines() { awk '$1 ~ /^[0-9]+$/ && NF >= 5 { n++ } END { print n + 0 }' "$work/$1.client.out"; }

# pingpong NAME TOOL OPTION...: an example of libibverbs between two processes; it checks its data.
# 200 messages: each may take two slices of time.
pingpong() {
  local name=$1 port server run
  limit 20
  shift
  port=$(free_port)
  "${run[@]}" "$@" -n 200 -c -p "$port" >"$work/$name.server.out" 2>&1 &
  server=$!
  wait_until_listening "$port" "$server"
  "${run[@]}" "$@" -n 200 -c -p "$port" 127.0.0.1 >"$work/$name.client.out" 2>&1 ||
    fail "$*: the client ended with $?"
  wait "$server" || fail "$*: the server ended with $?"
}
