#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Programs connect by GID while a stranger sends both of their hosts more hello per second than they
# answer: for queue pairs that do not exist, from many addresses, for those that connect, from one
# (with -DMRC_TEST_SCOPE=long from many, too), and in the peer's name with both numbers right. All
# connect, the numbers that they exchange are right, nobody is taken for another implementation,
# answers are limited, and the log says how many questions had none.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
. "$(dirname "${BASH_SOURCE[0]}")/../process/gid_lib.sh"
build_network
# Half a minute until a silent peer is given up: where the flood takes a core, much data is lost.
export MRC_TIMEOUT=14 MRC_RETRY_EXPONENTIAL=12
export MRC_CONNECT_TIMEOUT=120s  # likewise, of questions and answers
pairs=3      # that connect at once; the flood goes to the first one
rounds=60    # of numbers that are compared
least=10000  # packets of the flood that arrive before the programs connect
for ((k = 64; k < 128; k++)); do echo "address add 10.9.0.$k/24 dev e0"; done |
  ip -n "$net-x" -batch -

received() { on "$1" cat /sys/class/net/e0/statistics/rx_packets; }  # received NODE
gained() { (($(received "$1") - $2 >= least)); }                     # gained NODE BEFORE
queue_pair() { sed -n '1s/^[^ ]* \([0-9]*\) .*/\1/p' "$work/$1.out"; }

# flood NODE QPN RATE NAME=VALUE...: so many a second to the process with that queue pair, from four
# source ports, until unflood()
flood() {
  local node=$1 port=$((4791 + ($2 >> 16))) rate=$3 n  # each process of a host has its slot's port
  shift 3
  for ((n = 0; n < 4; n++)); do
    start "flood-$node-$n" ip netns exec "$net-x" "$forge" resolution to="$(address "$node" 0)" \
      port="$port" sport=$((50000 + n)) rate=$((rate / 4)) count=100000000 "$@"
    floods+=("$pid")
  done
}
floods=()
unflood() {
  local flooder
  for flooder in "${floods[@]}"; do
    gone "$flooder" && fail "the flood has ended: $(cat "$work"/flood-*.err)"
    kill "$flooder"
  done
  floods=()
}

start_programs() {  # start_programs NAME: NAME-a0, NAME-b0, ..., their process ids in $processes
  local i node
  processes=()
  for ((i = 0; i < pairs; i++)); do
    for node in a b; do
      local -n settings=settings_$node
      gid_start "$1-$node$i" "$rounds" ip netns exec "$net-$node" env "${settings[@]}"
      processes+=("$pid")
    done
  done
}
all_have_worked() {  # all_have_worked NAME
  local i node said
  for ((i = 0; i < pairs; i++)); do
    for node in a b; do
      expect_text "$work/$1-$node$i.out" "$rounds round trips" 'over 2 planes'
      if grep -q 'taken for' "$work/$1-$node$i.err"; then fail "$1: the peer was not known"; fi
    done
  done
  for node in a b; do  # of those that were flooded
    said=$(sed -n 's/.*by GID: \([0-9]*\) questions of other devices were left without an.*/\1/p' \
      "$work/$1-${node}0.err")
    expect "$1: the log of $node counts them" [ "$(total <<<"$said")" -gt 0 ]
  done
}

# connect_beside NAME SECONDS RATE MOST NAME=VALUE...: pairs of programs connect beside a flood,
# those at b so many seconds later; each host sends the stranger at most MOST answers per second. In
# the flood's arguments QPN stands for the number of the queue pair that is asked, NOBODY for one
# that does not exist, PEER for that of its peer, and FROM for the peer's address.
connect_beside() {
  local name=$1 late=$2 rate=$3 most=$4 i node peer own arguments begin time answers
  local -A before
  shift 4
  say "$name"
  start_programs "$name"
  for node in a b x; do before[$node]=$(received $node); done
  begin=${EPOCHREALTIME/./}
  for node in a b; do
    [[ $node == a ]] && peer=b || peer=a
    own=$(queue_pair "$name-${node}0")
    arguments=("${@//QPN/$own}")
    arguments=("${arguments[@]//NOBODY/$((own ^ 0x7000))}")
    arguments=("${arguments[@]//PEER/$(queue_pair "$name-${peer}0")}")
    flood $node "$own" "$rate" "${arguments[@]//FROM/$(address $peer 0)}"
  done
  for node in a b; do
    until_true 60 gained $node "${before[$node]}" || fail "$name: no flood arrives at $node"
  done
  for ((i = 0; i < pairs; i++)); do tell "$name-b$i" "$name-a$i"; done
  sleep "$late"
  for ((i = 0; i < pairs; i++)); do tell "$name-a$i" "$name-b$i"; done
  for pid in "${processes[@]}"; do
    exit_code "$pid" 60
    expect "$name: exit status" [ "$code" = 0 ]
  done
  unflood
  answers=$(($(received x) - before[x]))
  time=$((${EPOCHREALTIME/./} - begin))
  say "$(($(received a) - before[a])) packets at a, $(($(received b) - before[b])) at b," \
    "$answers answers in $((time / 1000)) ms"
  all_have_worked "$name"
  # Two bursts, and what else comes by.
  expect "$name: few answers" [ "$answers" -le $((2 * most * time / 1000000 + 2 * 256 + 1000)) ]
}

# beside SETTING NAME ARGUMENT...: with that setting of option peer
beside() {
  export MRC_PEER=$1
  connect_beside "$2-$1" "${@:3}"
}
nobody() { beside "$1" nobody 1 12000 1000 from=10.9.0.64 froms=64 qpn=NOBODY; }
one() { beside "$1" one 3 15000 10000 from=10.9.0.9 qpn=QPN; }
many() { beside "$1" many 3 30000 20000 from=10.9.0.64 froms=64 qpn=QPN; }
peer() { beside "$1" peer 3 30000 0 from=FROM qpn=QPN asker=PEER; }
nobody any
one openmrc
peer openmrc
if [[ $scope == long ]]; then
  nobody openmrc
  one any
  many any
  many openmrc
  peer any
fi
