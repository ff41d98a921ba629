#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compile_cost_test.sh COMPILER OBJECT: what the implementing unit makes the compiler do, counted,
# since times depend on the machine: files of this project that it reads, their lines, and the
# functions in OBJECT, made of implementation.cpp beside this file without optimising: most are
# those of standard templates. None may exceed its limit in compile_cost.txt.
# MRC_TEST_UPDATE_LIMITS=1 writes the limits anew, two per cent above what is counted.
set -euo pipefail
export LC_ALL=C
source_dir=${MRC_SOURCE_DIR:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
compiler=$1
object=$2
limits=$source_dir/test/header_only/compile_cost.txt

if "$compiler" -dM -E -x c++ /dev/null | grep -q __clang__ ||
  [[ $("$compiler" -dumpversion) != 12* ]]; then
  echo "the limits are those of g++ 12 and its standard library"
  exit 77
fi

unit=("$compiler" -std=c++20 -O2 -I "$source_dir/include"
  "$source_dir/test/header_only/implementation.cpp")
declare -A counted
mapfile -t own < <("${unit[@]}" -M | tr -s ' \\' '\n\n' | grep "^$source_dir/include/mrc/")
counted[files]=${#own[@]}
counted[lines]=$(cat "${own[@]}" | wc -l)
counted[functions]=$(nm --defined-only "$object" | grep -c ' [TtWu] ')

if [[ -n ${MRC_TEST_UPDATE_LIMITS:-} ]]; then
  for what in files lines functions; do
    echo "$what $((counted[$what] * 102 / 100))"
  done >"$limits"
fi
failed=0
while read -r what limit; do
  echo "$what: ${counted[$what]}, limit $limit"
  ((counted[$what] <= limit)) || failed=1
done <"$limits"
if ((failed)); then
  cat >&2 <<'TEXT'
The implementing unit has become more expensive to compile. docs/performance.md, "Compiling", says
what costs most and what to write instead; scripts/bench_compile --against COMMIT
measures time and memory. If the cost is worth it, say in the commit what it is and run this test
with MRC_TEST_UPDATE_LIMITS=1.
TEXT
fi
exit "$failed"
