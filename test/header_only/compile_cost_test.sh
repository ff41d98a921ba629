#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# compile_cost_test.sh COMPILER OBJECT: what the implementing unit makes the compiler do, counted,
# since times depend on the machine: files of this project that it reads, their lines, and the
# functions in OBJECT, made of implementation.cpp beside this file without optimising: most are
# those of standard templates. Beside it the files and lines of include/mrc, of it without the
# simulator, and of the transport. None may exceed its limit in compile_cost.txt (write_files there
# is write_files_test.sh's). MRC_TEST_UPDATE_LIMITS=1 writes the limits anew: of what the compiler
# does two per cent above what is counted, of files and lines what is counted.
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

# What a reader has before him.
# shellcheck source=test/header_only/modules.sh
source "$source_dir/test/header_only/modules.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy_transport "$source_dir" "$work/transport"
cp -r "$source_dir/include/mrc" "$work/all"
count() {  # count NAME FOLDER: its files, and their lines
  counted[$1_files]=$(find "$2" -type f | wc -l)
  counted[$1_lines]=$(find "$2" -type f -exec cat {} + | wc -l)
}
count all "$work/all"
rm -r "$work/all/sim"
count without_sim "$work/all"
count transport "$work/transport"

if [[ -n ${MRC_TEST_UPDATE_LIMITS:-} ]]; then
  write_files=$(grep '^write_files ' "$limits")
  for what in files lines functions; do
    echo "$what $((counted[$what] * 102 / 100))"
  done >"$limits"
  for what in all_files without_sim_files without_sim_lines transport_files transport_lines; do
    echo "$what ${counted[$what]}"
  done >>"$limits"
  echo "$write_files" >>"$limits"
fi
failed=0
while read -r what limit; do
  [[ $what != write_files ]] || continue
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
