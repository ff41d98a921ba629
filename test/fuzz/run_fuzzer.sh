#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run_fuzzer.sh EXECUTABLE RUN_DIR SEED_DIR: fuzzes for MRC_FUZZ_SECONDS (30) seconds. New inputs go
# to RUN_DIR/corpus and are the start of the next run; an input that fails goes to RUN_DIR.
set -euo pipefail
executable=$1 run_dir=$2 seeds=$3

mkdir -p "$run_dir/corpus"
corpora=("$run_dir/corpus")
if [[ -d $seeds ]]; then corpora+=("$seeds"); fi
exec "$executable" -max_total_time="${MRC_FUZZ_SECONDS:-30}" -timeout=20 -rss_limit_mb=3000 \
  -artifact_prefix="$run_dir/" -print_final_stats=1 -verbosity=0 "${corpora[@]}"
