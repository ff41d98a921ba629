#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# links_test.sh [ROOT]: relative links in README.md and docs/*.md lead to files that exist and to
# headings that are there; docs/index.md lists every page; paths of scripts, tools and headers that
# the pages name in backquotes exist, headers also relative to include/mrc/. Prints FILE:LINE for
# each finding.
set -euo pipefail
export LC_ALL=C.UTF-8
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "${1:-${MRC_SOURCE_DIR:-$here/../..}}"

pages=(README.md docs/*.md)

# The anchors of a page, as GitHub makes them from its headings.
anchors() {
  awk '/^```/ { code = !code } !code && /^#+ / { sub(/^#+ +/, ""); print }' "$1" |
    sed -E 's/\[([^]]*)\]\([^)]*\)/\1/g' | tr '[:upper:]' '[:lower:]' |
    sed -E 's/[^[:alnum:] _-]//g; s/ /-/g' |
    awk '{ print $0 (n[$0] ? "-" n[$0] : ""); ++n[$0] }'
}

declare -A anchors_of  # by page, a line each
has_anchor() {  # has_anchor PAGE ANCHOR
  if [[ ! -v anchors_of[$1] ]]; then anchors_of[$1]=$'\n'$(anchors "$1")$'\n'; fi
  [[ ${anchors_of[$1]} == *$'\n'"$2"$'\n'* ]]
}

# LINE<tab>TARGET of the links and pictures of a page outside of code.
links() {
  awk '/^```/ { code = !code }
    !code {
      rest = $0
      gsub(/`[^`]*`/, "", rest)
      while (match(rest, /\]\([^)]+\)/)) {
        print FNR "\t" substr(rest, RSTART + 2, RLENGTH - 3)
        rest = substr(rest, RSTART + RLENGTH)
      }
    }' "$1"
}

findings=$(
  for page in "${pages[@]}"; do
    folder=.
    if [[ $page == */* ]]; then folder=${page%/*}; fi
    while IFS=$'\t' read -r line target; do
      if [[ $target == *://* || $target == mailto:* ]]; then continue; fi
      file=${target%%#*} anchor=
      if [[ $target == *'#'* ]]; then anchor=${target#*#}; fi
      path=$page
      if [[ -n $file ]]; then path=$folder/$file; fi
      if [[ ! -e $path ]]; then
        echo "$page:$line: no file $target"
      elif [[ -n $anchor ]] && ! has_anchor "$path" "$anchor"; then
        echo "$page:$line: no heading #$anchor in $path"
      fi
    done < <(links "$page")
    # `scripts/check`, `tools/scenarios/`, `include/mrc/wire/`; without arguments and wildcards.
    grep -noE '`(scripts|tools|bench|examples|include|test)/[A-Za-z0-9_./-]+' "$page" |
      tr -d '`' | while IFS=: read -r line path; do
      [[ -e ${path%.} ]] || echo "$page:$line: no file $path"
    done
    # `engine/engine.hpp`, relative to include/mrc/.
    grep -noE '`[a-z0-9_/]+\.(hpp|inl)`' "$page" | tr -d '`' | while IFS=: read -r line path; do
      [[ -e $path || -e include/mrc/$path || -e include/${path} ]] ||
        echo "$page:$line: no file $path"
    done
  done
  for page in docs/*.md; do
    name=${page#docs/}
    [[ $name == index.md ]] || grep -qF "($name" docs/index.md ||
      echo "docs/index.md: does not list $name"
  done
)
if [[ -n $findings ]]; then
  printf '%s\n' "$findings"
  exit 1
fi
echo "${#pages[@]} pages: all links lead somewhere"
