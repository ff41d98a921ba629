#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes in the name of the peer: with a wrong key, outside of any memory, of lengths against the
# rules. One that were taken for the peer's would end the queue pair.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_network
start_transfer
look

say 'wrong keys: one in each 4,096 PSNs, four times; the next queue pairs'
for ((i = 0; i < 4; i++)); do to_b write psn=$((1024 * i)) step=4096 count=4096; done
for ((i = -2; i < 6; i++)); do to_b write qpn=$((qpn_b + i)) step=2048 count=8192; done
still_going 'writes, 4,096 x 4'

say 'wrong keys for every PSN near the newest one seen'
look
to_b write psn="$psn_b" step=1 count=50000
still_going 'writes, every PSN'

say 'lengths against the rules; immediates without a receive'
to_b write step=1024 count=16384 opcode=0xc7 length=4
still_going 'short middle packets'
to_b write step=1024 count=16384 opcode=0xcb length=0
still_going 'immediates'
to_b write step=1021 count=50000 guess=1
still_going 'writes, guessed'

say 'to the sender'
for i in 0 1; do to_a write qpn=$((qpn_a + i)) step=1024 count=16384; done
still_going 'writes to the sender'
end_transfer 'writes' 1000
