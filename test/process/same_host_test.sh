#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two processes of one host leave the payload out of the iCRC, over loopback and over an address of
# another interface. In two network namespaces that a veth pair joins they are two hosts, although
# one kernel carries every byte. One side's icrc=on is enough to have all of it checked.
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts_lib.sh"
need_program "$mrc_perf"

# heads NAME YES|NO: whether the payload was left out, by log, banner and statistics of the client.
heads() {
  local log='on this host: the iCRC leaves the payload out' banner='iCRC without payload'
  local where=(grep -q -e)
  if [[ $2 == no ]]; then where=(absent); fi
  "${where[@]}" "$log" "$work/$1.err" || fail "$1: the log, expected: $2"
  "${where[@]}" "$log" "$work/$1-server.err" || fail "$1: the server's log, expected: $2"
  "${where[@]}" "$banner" "$work/$1.out" || fail "$1: the banner, expected: $2"
  expect "$1: statistics" \
    [ "$(json "$work/$1.json" head_check | sort -u)" = "$([[ $2 == yes ]] && echo true ||
      echo false)" ]
}
absent() { ! grep -q -e "$1" "$2"; }

declare -a client_at=() server_at=()
run() {  # run NAME HOST SERVER_PLANES CLIENT_PLANES
  local name=$1 port=18515
  start "$name-server" "${server_at[@]}" "$mrc_perf" --port "$port" --quiet --planes "$3"
  server=$pid
  until_listening "$port" "${server_at[@]}"
  start "$name" "${client_at[@]}" "$mrc_perf" "$2" --port "$port" --check --warmup 20ms \
    --size 64K,1M --iters 10 --planes "$4" --json "$work/$name.json"
  exit_code "$pid" 100 0 "$name: the client"
  exit_code "$server" 20 0 "$name: the server"
  checked_result "$name"
}
export MRC_LOG=info

say 'loopback: large packets without payload in their iCRC'
run plain 127.0.0.1 loopback:2 loopback:2
heads plain yes
expect_text "$work/plain.out" '32640 B packets'

say 'icrc=on at one side: all of each packet is checked'
server_at=(env MRC_ICRC=on)
run server_on 127.0.0.1 loopback:2 loopback:2
heads server_on no

two_hosts 1

say 'an address of another interface, packets to which stay on loopback'
client_at=(ip netns exec "$a") server_at=("${client_at[@]}")
run own_address 10.9.0.1 10.9.0.1 10.9.0.1
heads own_address yes

say 'two network namespaces are two hosts'
server_at=(ip netns exec "$b")
run two_hosts 10.9.0.2 10.9.0.2 10.9.0.1
heads two_hosts no
