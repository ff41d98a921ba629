#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The seccomp profile of the documentation suffices for all that mrc_perf does; where a call is
# missing, the device says so when it opens.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"
if sanitized "$mrc_perf"; then skip 'sanitizers need calls of their own'; fi
need_tool cc
confined=(python3 "$support/seccomp_run.py" "$source_dir/docs/seccomp.json")
"${confined[@]}" "$mrc_perf" --help >/dev/null 2>"$work/help.err" ||
  skip "no seccomp filters here: $(tail -n 1 "$work/help.err")"

say 'the profile suffices'
port=$(free_port)
start server "${confined[@]}" "$mrc_perf" --port "$port" --quiet
server=$pid
until_listening "$port"
start client "${confined[@]}" "$mrc_perf" 127.0.0.1 --port "$port" --planes 2 --size 64K \
  --iters 100 --check --quiet --json "$work/client.json"
exit_code "$pid" 60 0
exit_code "$server" 20 0
checked_result client

for refused in sendmmsg=1 recvmmsg=38 ppoll=1; do
  say "$refused: the client says so"
  start_server server "$port" --persistent --quiet
  start client "${confined[@]}" "$refused" "$mrc_perf" 127.0.0.1 --port "$port" --iters 1 --quiet
  exit_code "$pid" 60 1
  expect_text "$work/client.err" "system call ${refused%=*} is blocked" docs/system_calls.md
  kill -KILL "$server"
  exit_code "$server" 10
done
