# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the tests over a kernel fabric share: a fabric of the test's own in network namespaces,
# programs at its hosts, and what the kernel has counted. Source it first.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_perf" "$mrc_fabric"
need_namespaces
unset MRC_UDP_PORT  # nobody else is in these networks

prefix=t$$
fabric_file=
on() {  # on HOST COMMAND...: in its namespace
  local host=$1
  shift
  "$mrc_fabric" exec --prefix "$prefix" "$fabric_file" "$host" -- "$@"
}
fabric() { "$mrc_fabric" "$1" --prefix "$prefix" "$fabric_file" "${@:2}"; }

fabric_up() {  # fabric_up JSON|FILE: of a copy, so that tests may change it
  if [[ $1 == '{'* ]]; then
    fabric_file=$work/fabric.json
    printf '%s\n' "$1" >"$fabric_file"
  else
    fabric_file=$work/${1##*/}
    if [[ $1 != "$fabric_file" ]]; then cp "$1" "$fabric_file"; fi
  fi
  # For what is started in the background, where a function would be a shell of its own, which what
  # it runs outlives.
  at_host=("$mrc_fabric" exec --prefix "$prefix" "$fabric_file")
  fabric up >"$work/up.out" 2>&1 || fail "mrc_fabric up: $(cat "$work/up.out")"
}
fabric_down() { if [[ -n $fabric_file ]]; then fabric down >/dev/null 2>&1 || true; fi; }
trap 'fabric_down; clean_up' EXIT

start_pair() {  # start_pair NAME OPTION...: server at h1, client at h0, of which $pid is the id
  local name=$1 host=${to:-1}  # to=N: at that host
  shift
  start "$name-server" "${at_host[@]}" "h$host" -- "$mrc_perf" --quiet --port "${port:-18515}"
  server=$pid
  until_listening "${port:-18515}" on "h$host"
  # Its control connection goes over plane 0, which the tests leave alone.
  start "$name" "${at_host[@]}" h0 -- "$mrc_perf" "fd00:1::$((host + 1))" --port "${port:-18515}" \
    --json "$work/$name.json" "$@"
}
link_hosts() {  # link_hosts: h0 and h1 also over IPv4, which the fabric does not carry
  local host
  ip -n "$prefix-demo-h0" link add control type veth peer name control netns "$prefix-demo-h1"
  for host in 0 1; do
    ip -n "$prefix-demo-h$host" address add "192.0.2.$((host + 1))/24" dev control
    ip -n "$prefix-demo-h$host" link set control up
  done
}

# Captures of what is encapsulated, as all packets of connections are; kernels send others, too.
captures=()
capture() {  # capture NAME NODE INTERFACE DIRECTION: into $work/NAME.pcap, until end_captures
  start "capture-$1" ip netns exec "$prefix-demo-$2" tcpdump -Z root -nn -U -Q "$4" -i "$3" \
    -w "$work/$1.pcap" 'ip6 proto 41 or ip6 proto 43'
  captures+=("$pid")
  until_true 20 grep -qs 'listening on' "$work/capture-$1.err" || fail 'tcpdump does not start'
}
end_captures() {
  sleep 0.2
  for pid in "${captures[@]}"; do
    kill -INT "$pid"
    exit_code "$pid" 20
  done
  captures=()
}
seen() { tcpdump -nn -r "$work/$1.pcap" 2>/dev/null | wc -l; }  # seen NAME: packets in a capture

interrupt_pair() {  # interrupt_pair NAME: ends it before its time, with the results so far
  kill -INT "$pid"
  end_pair "$1" 20 130
}
end_pair() {  # end_pair NAME SECONDS [STATUS]: the client ends with STATUS, the server well
  exit_code "$pid" "$2" "${3:-0}" "$1: the client"
  exit_code "$server" 20 0 "$1: the server"
  expect "$1: error" [ "$(json "$work/$1.json" error)" = null ]
  expect "$1: every byte is right" [ "$(json "$work/$1.json" check_errors | total)" = 0 ]
}

packets() {  # packets NODE INTERFACE: sent by the interface so far
  ip -n "$prefix-$fabric_name-$1" -s -j link show "$2" | jq '.[0].stats64.tx.packets'
}
fabric_name=demo
# h0's traffic to h1 takes all links from its T0s to T1s but those named, PLANE.T1, and arrives.
traffic_takes_all() {  # traffic_takes_all WHEN [but LINK...]
  python3 "$support/fabric_traffic.py" "$prefix-$fabric_name-" 100 "${@:3}" 2>"$work/traffic.err" ||
    fail "$1: traffic does not take the links that are alive"
}
grows() {  # grows PLANE: h0 sends there
  local before
  before=$(packets h0 "p$1")
  sleep 0.2
  (($(packets h0 "p$1") > before + 100))
}
captured() {  # captured FILE...: tcpdump has nothing more to write
  local sizes last=
  sizes() { stat -c %s "$@"; }
  until [[ $(sizes "$@") == "$last" ]]; do
    last=$(sizes "$@")
    sleep 1
  done
}
