#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Transport ACKs and SACKs for writes that the receiver, which is stopped, has never seen: none
# may complete. When it goes on, all do.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_network
start_victims 64 64
kill -STOP "$receiver"
say_to_sender post
until_true 10 posted || fail 'nothing is posted'
sleep 0.3

say 'by somebody who knows every number'
for plane in 0 1; do
  to_a ack psn=$((psn_a + 63)) msn=63
  to_a ack psn="$psn_a" step=1 count=64 msn_step=1
done
say 'by somebody who knows no PSN: one in each 64'
plane=0
to_a ack msn=0 step=64 count=262144
say 'SACKs that say that everything is there'
to_a sack psn="$psn_a" ahead=63 count=3
to_a sack psn="$psn_a" step=1 count=64
say_to_sender tell
until_true 10 told 1 || fail 'the sender does not tell'
cat "$work/sender.out"
expect_text "$work/sender.out" 'completed 0 failed 0'

say 'the receiver goes on'
kill -CONT "$receiver"
all_completes 64
