#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# conformance_test.sh [ROOT]: docs/conformance.md may not promise what is not there. Every test case
# and source file that it names exists, every row names a test or says why not, and each conflict
# and open point has its row. Prints one line for each finding.
set -euo pipefail
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-${MRC_SOURCE_DIR:-$here/../..}}"
page=docs/conformance.md

# FILE<tab>NAME of every test case. Names that were wrapped over lines are put together again.
cases=$(
  for file in test/*/*_test.cpp; do
    tr '\n' ' ' <"$file" | sed -E 's/" +"//g' | grep -oE 'TEST_CASE[A-Z_]*\( *"[^"]*"' |
      sed -E "s|^[^\"]*\"([^\"]*)\"|${file#test/}\t\1|" || true
  done
)

# LINE<tab>FILE<tab>NAME of each test in a table's last column, where lines are parted by <br>; a
# reason for having none starts with a dash. LINE<tab>!<tab>FINDING for what is neither.
named=$(
  awk -F ' *\\| *' '
    /^\|/ && !/^\|-/ && $(NF - 1) != "Test" {
      n = split($(NF - 1), parts, /<br>/)
      if (n == 0) print FNR "\t!\tno test and no reason"
      for (i = 1; i <= n; ++i) {
        if (parts[i] ~ /^– ./) continue
        if (parts[i] ~ /^`[^`]+`: ./) {
          split(parts[i], half, /`: /)
          print FNR "\t" substr(half[1], 2) "\t" substr(parts[i], length(half[1]) + 4)
        } else {
          print FNR "\t!\tneither a test nor a reason: " parts[i]
        }
      }
    }' "$page"
)

findings=$(
  while IFS=$'\t' read -r line file name; do
    if [[ $file == '!' ]]; then
      echo "$page:$line: $name"
    elif ! grep -qxF -- "$file"$'\t'"$name" <<<"$cases"; then
      echo "$page:$line: no test case \"$name\" in test/$file"
    fi
  done <<<"$named"
  # Files of the library, in backquotes.
  grep -noE '`[a-z_/0-9]+/[a-z_0-9]+\.[hi]pp`' "$page" | tr -d '`' | sort -u -t: -k2 |
    while IFS=: read -r line file; do
      [[ -f include/mrc/$file ]] || echo "$page:$line: no file include/mrc/$file"
    done
  for id in C-{1..25} O-{1..30}; do
    [[ $(grep -c "^| $id |" "$page") == 1 ]] || echo "$page: $id does not have exactly one row"
  done
)
if [[ -n $findings ]]; then
  printf '%s\n' "$findings"
  exit 1
fi
echo "$(wc -l <<<"$named") references to $(cut -f 2- <<<"$named" | sort -u | wc -l) tests"
