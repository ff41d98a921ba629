#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One acknowledged write runs through no more files than compile_cost.txt says, and two: which of
# the rare ways a write takes differs from run to run.
set -euo pipefail
source_dir=${MRC_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
command -v gcov >/dev/null || { echo "needs gcov" && exit 77; }
limit=$(awk '$1 == "write_files" { print $2 }' "$source_dir/test/header_only/compile_cost.txt")
exec "$source_dir/scripts/write_files" --runs 3 --most $((limit + 2))
