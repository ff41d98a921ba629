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
cases() {
  awk '
    function print_names(    name) {
      gsub(/" +"/, "", text)
      while (match(text, /TEST_CASE[A-Z_]*\( *"[^"]*"/)) {
        name = substr(text, RSTART, RLENGTH - 1)
        sub(/^[^"]*"/, "", name)
        print file "\t" name
        text = substr(text, RSTART + RLENGTH)
      }
      text = ""
    }
    FNR == 1 { print_names(); file = substr(FILENAME, length("test/") + 1) }
    /TEST_CASE/ { print_names(); wanted = 1 }
    wanted { text = text $0 " "; if (/\) *\{/) wanted = 0 }
    END { print_names() }' test/*/*_test.cpp
}

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
  awk -F '\t' -v page="$page" '
    reading == "cases" { there[$0]; next }
    $2 == "!" { print page ":" $1 ": " $3; next }
    !(($2 "\t" $3) in there) { print page ":" $1 ": no test case \"" $3 "\" in test/" $2 }
  ' reading=cases <(cases) reading=named <(printf '%s\n' "$named")
  # Files of the library, in backquotes.
  grep -noE '`[a-z_/0-9]+/[a-z_0-9]+\.(hpp|inl)`' "$page" | tr -d '`' | sort -u -t: -k2 |
    while IFS=: read -r line file; do
      [[ -f include/mrc/$file ]] || echo "$page:$line: no file include/mrc/$file"
    done
  awk -F ' *\\| *' -v page="$page" '
    function need(id) { if (rows[id] != 1) print page ": " id " does not have exactly one row" }
    /^\|/ { ++rows[$2] }
    END {
      for (i = 1; i <= 25; ++i) need("C-" i)
      for (i = 1; i <= 30; ++i) need("O-" i)
    }' "$page"
)
if [[ -n $findings ]]; then
  printf '%s\n' "$findings"
  exit 1
fi
echo "$(wc -l <<<"$named") references to $(cut -f 2- <<<"$named" | sort -u | wc -l) tests"
