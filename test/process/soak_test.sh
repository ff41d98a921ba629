#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Some seconds under faults: memory does not grow in either process.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"
if sanitized "$mrc_perf"; then skip "a sanitizer's own memory grows"; fi

resident() { awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"; }  # KiB

port=$(free_port)
start_server server "$port" --quiet
start client "$mrc_perf" 127.0.0.1 --port "$port" --planes 4 --size 64K --duration 600s --check \
  --qps 4 --option trim=on --quiet --json "$work/client.json" \
  --fault 'loss=0.002;duplicate=0.002;reorder=0.002;trim=0.002;plane=1,down@1s-2s'
client=$pid
until_true 20 busy "$client" || fail 'the client does not get going'
sleep 3.5  # memory is touched for the first time, and the plane was down and up again
client_before=$(resident "$client") server_before=$(resident "$server")
sleep 3
client_after=$(resident "$client") server_after=$(resident "$server")
interrupt "$client" 60
exit_code "$server" 20
checked_result client
say "client: $client_before KiB, then $client_after KiB; server: $server_before, then $server_after"
expect 'the client does not grow' [ $((client_after - client_before)) -lt 1024 ]
expect 'the server does not grow' [ $((server_after - server_before)) -lt 1024 ]
