#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# mrc_perf does not wait for ever where no queue pair has anything to time out: the other process is
# stopped, and what it owes is a credit or an answer. SIGSTOP leaves the control connection open.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"
port=$(free_port)

# Queue pairs that never give up, so that nothing but the guard can end the run, whatever is under
# way at the moment of the signal.
patient=(--option retry_exponential=25 --give-up 1s --planes 2 --size 64K --interval 50ms)

start_pair() {  # start_pair OPTION...: server and client in the middle of a long run
  start_server server "$port" --quiet
  rm -f "$work/client.out" "$work/client.json"
  start client "$mrc_perf" 127.0.0.1 --port "$port" --json "$work/client.json" "${patient[@]}" "$@"
  client=$pid
  until_true 20 client_runs || fail 'the client does not get going'
}

gives_up() {  # gives_up NAME PID: that side ends with status 1, soon, and says why
  local began=$SECONDS
  exit_code "$2" 20
  say "the $1 ended after about $((SECONDS - began)) s: $(tail -n 1 "$work/$1.err")"
  expect 'exit status' [ "$code" = 1 ]
  expect_text "$work/$1.err" 'gave up after 1.0 s without progress, waiting for' \
    'may be stopped or stuck' --give-up
}

end() {  # end PID: it may be stopped
  kill -KILL "$1" 2>/dev/null || true
  exit_code "$1" 10
}

for test in write write_imm latency; do
  for end_by in iters duration; do
    length=(--iters 100M)
    if [[ $end_by == duration ]]; then length=(--duration 60s); fi
    say "the server is stopped, $test by $end_by: the client gives up"
    start_pair --test "$test" --check "${length[@]}"
    kill -STOP "$server"
    gives_up client "$client"
    expect_text "$work/client.json" 'gave up after' '"interrupted": false'
    expect 'results until then are kept' [ "$(json "$work/client.json" iterations | total)" -gt 0 ]
    end "$server"
  done
  say "the client is stopped, $test: the server gives up too, by the client's --give-up"
  start_pair --test "$test" --check --duration 60s
  kill -STOP "$client"
  gives_up server "$server"
  end "$client"
done

say 'the server is killed in a checked run, whatever is under way: the client ends'
start_pair --check --iters 100M --option timeout=12 --option retry_linear=2 \
  --option retry_exponential=6
kill -KILL "$server"
exit_code "$client" 20 1
expect "the client's message" [ -s "$work/client.err" ]
exit_code "$server" 10

say 'a pause that is shorter does no harm'
start_server server "$port" --quiet
start client "$mrc_perf" 127.0.0.1 --port "$port" --json "$work/client.json" --planes 2 \
  --size 64K --check --duration 4s --rate 200M --give-up 60s --option retry_exponential=25
client=$pid
sleep 0.7
kill -STOP "$server"
sleep 0.7
kill -CONT "$server"
exit_code "$client" 90 0
checked_result client
exit_code "$server" 20
