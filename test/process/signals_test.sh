#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Ctrl-C ends each program cleanly, in any phase, with what it has so far.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"
port=$(free_port)

start_run() {  # start_run: server and client in the middle of a long run
  start_server server "$port" "$@"
  rm -f "$work/client.out"
  start client "$mrc_perf" 127.0.0.1 --port "$port" --planes 2 --size 64K --duration 60s --check \
    --interval 50ms --json "$work/client.json" --timeline "$work/timeline.csv"
  client=$pid
  until_true 20 client_runs || fail 'the client does not get going'
}

say 'SIGINT at the client: status 130, partial results and JSON; the server ends well'
start_run
interrupt "$client" 20
expect_text "$work/client.err" interrupted
expect_text "$work/client.json" '"interrupted": true' '"check_errors": 0'
expect 'partial results' [ "$(json "$work/client.json" iterations | total)" -gt 0 ]
expect 'checked bytes' [ "$(json "$work/client.json" checked_bytes | total)" -gt 0 ]
expect 'the timeline was written' [ "$(wc -l <"$work/timeline.csv")" -gt 1 ]
grep -Eq '^ +65536 +[0-9]+' "$work/client.out" || fail 'no row of results is printed'
exit_code "$server" 20 0

say 'SIGTERM does the same'
start_run
kill -TERM "$client"
exit_code "$client" 20 130
exit_code "$server" 20

say 'SIGINT at the server in the middle: status 130; the client ends with status 1 and says why'
start_run --persistent
interrupt "$server" 20
exit_code "$client" 40 1
expect "the client's message" [ -s "$work/client.err" ]

say 'SIGINT at a server that waits for a client'
start_server server "$port"
interrupt "$server" 10

say 'SIGINT at a client that looks for its server'
start client "$mrc_perf" 127.0.0.1 --port "$(free_port)" --size 4K
until_true 20 catches "$pid" || fail 'it has no handler of SIGINT'
interrupt "$pid" 10
