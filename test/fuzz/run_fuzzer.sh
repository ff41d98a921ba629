#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_fuzzer.sh EXECUTABLE RUN_DIR SEED_DIR: fuzzes for MRC_FUZZ_SECONDS (10) seconds. New inputs go
# to RUN_DIR/corpus and are the start of the next run; an input that fails goes to RUN_DIR.
set -euo pipefail
executable=$1 run_dir=$2 seeds=$3

mkdir -p "$run_dir/corpus"
corpora=("$run_dir/corpus")
if [[ -d $seeds ]]; then corpora+=("$seeds"); fi
# Long inputs from the start (-len_control=0): short ones are programs that end before much happens,
# and half a minute is too short to wait until they grow.
exec "$executable" -max_total_time="${MRC_FUZZ_SECONDS:-10}" -timeout=20 -rss_limit_mb=3000 \
  -len_control=0 \
  -artifact_prefix="$run_dir/" -print_final_stats=1 -verbosity=0 "${corpora[@]}"
