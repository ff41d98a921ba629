#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Forged port status: "none of my ports is up", once in each plane and in the name of either side.
# A status is a hint: the transfer goes on, and no plane is lost for good.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_network
start_transfer
look

say 'mask 0 to the endpoint, of every slot that the peer may have'
for plane in 0 1; do
  for slot in 0 1; do
    to_a status qpn=2 mask=0 slot=$slot psn=7
    to_b status qpn=2 mask=0 slot=$slot psn=7
  done
done
still_going 'mask 0'

say 'the same to the queue pairs themselves, and to those with the next numbers'
for plane in 0 1; do
  for ((i = 0; i < 4; i++)); do
    to_a status qpn=$((qpn_a + i)) mask=0 psn=8
    to_b status qpn=$((qpn_b + i)) mask=0 psn=8
  done
done
still_going 'mask 0 to queue pairs'

say 'a mask without the planes that there are, with all numbers of requests'
plane=0
to_a status qpn=2 mask=0xfffffffc step=1 count=65536
to_b status qpn=2 mask=0xfffffffc step=1 count=65536
still_going 'a mask of other planes'

say 'all planes but one, one after the other'
for mask in 1 2; do
  for plane in 0 1; do
    to_a status qpn=2 mask=$mask psn=$((20000 + mask))
    to_b status qpn=2 mask=$mask psn=$((20000 + mask))
  done
  still_going "mask $mask"
done
both_planes() {  # in the last line both planes carry something
  tail -n 1 "$work/client.out" | grep_all -E '\|[^|0-9]* [1-9][0-9]*\|[^|0-9]* [1-9][0-9]*$'
}
until_true 20 both_planes || fail "a plane is out of use: $(tail -n 1 "$work/client.out")"

say 'answers to requests that were never made, with all numbers'
to_a response qpn=2 op=0 step=1 count=65536
to_b response qpn=2 op=1 step=1 count=65536
still_going 'responses'
end_transfer 'port status' 1000
