#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a host has besides one pair of processes: more of them, and users without rights.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf"

say 'two pairs at once on the same addresses: slots keep them apart'
ports=()
clients=()
for i in 0 1; do
  port=$(free_port)
  start_server "server$i" "$port" --quiet
  ports+=("$port")
done
for i in 0 1; do
  start "pair$i" "$mrc_perf" 127.0.0.1 --port "${ports[i]}" --planes 2 --size 64K \
    --duration 500ms --check --quiet --json "$work/pair$i.json"
  clients+=("$pid")
done
for i in 0 1; do
  exit_code "${clients[i]}" 60 0 "pair $i"
  checked_result "pair$i"
done

if ((EUID == 0)) && command -v setpriv >/dev/null; then
  say 'without any privilege'
  port=$(free_port)
  chmod 711 "$work"
  install -m 755 "$mrc_perf" "$work/mrc_perf"
  nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all
    --bounding-set=-all)
  if ! "${nobody[@]}" "$work/mrc_perf" --help >/dev/null; then
    say 'it cannot be tried here: left out'
  else
    start nobody-server "${nobody[@]}" "$work/mrc_perf" --port "$port" --quiet
    server=$pid
    until_listening "$port"
    start nobody "${nobody[@]}" "$work/mrc_perf" 127.0.0.1 --port "$port" --planes 4 --check \
      --size 64K --duration 200ms
    exit_code "$pid" 60 0
    grep -Eq '^ +65536 .* 0$' "$work/nobody.out" || fail 'no row without check errors'
    exit_code "$server" 20
  fi
else
  say 'no privilege to give up: the other tests show that it needs none'
fi
