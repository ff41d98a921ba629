#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What a host has besides one pair of processes: more of them, users without rights, and strangers
# that send to its ports.
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

# Random datagrams, most of them with an opcode of MRC and one of these QPNs.
noise() {  # noise PORT QPN...
  exec 4>"/dev/udp/127.0.0.1/$1"
  shift
  local opcodes=(c6 c7 c8 c9 ca cb d1 d8 d9 dc dd de) bytes head i
  while true; do
    bytes=''
    for ((i = 8 + RANDOM % 80; i > 0; i--)); do
      printf -v bytes '%s\\x%02x' "$bytes" $((RANDOM % 256))
    done
    head="\\x${opcodes[RANDOM % 12]}\\x00\\xff\\xff\\x00\\x00\\x00\\x0${*:RANDOM % $# + 1:1}"
    # shellcheck disable=SC2059  # the escapes have to be in the format
    printf "$head$bytes" >&4 || true  # nobody is there yet, or any more
  done
}
start_noise() {  # start_noise QPN...: on the UDP ports of both processes
  local slot
  noises=()
  for slot in 0 1; do
    start "noise$slot" noise $((MRC_UDP_PORT + slot)) "$@"
    noises+=("$pid")
  done
}
end_noise() {
  for pid in "${noises[@]}"; do
    expect 'the noise went on until the end' kill -0 "$pid"
    kill -KILL "$pid"
  done
}
say 'noise on the UDP ports of both processes: the transfer is unharmed'
start_noise {0..8}
checked_run noisy --planes 2 --size 64K --duration 1s --qps 4
end_noise
# Without iCRC a packet with the right QPN is as good as any if its random PSN is in the window, as
# one in some thousand is. The run has queue pairs 3, for data, and 4, which ends the run.
start_noise {0..2} {5..9}
checked_run noisy_bare --planes 2 --size 64K --duration 500ms --icrc off
end_noise
