#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A few hundred random fabrics with random faults, every byte and completion checked; and that a
# seed can be run alone, the same each time.
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
need_program "$mrc_sim"
cd "$work"

seeds=250  # after those that the unit test of the soak runs
start soak "$mrc_sim" soak --from 151 "$seeds"
exit_code "$pid" 250 0
expect_text soak.out "$seeds passed, 0 failed"

say 'one seed'
start soak "$mrc_sim" soak --seed 7
exit_code "$pid" 60 0
expect_text soak.out digest

say 'SIGINT: status 130, with what was done'
start soak "$mrc_sim" soak 1000000
until_true 30 busy "$pid" || fail 'it does not get going'
interrupt "$pid" 60
expect_text soak.out passed
