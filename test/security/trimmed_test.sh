#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Trimmed packets, which have no checksum: NACKs at a limited rate are all that forged ones cause.
# Over packet ports: the kernel does not give trimmed packets to UDP sockets.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_fabric
start_victims 16 4096
count=100000

say "$count trimmed packets of PSNs that are expected"
start_watch b seconds=4
to_b trimmed psn="$psn_a" step=1 wrap=4000 count=$count rate=50000
say 'cut shorter still, and over all PSNs'
to_b trimmed psn="$psn_a" step=1 count=4000 keep=12
to_b trimmed step=4096 count=4096
end_watch
n=$(answers 0xdd)
say "$n NACKs"
expect 'few NACKs' [ "$n" -le $((count / 20)) ]

say 'the writes of the true peer arrive'
say_to_sender post
until_true 10 posted || fail 'nothing is posted'
all_completes 16
