#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What users read at the default log level: why a device can't be opened, and what helps; what there
# is not; why a peer did not answer.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"
need_tool ibv_devinfo ibv_rc_pingpong ss
need_program "$build/test/verbs_contract"
unset MRC_LOG

# refused NAME COMMAND...: ibv_devinfo finds no device; what it says is in $work/NAME.err.
refused() {
  local name=$1
  shift
  ! "$@" "$mrcrun" --quiet ibv_devinfo >"$work/$name.out" 2>"$work/$name.err" ||
    fail "$name: a device: $(cat "$work/$name.out")"
}

say 'a limit of 16 open files'
refused files bash -c 'ulimit -n 16; exec "$@"' bash
expect_text "$work/files.err" 'this process may have 16 files open; raise ulimit -n'
expect 'no advice on planes' [ "$(grep -c MRC_PLANES "$work/files.err")" -eq 0 ]

if unshare --net true 2>/dev/null; then
  say 'IPv6 alone, and no default route'
  # shellcheck disable=SC2016  # for the shell inside
  refused route unshare --net bash -c 'unset MRC_PLANES && ip link set lo up &&
    ip address del 127.0.0.1/8 dev lo &&
    ip link add v0 type veth peer name v1 && ip link set v0 up &&
    ip address add fd00:9::1/64 dev v0 nodad && exec "$@"' bash
  expect_text "$work/route.err" 'no default route'
  expect_text "$work/route.err" 'set MRC_PLANES to addresses or interfaces'
else
  say 'no network namespaces: left out'
fi

say 'programs that need rdma_cm, or XRC, learn that there is none'
# says NAME TEXT COMMAND...: it fails, and there is that line once.
says() {
  local name=$1 text=$2 code=0 run
  limit 20
  shift 2
  "${run[@]}" "$@" >"$work/$name.out" 2>&1 || code=$?
  expect "$name fails" [ "$code" -ne 0 ]
  expect "$name: one line" [ "$(grep -c "$text" "$work/$name.out")" -eq 1 ]
}
if command -v rping >/dev/null; then
  says rping 'openmrc: verbs: rdma_cm: not supported' rping -s -a 127.0.0.1 -C 1
fi
if command -v ibv_xsrq_pingpong >/dev/null; then
  says xrc 'openmrc: verbs: ibv_open_xrcd: XRC is not supported' ibv_xsrq_pingpong -g 0
fi

say 'a full queue is no mistake: no line'
code=0
"$build/test/verbs_contract" flow >"$work/full.out" 2>"$work/full.err" || code=$?
expect "it holds: $(grep '^not ok' "$work/full.out" || true)" [ "$code" -eq 0 ]
expect "no line: $(cat "$work/full.err")" [ ! -s "$work/full.err" ]

say 'a peer that dies: why requests fail, once'
limit 60
port=$(free_port)
"${run[@]}" ibv_rc_pingpong -g 0 -n 1000000000 -p "$port" >"$work/dies.out" 2>&1 &
server=$!
until_true 20 listening_or_gone "$port" "$server" || fail 'no server'
"${run[@]}" ibv_rc_pingpong -g 0 -n 1000000000 -p "$port" 127.0.0.1 >"$work/waits.out" 2>&1 &
client=$!
# It stops to listen when its client has come, and their TCP connection ends when each knows the
# other's queue pair.
connected() { ! listening "$port" && [[ -z $(ss -Htn "sport = :$port or dport = :$port") ]]; }
until_true 20 connected || fail "not connected: $(cat "$work/waits.out")"
kill -0 "$client" || fail "the client has ended: $(cat "$work/waits.out")"
kill -KILL "$(pgrep -P "$server")"
code=0
wait "$client" || code=$?
expect 'it fails' [ "$code" -ne 0 ]
expect 'one line' [ "$(grep -c 'openmrc: verbs: ibv_poll_cq: queue pair .* failed: ' \
  "$work/waits.out")" -eq 1 ]
