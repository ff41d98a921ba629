#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Garbage at a rate, to both sides: without a known opcode, with the right queue pair, from the
# peer's address and from another; and messages that ask for queue pairs. It is dropped.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_network
start_transfer
look

say 'random bytes'
to_b garbage opcode=0 count=120000 rate=120000
to_a garbage opcode=0 count=60000 rate=120000
still_going 'random bytes'

say 'with opcode and queue pair'
to_b garbage count=120000 rate=120000
to_a garbage count=60000 rate=120000
still_going 'right queue pairs'

say 'from an address of nobody'
on x "$forge" garbage from=10.9.0.77 to="$(address b 0)" qpn="$qpn_b" count=60000 rate=120000
still_going 'from elsewhere'

say 'resolution messages for queue pairs that are there, and for others'
to_b resolution count=20000 rate=50000
for ((i = 0; i < 20; i++)); do to_b resolution qpn=$((qpn_b + i)) count=100; done
still_going 'resolution'
end_transfer 'garbage'
