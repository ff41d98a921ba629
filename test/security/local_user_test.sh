#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# An ordinary user of the same host, without any privilege: loopback addresses are everybody's, so
# forged packets need no raw socket. Both victims run as root on four loopback planes.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
need_tool setpriv
build_network
chmod 711 "$work"
install -m 755 "$forge" "$work/forge"
settings_a=(MRC_PLANES=loopback:4) settings_b=(MRC_PLANES=loopback:4)
load=()
transfer_between a a 127.0.0.1
look a lo

nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --inh-caps=-all
  --bounding-set=-all "$work/forge")
on a "${nobody[@]}" probe via=udp from=127.0.0.1 to=127.0.0.1 port=9 ||
  skip 'forge cannot be run without privilege here'
send_as_nobody() {  # send_as_nobody KIND PLANE PORT NAME=VALUE...
  local there=127.0.0.$(($2 + 1))
  on a "${nobody[@]}" "$1" via=udp from=$there to=$there port="$3" "${@:4}"
}

say 'port status with mask 0, in each plane, to both processes'
for plane in 0 1 2 3; do
  for slot in 0 1; do
    send_as_nobody status $plane "$port_a" qpn=2 mask=0 slot=$slot psn=7
    send_as_nobody status $plane "$port_b" qpn=2 mask=0 slot=$slot psn=7
  done
done
still_going 'port status'

say 'NAKs, NACKs, ACKs and writes over all PSNs'
send_as_nobody nak 0 "$port_a" qpn="$qpn_a" step=1024 count=16384
still_going 'NAKs'
send_as_nobody nack 1 "$port_a" qpn="$qpn_a" step=1024 count=16384
still_going 'NACKs'
send_as_nobody write 2 "$port_b" qpn="$qpn_b" step=1024 count=16384
still_going 'writes'
send_as_nobody ack 3 "$port_a" qpn="$qpn_a" step=1024 count=16384
send_as_nobody sack 3 "$port_a" qpn="$qpn_a" step=1024 count=16384 ahead=10
still_going 'ACKs'

say 'garbage and probes'
send_as_nobody garbage 0 "$port_b" qpn="$qpn_b" count=60000 rate=60000
send_as_nobody probe 0 "$port_b" qpn="$qpn_b" count=60000 rate=60000
still_going 'garbage'
end_transfer 'a local user' 1000
