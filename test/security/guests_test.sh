#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# EV probes of hosts of the fabric to which no queue pair is connected, from 253 addresses: answered
# at a limited rate, 12,000 per second in all, and the transfer goes on.
. "$(dirname "${BASH_SOURCE[0]}")/attack_lib.sh"
build_fabric
start_transfer
look
count=100000
most=50000  # 12,000 per second in the 3 s that are watched, and a burst; the watch may end late

say "$count EV probes from 16 addresses"
start_watch b seconds=3 id=4711
on x "$forge" evprobe from=fd00:1::3 froms=16 to="$(address b)" psn=4711 count=$count rate=40000
end_watch
n=$(answers 0xd9)
say "$n answers"
expect 'answers to guests' [ "$n" -ge 500 ]
expect 'few answers to guests' [ "$n" -le $most ]
still_going '16 guests'

say 'from 253 addresses, and from addresses that no host has'
start_watch b seconds=3 id=4712
on x "$forge" evprobe from=fd00:1::3 froms=253 to="$(address b)" psn=4712 count=$count rate=40000
on x "$forge" evprobe from=fd00:2::0 froms=256 to="$(address b)" psn=4712 count=20000 rate=50000
end_watch
n=$(answers 0xd9)
say "$n answers"
expect 'few answers to many guests' [ "$n" -le $most ]
still_going '253 guests'
end_transfer 'guests'
