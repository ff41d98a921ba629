# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests of the verbs shim with real programs share. Source it first.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
shim=$build/verbs_shim/libibverbs.so.1
[[ -e $shim ]] || skip 'the verbs shim was not built'
# A sanitizer's runtime would have to come before the programs'.
! sanitized "$shim" || skip 'real programs do not run with a sanitized library'
mrcrun=$source_dir/verbs_shim/mrcrun
export MRC_VERBS_DIR=$build/verbs_shim MRC_PLANES=loopback:2

# What runs before a program, in $run: it ends what hangs. Programs of latency poll, and a message
# takes a slice of time where others want the processor, too. So they get twenty times the SECONDS,
# as in until_true().
limit() { run=(timeout -k 2 "$((20 * $1))" "$mrcrun" --quiet); }  # limit SECONDS

# two_processes NAME SECONDS COMMAND...: starts a program as a server, whose process id is $server,
# and runs it as a client, with the options in $client_options besides, to its end in $status. Their
# output is in $work/NAME.{server,client}.out.
client_options=()
two_processes() {
  local name=$1 port run
  limit "$2"
  shift 2
  port=$(free_port)
  "${run[@]}" "$@" -p "$port" >"$work/$name.server.out" 2>&1 &
  server=$!
  # If it has ended, the client says why.
  until_true 20 listening_or_gone "$port" "$server" || fail "nobody listens on port $port"
  status=0
  "${run[@]}" "$@" -p "$port" "${client_options[@]}" 127.0.0.1 >"$work/$name.client.out" 2>&1 ||
    status=$?
}
two() {  # two NAME SECONDS COMMAND...: both end well within that time
  two_processes "$@"
  ((status == 0)) || fail "${*:3}: the client ended with $status"
  wait "$server" || fail "${*:3}: the server ended with $?"
}
pair() { two "$@" -F; }  # pair NAME SECONDS TOOL OPTION...: of perftest
# pingpong NAME TOOL OPTION...: an example of libibverbs; it checks its data. 200 messages: each may
# take two slices of time.
pingpong() { two "$1" 20 "${@:2}" -n 200 -c; }

# lines NAME: sizes for which the client has printed a result.
lines() { awk '$1 ~ /^[0-9]+$/ && NF >= 5 { n++ } END { print n + 0 }' "$work/$1.client.out"; }

controller() {  # controller NAME ARGUMENT...: an example of libMRC ends well, and says so
  local name=$1 run
  limit 60
  shift
  "${run[@]}" "$build/examples/libmrc/libmrc_controller_$name" "$@" >"$work/$name.out" 2>&1 ||
    fail "controller_$name ended with $?: $(cat "$work/$name.out")"
  expect "$name says so" grep -q '^success$' "$work/$name.out"
}
