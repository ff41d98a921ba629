#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# NACKs of all kinds. UNEXP_EVENT ends a queue pair, and names PSN 0 where it answers a
# reliability probe; the others would make it send again, pause, and in the end give up.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_network
start_transfer "${patient[@]}"
look

say 'UNEXP_EVENT for PSN 0, while the receiver is silent and probes are out'
kill -STOP "$server"
to_a nack psn=0 count=6000 rate=10000
kill -CONT "$server"
still_going 'UNEXP_EVENT, PSN 0'

say 'UNEXP_EVENT over all PSNs, one in 64: all that is under way stays so meanwhile'
kill -STOP "$server"
to_a nack step=64 count=262144
kill -CONT "$server"
still_going 'UNEXP_EVENT over all PSNs'

say 'the other reasons, one in 256'
for reason in 0x01 0x02 0x06 0x07 0x0a 0x0b; do to_a nack step=256 count=65536 reason=$reason; done
still_going 'NACKs'
end_transfer 'NACKs' 1000
