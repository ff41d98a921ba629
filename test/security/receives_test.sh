#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Writes with immediate in the name of the peer, without payload, for which no key is needed: none
# may complete a receive. The connection takes no harm.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_network
start_victims 16 4096

say 'by somebody who knows every number, and over all PSNs'
for plane in 0 1; do to_b write opcode=0xcb length=0 psn="$psn_a" step=1 count=16; done
to_b write opcode=0xcb length=0 step=2048 count=8192
say 'with guesses'
to_b write opcode=0xcb length=0 psn="$psn_a" step=1 count=100000 guess=1
sleep 0.5
if grep '^receive' "$work/receiver.out"; then fail 'a receive has completed'; fi

say 'the writes of the true peer arrive'
say_to_sender post
until_true 10 posted || fail 'nothing is posted'
all_completes 16
