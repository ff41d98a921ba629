#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A process is killed or stopped in the middle of a transfer: the other one ends with a cause, in
# the time that its options give it, or serves the next one.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"

# Two seconds until a silent peer is given up: a busy machine is not silent for so long.
brief=(--option timeout=14 --option retry_linear=2 --option retry_exponential=6)
port=$(free_port)

start_client() {  # start_client OPTION...: a long run, which is under way when this returns
  rm -f "$work/client.out" "$work/client.json"
  start client "$mrc_perf" 127.0.0.1 --port "$port" --planes 4 --size 256K --duration 60s \
    --interval 50ms --json "$work/client.json" "$@"
  client=$pid
  until_true 20 client_runs || fail 'the client does not get going'
}

end_server() {  # it may be dead already; its port has to be free again
  kill -KILL "$server" 2>/dev/null || true
  exit_code "$server" 10
}

ended_badly() {  # the client did, with the results until then
  exit_code "$client" 20 1
  expect_text "$work/client.json" '"interrupted": false'
  expect 'results until then are kept' [ "$(json "$work/client.json" iterations | total)" -gt 0 ]
}

# Its queue pairs would go on for hours; the control connection ends with the server.
for kind in write latency completion; do
  say "SIGKILL of the server, $kind: the client ends at once with status 1 and says why"
  start_server server "$port"
  start_client --test "$kind" --option timeout=20 --option retry_exponential=20
  kill -KILL "$server"
  ended_badly
  expect_text "$work/client.err" '127.0.0.1 port' 'is gone, its control connection ended'
  expect_text "$work/client.json" 'is gone'
  end_server
done

# Unchecked: the sender never waits for the other program, so that always something is under way.
say 'SIGSTOP of the server: the queue pair gives up, and says why'
start_server server "$port"
start_client "${brief[@]}"
kill -STOP "$server"
ended_badly
expect_text "$work/client.err" 'peer does not answer' '127.0.0.1:' 'timeouts'
expect_text "$work/client.json" 'peer does not answer'
end_server

say 'SIGKILL of the client: a persistent server goes on and serves the next'
start_server server "$port" --persistent
for life in 1 2 3; do
  start_client "${brief[@]}" --check
  kill -KILL "$client"
  expect "the server lives after client $life" kill -0 "$server"
done
start last "$mrc_perf" 127.0.0.1 --port "$port" --planes 4 --size 64K --iters 200 --check --quiet \
  --json "$work/last.json"
exit_code "$pid" 60 0 'the next client is served'
checked_result last
expect_text "$work/server.err" 'is gone'
kill -KILL "$server"

say 'SIGKILL of the client: a server for one client ends with status 1'
port=$(free_port)
start_server server "$port"
start_client "${brief[@]}" --check
kill -KILL "$client"
exit_code "$server" 30 1
