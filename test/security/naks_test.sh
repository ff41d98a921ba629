#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NAKs for packets that nobody refused, over all PSNs, to the requester. One that is taken ends
# the queue pair.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
load=()
build_network
start_transfer
look

say 'one in each 4,096 PSNs, four times, and to the next queue pairs'
for ((i = 0; i < 4; i++)); do to_a nak psn=$((1024 * i)) step=4096 count=4096; done
for ((i = -2; i < 6; i++)); do to_a nak qpn=$((qpn_a + i)) step=2048 count=8192; done
still_going 'NAKs, 4,096 x 4'

say 'with all syndromes, and every PSN near the newest one seen'
for syndrome in 0x60 0x61 0x62 0x63; do to_a nak step=1024 count=16384 syndrome=$syndrome; done
look
to_a nak psn="$psn_b" step=1 count=100000
still_going 'NAKs, all syndromes'

say 'with guesses of what a secret might look like'
to_a nak step=1021 count=200000 guess=1
still_going 'NAKs, guessed'
end_transfer 'NAKs' 1000
