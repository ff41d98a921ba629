#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# transport_test.sh COMPILER: README's first program compiles, links and moves data with a copy of
# include/ that has no modules; what would need one names the header that brings it.
set -euo pipefail
source_dir=${MRC_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
compiler=${1:-c++}
# shellcheck source=test/header_only/modules.sh
source "$source_dir/test/header_only/modules.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

copy_transport "$source_dir" "$work/include"
printf '#define MRC_IMPLEMENTATION\n#include "mrc/mrc.hpp"\n' >"$work/mrc.cpp"
"$compiler" -std=c++20 -O0 -I "$work/include" "$source_dir/examples/first_program.cpp" \
  "$work/mrc.cpp" -o "$work/first" -pthread
(cd "$work" && env -i ./first | tee out)
grep -q '^success: "hello from' "$work/out"

failed=0
expect() {  # expect HEADER VARIABLE=VALUE: that setting is refused, and HEADER named
  local out
  if out=$(env -i "$2" "$work/first" 2>&1) || ! grep -q "include <mrc/$1.hpp>" <<<"$out"; then
    echo "$2: mrc/$1.hpp is not named: $out" >&2
    failed=1
  fi
}
echo '{}' >"$work/fabric.json"
expect fabric MRC_FABRIC="$work/fabric.json"
expect verbs MRC_VERBS=no_nic0
expect faults MRC_FAULTS=loss=0.1
expect control MRC_CONTROL="$work/sockets"
expect control MRC_DUMP="$work/dump"
exit "$failed"
