#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reliability probes in the name of the peer, 100,000 per second, and EV probes of it: answered at
# most at a limited rate, and the transfer goes on.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_network
start_transfer
look
count=100000

say "$count reliability probes"
start_watch b seconds=3
to_b probe id=0xBEEF count=$count rate=100000
still_going 'probes'
end_watch
n=$(answers 0xdc)
say "$n answers"
expect 'few answers to forged probes' [ "$n" -le $((count / 20)) ]

say "$count EV probes in the name of the peer"
start_watch b seconds=3 id=48879
to_b evprobe qpn=2 psn=48879 count=$count rate=100000
still_going 'EV probes'
end_watch
n=$(answers 0xd9)
say "$n answers"
# As those of strangers: 512 at once and 10,000 per second, in the 3 seconds of the watch.
expect 'few answers to forged EV probes' [ "$n" -le 31000 ]

say 'to the sender'
to_a probe id=0xBEEF count=20000 rate=100000
to_a evprobe qpn=2 count=20000 rate=100000
still_going 'probes of the sender'
end_transfer 'probes'
