# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# What the tests in the virtual machine share: a test sources it first. Outside of the machine it
# boots one and runs the same test there, or skips it with 77 where there can be none; options of
# rxe_vm come from the array vm_options. So one boot runs one test, with many checks:
#
#   vm_options=(--nics 4)
#   . "$(dirname "${BASH_SOURCE[0]}")/guest.sh"
#   check 'two and two are four' test $((2 + 2)) = 4
#   finish
#
# N is the number of a NIC: device rxeN on nicN, whose other end is wireN, a port of the bridge.
set -euo pipefail
export LC_ALL=C
vm_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if [[ -z ${OPENMRC_VM-} ]]; then
  why=$("$vm_folder/rxe_vm" --prepare 2>&1) || {
    printf '[test skipped] %s\n' "$why"
    exit 77
  }
  exec "$vm_folder/rxe_vm" "${vm_options[@]}" bash "$(realpath "$0")" "$@"
fi

. "$vm_folder/../../scripts/lib.sh"
slack=10  # for emulated processors that have little of the real ones
work=$(mktemp -d)
passed=0 failed=0 finished=0

# ------------------------------------------------------------------------------ checks
ok() {  # ok NAME
  passed=$((passed + 1))
  printf 'ok %s\n' "$1"
}

not_ok() {  # not_ok NAME WHY
  failed=$((failed + 1))
  printf 'not ok %s: %s\n' "$1" "$2"
}

fail() {  # ends the check that it is called in
  printf '%s\n' "$*"
  exit 1
}

# check NAME COMMAND...: a line on whether the command, or function, succeeds. What it prints is the
# reason if it does not, its last line above all. It runs in a shell of its own.
check() {
  local name=$1 status=0 start=$SECONDS
  shift
  set +e
  (
    set -e
    "$@"
  ) >"$work/check" 2>&1 </dev/null
  status=$?
  set -e
  if ((status == 0)); then
    ok "$name, $((SECONDS - start)) s"
  else
    not_ok "$name" "$(tail -n 1 "$work/check" | grep . || echo "exit status $status")"
    head -n -1 "$work/check" | tail -n 20 | sed 's/^/    /'
  fi
}

finish() {  # the count, and the test's exit status
  finished=1
  printf '%s passed, %s failed\n' "$passed" "$failed"
  if ((failed > 0 || passed == 0)); then exit 1; fi
  exit 0
}

at_exit() {
  local status=$?
  if ((!finished)); then
    printf 'not ok the test: ended before its end, exit status %s\n' "$status"
    exit 1
  fi
}
trap at_exit EXIT

# ------------------------------------------------------------------------------ NICs and devices
address_of() { echo "10.77.0.$1"; }

nic_down() { ip link set "nic$1" down; }
nic_up() { ip link set "nic$1" up; }
wire_down() { ip link set "wire$1" down; }  # as when the switch's port fails
wire_up() { ip link set "wire$1" up; }
address_delete() { ip addr del "$(address_of "$1")/24" dev "nic$1"; }
address_add() { ip addr add "$(address_of "$1")/24" dev "nic$1"; }
device_delete() { timeout 30 rdma link del "rxe$1"; }  # waits for programs that have it open
device_add() { timeout 30 rdma link add "rxe$1" type rxe netdev "nic$1"; }

port_is() { grep -qw "$2" "/sys/class/infiniband/rxe$1/ports/1/state"; }  # N ACTIVE or N DOWN

# ------------------------------------------------------------------------------ faults
# Each replaces the one before, on packets to nicN; faults takes what tc-netem(8) does.
faults() {  # faults N NETEM_ARGUMENT...
  local nic=$1
  shift
  tc qdisc replace dev "wire$nic" root netem limit 100000 "$@"
}
lose() { faults "$1" loss "$2%"; }            # lose N PERCENT
duplicate() { faults "$1" duplicate "$2%"; }  # duplicate N PERCENT
no_faults() { tc qdisc delete dev "wire$1" root 2>/dev/null || true; }

# One processor receives from all NICs: with several, packets that netem delays overtake others.
keep_order() {
  local queue
  for queue in /sys/class/net/{nic,wire}*/queues/rx-*/rps_cpus; do echo 1 >"$queue"; done
}

packets_from() { cat "/sys/class/net/wire$1/statistics/rx_packets"; }  # that nicN has sent

# ------------------------------------------------------------------------------ captures
capture_start() {  # capture_start N: RoCE in both directions on wireN
  tcpdump -i "wire$1" -U --immediate-mode -s 128 -B 32768 -w "$work/wire$1.pcap" \
    'udp dst port 4791' 2>"$work/wire$1.tcpdump" </dev/null &
  echo $! >"$work/wire$1.pid"
  until_true 20 grep -q 'listening on' "$work/wire$1.tcpdump" || fail "tcpdump on wire$1"
}

size_rests() {  # size_rests FILE: it has not grown for a while
  local size
  size=$(stat -c %s "$1")
  sleep 0.3
  [[ $(stat -c %s "$1") == "$size" ]]
}

capture_stop() {  # capture_stop N: the file is $work/wireN.pcap
  local pid
  until_true 20 size_rests "$work/wire$1.pcap" || fail "packets on wire$1 do not end"
  pid=$(cat "$work/wire$1.pid")
  kill -INT "$pid"
  until_true 20 gone "$pid" || fail "tcpdump on wire$1 does not end"
}

source_ports() {  # source_ports N FROM: UDP source ports of RoCE packets from nicFROM, one a line
  tcpdump -nn -t -r "$work/wire$1.pcap" "src host $(address_of "$2") and udp dst port 4791" \
    2>/dev/null | sed -n 's/^IP [0-9.]*\.\([0-9]*\) > .*/\1/p' | sort -nu
}
