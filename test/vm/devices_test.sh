#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# shellcheck disable=SC2034,SC2154
# devices_test.sh: the virtual machine's devices are what the other tests take them for, and the
# faults of guest.sh do what they say.
vm_options=(--nics 3 --timeout 400)
. "$(dirname "${BASH_SOURCE[0]}")/guest.sh"

devices() {
  local n
  ibv_devices
  for n in 1 2 3; do
    ibv_devices | grep -qw "rxe$n" || fail "ibv_devices does not list rxe$n"
    ibv_devinfo -d "rxe$n" | grep -q PORT_ACTIVE || fail "rxe$n's port is not active"
    gid_index "$n" >/dev/null || fail "rxe$n has no GID $(gid_of "$n")"
  done
  (($(ibv_devices | grep -c rxe) == 3)) || fail 'other devices besides'
}

# write_bw MESSAGES: 64 KiB each, from rxe1 to rxe2 by the kernel's reliable connection.
write_bw() {
  local server status=0
  timeout 60 ib_write_bw -F -d rxe2 -x "$(gid_index 2)" -s 65536 -n "$1" >"$work/server" 2>&1 &
  server=$!
  until_true 20 listening 18515 || fail 'ib_write_bw does not listen'
  timeout 60 ib_write_bw -F -d rxe1 -x "$(gid_index 1)" -s 65536 -n "$1" 10.77.0.2 || status=$?
  wait "$server" || status=$?
  ((status == 0)) || { cat "$work/server" && fail "ib_write_bw ended with status $status"; }
}

traffic() {
  local from to ports
  from=$(packets_from 1) to=$(packets_to 2)
  capture_start 2
  write_bw 100
  capture_stop 2
  from=$(($(packets_from 1) - from)) to=$(($(packets_to 2) - to))
  ((from >= 1600 && to >= 1600)) || fail "100 x 64 KiB, but $from packets from nic1, $to to nic2"
  (($(captured 2 src host 10.77.0.1) >= 1600)) || fail "$(captured 2) packets captured"
  ports=$(source_ports 2 1)
  [[ $ports =~ ^[0-9]+$ ]] || fail "one connection, but these UDP source ports: ${ports//$'\n'/ }"
  ((ports >= 49152)) || fail "UDP source port $ports"
}

traffic_with_loss() {
  local count
  lose 2 2
  write_bw 100
  count=$(lost 2)
  no_faults 2
  ((count >= 5)) || fail "$count packets lost of 1,600 and more"
}

# bare_verbs MODE: for a second; sets sent, and lost.
bare_verbs() {
  timeout 60 "$program" "$1" --seconds 1 --json >"$work/bare" || fail "exit status $?"
  cat "$work/bare"
  sent=$(jq .sent "$work/bare") lost=$(jq .lost "$work/bare")
  ((sent > 100)) || fail "$sent messages sent"
}
bare_verbs_without_loss() {
  bare_verbs "$1"
  ((lost == 0)) || fail "$lost messages lost of $sent"
}
bare_verbs_with_loss() {
  lose 2 5
  bare_verbs "$1"
  ((lost > 0 && lost <= $(lost 2))) || fail "$lost messages lost, $(lost 2) packets of the wire"
}

frames() {  # frames COUNT: from nic1 to nic2; sets what frames.py prints
  read -r _ received _ distinct _ overtaken _ least_delay_ms \
    < <(python3 "$vm_folder/frames.py" nic1 nic2 "$1")
  echo "received $received distinct $distinct overtaken $overtaken delay $least_delay_ms ms"
}
no_change() {
  frames 2000
  ((received == 2000 && distinct == 2000 && overtaken == 0))
}
loses() {
  local gone
  lose 2 10
  frames 2000
  ((received > 1700 && received < 1900 && distinct == received)) || return 1
  # Some packets of the kernel's own are among them.
  gone=$(lost 2)
  ((gone >= 2000 - received && gone <= 2020 - received)) || fail "lost() says $gone"
}
delays() {
  delay 2 200ms
  frames 200
  ((received == 200 && least_delay_ms >= 199))
}
duplicates() {
  duplicate 2 50
  frames 2000
  ((distinct == 2000 && received > 2800 && received < 3200))
}
reorders() {
  reorder 2 25 200ms
  frames 2000
  ((distinct == 2000 && received == 2000 && overtaken > 100))
}

nic_goes_down() {
  nic_down 3
  until_true 10 port_is 3 DOWN || fail 'the port stays active'
  nic_up 3
  until_true 10 port_is 3 ACTIVE || fail 'the port stays down'
}
wire_goes_down() {
  wire_down 3
  until_true 10 port_is 3 DOWN || fail 'the port stays active'
  wire_up 3
  until_true 10 port_is 3 ACTIVE || fail 'the port stays down'
}
address_goes() {
  address_delete 3
  until_true 10 no_gid 3 || fail 'its GID stays'
  address_add 3
  until_true 10 gid_index 3 || fail 'its GID does not come back'
}
no_gid() { ! gid_index "$1"; }
device_goes() {
  device_delete 3
  until_true 10 no_device 3 || fail 'rxe3 stays'
  device_add 3
  until_true 10 port_is 3 ACTIVE || fail 'rxe3 does not come back'
}

check 'three devices, ports active, GIDs of IPv4 addresses' devices
check 'ib_write_bw from rxe1 to rxe2, over the wires' traffic
check 'without faults all frames pass, in order' no_change
check 'lose' loses
check 'delay' delays
check 'duplicate' duplicates
check 'reorder' reorders
no_faults 2
check 'no_faults' no_change
check 'ib_write_bw with 2 % loss: packets are lost, all data arrive' traffic_with_loss
program=${MRC_BUILD_DIR-}/bench/bare_verbs
if [[ -x $program ]]; then
  for mode in ud uc; do
    check "bare_verbs $mode: all messages arrive" bare_verbs_without_loss "$mode"
    check "bare_verbs $mode with loss: no message is lost but by the wire" \
      bare_verbs_with_loss "$mode"
    no_faults 2
  done
else
  echo '# no bare_verbs in MRC_BUILD_DIR'
fi
check 'nic_down and nic_up' nic_goes_down
check 'wire_down and wire_up' wire_goes_down
check 'address_delete and address_add' address_goes
check 'device_delete and device_add' device_goes
finish
