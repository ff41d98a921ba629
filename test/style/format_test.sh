#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# format_test.sh: all C++ sources are as clang-format 14 leaves them. Other versions format some
# things differently, so without that one the test is skipped.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${MRC_SOURCE_DIR:-$here/../..}"

format=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $format ]] || [[ $("$format" --version) != *' version 14.'* ]]; then
  echo "clang-format 14 not found"
  exit 77
fi
folders=()
for folder in include nccl_plugin verbs_shim bench examples test tools; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
# Compared here: --dry-run objects to closing comments of inline namespaces that it leaves alone.
# Many at once, since starting the program takes longer than what it has to do for a file, on all
# processors.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
find "${folders[@]}" '(' -name '*.[ch]pp' -o -name '*.inl' ')' -print0 >"$work/list"
mkdir "$work/formatted"
xargs -0 cp --parents -t "$work/formatted" .clang-format <"$work/list"
(cd "$work/formatted" && xargs -0 -n 100 -P "$(nproc)" "$format" -i <"$work/list")
findings=0
while IFS= read -r -d '' file; do
  if ! cmp -s "$file" "$work/formatted/$file"; then
    diff -u --label "$file" --label "$file as formatted" "$file" "$work/formatted/$file" || true
    findings=1
  fi
done <"$work/list"
exit "$findings"
