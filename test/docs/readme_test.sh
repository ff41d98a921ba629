#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# readme_test.sh [CXX]: README's first program compiles with the commands that README gives, prints
# what README says, and is the same as examples/first_program.cpp. CXX takes the place of g++.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "${MRC_SOURCE_DIR:-$here/../..}" && pwd)
compiler=${1:-g++}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The first cpp block, and the two blocks after it: the commands, and what it prints.
awk -v folder="$work" '
  /^```/ && !open { open = 1; kind = substr($0, 4); if (kind == "cpp") seen = 1; n += seen; next }
  /^```/ { open = 0; next }
  open && seen && n <= 3 { print > (folder "/block" n) }' "$root/README.md"
for n in 1 2 3; do
  if [[ ! -s $work/block$n ]]; then
    echo "README.md has no C++ block, followed by a block with the commands and one with its output"
    exit 1
  fi
done
mv "$work/block1" "$work/first.cpp"
if ! grep -v '^// ' "$root/examples/first_program.cpp" | diff "$work/first.cpp" -; then
  echo "README's first program differs from examples/first_program.cpp"
  exit 1
fi

command=$(cat "$work/block2")
if [[ $command != *g++\ * || $command != *'-Iinclude'* ]]; then
  echo "no commands that compile with g++ and -Iinclude: $command"
  exit 1
fi
cd "$work"
ln -s "$root/include" include
command=${command//g++/"$compiler"}
command=${command// -O2 / -O0 }  # which takes half the time; what it prints is the same
echo "$command"
if ! output=$(env -u MRC_FABRIC -u MRC_FAULTS -u MRC_PLANES bash -ec "$command"); then
  echo "it failed, and printed: $output"
  exit 1
fi
diff <(printf '%s\n' "$output") block3 || {
  echo "the program does not print what README says"
  exit 1
}
