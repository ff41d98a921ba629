# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the attacks share: two victims, a and b, and an attacker, x, each in a network namespace of
# its own on one bridge; mrc_perf between the victims; forged packets from the attacker. What is
# made goes with the test. Source it first.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
forge=$build/test/security/forge
victim=$build/test/security/victim
need_program "$mrc_perf" "$forge"
need_namespaces
unset MRC_UDP_PORT  # nobody else is in these networks
net=s$$

tear_down() {
  local node
  clean_up
  for node in a b x hub; do ip netns del "$net-$node" 2>/dev/null || true; done
}
trap tear_down EXIT

# Namespaces and links; every host has one interface, e0.
build_links() {
  local node
  ip netns add "$net-hub"
  ip -n "$net-hub" link add name br0 type bridge
  ip -n "$net-hub" link set br0 up
  for node in a b x; do
    ip netns add "$net-$node"
    ip -n "$net-hub" link add name "to-$node" mtu 9000 type veth \
      peer name e0 mtu 9000 netns "$net-$node"
    ip -n "$net-hub" link set dev "to-$node" master br0 up
    ip -n "$net-$node" link set lo up
    ip -n "$net-$node" link set e0 up
  done
}
host_number() { case $1 in a) echo 1 ;; b) echo 2 ;; x) echo 9 ;; esac }

# UDP sockets: plane P is 10.9.P.0/24, in which a has .1, b .2, x .9.
build_network() {
  local node p
  build_links
  address() { echo "10.9.$2.$(host_number "$1")"; }  # address NODE PLANE
  for node in a b x; do
    for p in 0 1; do ip -n "$net-$node" address add "$(address $node $p)/24" dev e0; done
  done
  settings_a=(MRC_PLANES="$(address a 0),$(address a 1)")
  settings_b=(MRC_PLANES="$(address b 0),$(address b 1)")
}

# Packet ports: a fabric with one plane and 255 hosts, of which h0 and h1 are the victims; x has the
# addresses of the other 253, that is fd00:1::3 to fd00:1::ff.
build_fabric() {
  local k separator=
  build_links
  address() { echo "fd00:1::$(host_number "$1")"; }
  {
    echo '{ "name": "strangers", "forwarding": "ecmp", "planes": 1, "t0": 16, "t1": 1, "hosts": ['
    for ((k = 0; k < 255; k++)); do
      echo "$separator{ \"interfaces\": [\"e0\"] }"
      separator=,
    done
    echo ']}'
  } >"$work/fabric.json"
  {  # one route, with a source address: otherwise the kernel looks at all for every packet
    for ((k = 3; k <= 255; k++)); do printf 'address add fd00:1::%x/128 dev e0 nodad\n' "$k"; done
    echo 'route add fd00:1::/64 dev e0 src fd00:1::3'
  } | ip -n "$net-x" -batch -
  ip -n "$net-a" address add fd00:1::1/64 dev e0 nodad
  ip -n "$net-b" address add fd00:1::2/64 dev e0 nodad
  settings_a=(MRC_FABRIC="$work/fabric.json" MRC_HOST=h0)
  settings_b=(MRC_FABRIC="$work/fabric.json" MRC_HOST=h1)
}

on() {  # on NODE COMMAND...: in its namespace
  local node=$1
  shift
  ip netns exec "$net-$node" "$@"
}

# Half a minute until a silent peer is given up: stopped processes are no dead ones.
patient=(--option timeout=14 --option retry_exponential=12)
start_transfer() {  # start_transfer OPTION...: from a to b, until it is interrupted
  transfer_between a b "$(address b 0)" "$@"
}
# 0.2 Gb/s leave the processors to the flood. With load=() data is always under way, which
# forged acknowledgements need: others are stale.
load=(--rate 200M)
transfer_between() {  # transfer_between NODE NODE HOST OPTION...: client, server, its address
  start server ip netns exec "$net-$2" env "${settings_b[@]}" "$mrc_perf" --quiet --port 18515
  server=$pid
  until_listening 18515 on "$2"
  start client ip netns exec "$net-$1" env "${settings_a[@]}" "$mrc_perf" "$3" --port 18515 \
    --duration 3600s --interval 50ms --json "$work/client.json" --size 64K \
    "${load[@]}" --check "${@:4}"
  client=$pid
  until_true 20 moving || fail 'the transfer does not get going'
}
lines() { grep -c 'Gb/s' "$work/client.out" || true; }
# In the last 50 ms something arrived.
moving() { tail -n 1 "$work/client.out" 2>/dev/null | grep_all ' [0-9.]*[1-9][0-9.]* Gb/s'; }
newly_moving() { (($(lines) > before + 2)) && moving; }
# still_going WHAT: the transfer gets on, after what was done to it.
still_going() {
  gone "$client" && fail "$1: the transfer has ended: $(tail -n 2 "$work/client.err")"
  before=$(lines)
  until_true 10 newly_moving || fail "$1: nothing moves any more"
  gone "$client" && fail "$1: the transfer has ended: $(tail -n 2 "$work/client.err")"
  return 0
}
# end_transfer WHAT [LEAST]: interrupts it; until then there was no error on either side. At least
# so many of the packets forged for a have come as far as its engine, which has dropped them:
# otherwise the test would show nothing.
end_transfer() {
  gone "$client" && fail "$1: the transfer has ended: $(tail -n 2 "$work/client.err")"
  interrupt "$client" 20 130 "$1: the client"
  expect "$1: error" [ "$(json "$work/client.json" error)" = null ]
  expect "$1: check_errors" [ "$(json "$work/client.json" check_errors | total)" = 0 ]
  exit_code "$server" 20 0 "$1: the server"
  local dropped
  dropped=$(jq '.device.engine.drops | add' "$work/client.json")
  say "$dropped packets dropped by a"
  expect "$1: forged packets have arrived" [ "$dropped" -ge "${2:-0}" ]
}

# look [NODE INTERFACE]: what the attacker may know, as seen at an interface (default: b's port of
# the bridge): the queue pairs of the data, $qpn_a and $qpn_b, UDP ports, and the newest PSN.
look() {
  until_true 10 look_once "$@" || fail 'no packets of the transfer are seen'
  say "known to the attacker: queue pairs $qpn_a at a and $qpn_b at b, PSN $psn_b"
}
look_once() {
  qpn_a='' qpn_b=''
  on "${1:-hub}" "$forge" watch dev="${2:-to-b}" milliseconds=400 >"$work/seen.out"
  local most=(sort -k8,8nr "$work/seen.out") line
  line=$("${most[@]}" | awk '$5 == "0xc7" || $5 == "0xca"' | head -n 1)
  read -r _ sport_a _ port_b _ qpn_b psn_b _ <<<"$line" || true
  line=$("${most[@]}" | awk '$5 == "0xdc" || $5 == "0xd1"' | head -n 1)
  read -r _ sport_b _ port_a _ qpn_a _ <<<"$line" || true
  [[ -n $qpn_a && -n $qpn_b ]]
}

# to_a, to_b KIND NAME=VALUE...: forged packets in the name of the other one, to its queue pair of
# the data, in plane $plane (default 0).
plane=0
to_a() {
  on x "$forge" "$1" from="$(address b "$plane")" to="$(address a "$plane")" port="$port_a" \
    sport="$sport_b" qpn="$qpn_a" "${@:2}"
}
to_b() {
  on x "$forge" "$1" from="$(address a "$plane")" to="$(address b "$plane")" port="$port_b" \
    sport="$sport_a" qpn="$qpn_b" "${@:2}"
}

# What b's port of the bridge sees, from start_watch to end_watch.
start_watch() {  # start_watch NODE NAME=VALUE...
  start watch ip netns exec "$net-hub" "$forge" watch dev="to-$1" "${@:2}"
  watcher=$pid
  until_true 10 grep -qs listening "$work/watch.out" || fail 'the watcher does not listen'
}
end_watch() { exit_code "$watcher" 30; }
answers() {  # answers OPCODE: that were seen
  awk -v opcode="$1" '$5 == opcode { sum += $9 } END { print sum + 0 }' "$work/watch.out"
}

# ---- two victim processes (victim.cpp) instead of mrc_perf, whose first PSNs are known

say_to_sender() { echo "$1" >&5; }
posted() { grep -q '^posted' "$work/sender.out"; }
told() { (($(grep -c '^completed' "$work/sender.out") >= $1)); }
# start_victims WRITES SIZE: sets $qpn_a, $qpn_b, $psn_a (the sender's first PSN) and $psn_b
start_victims() {
  local environment=(env MRC_TIMEOUT=14 MRC_RETRY_EXPONENTIAL=12)
  start receiver ip netns exec "$net-b" "${environment[@]}" "${settings_b[@]}" \
    "$victim" receive 18516
  receiver=$pid
  until_listening 18516 on b
  mkfifo "$work/orders"
  exec 5<>"$work/orders"
  ip netns exec "$net-a" "${environment[@]}" "${settings_a[@]}" \
    "$victim" send "$(address b 0)" 18516 "$@" <"$work/orders" >"$work/sender.out" \
    2>"$work/sender.err" &
  sender=$!
  until_true 20 grep -qs connected "$work/sender.out" || fail 'the sender does not connect'
  until_true 20 grep -qs connected "$work/receiver.out" || fail 'the receiver does not connect'
  read -r _ qpn_a psn_a <"$work/sender.out"
  read -r _ qpn_b psn_b <"$work/receiver.out"
  port_a=4791 port_b=4791 sport_a=50000 sport_b=50000
  say "known to the attacker: queue pairs $qpn_a at a and $qpn_b at b, first PSNs $psn_a, $psn_b"
}
# all_completes N: what the sender has posted is complete in the end, and without errors
all_completes() {
  say_to_sender finish
  exit_code "$sender" 40
  expect_text "$work/sender.out" "completed $1 failed 0"
}
