#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The scenarios of the repository compute what they did before: engine and simulator behave the same
# to the bit. Digests are in tools/scenarios/digests.txt; a change that is meant to change behaviour
# writes it anew with MRC_TEST_UPDATE_DIGESTS=1. Scenarios of more than three seconds only run then,
# and with MRC_TEST_SCOPE=long.
update=${MRC_TEST_UPDATE_DIGESTS:-}  # lib.sh takes MRC_* from the environment
. "$(dirname "${BASH_SOURCE[0]}")/../support/lib.sh"
all=$update
if [[ $scope == long ]]; then all=yes; fi
need_program "$mrc_sim"
list=$source_dir/tools/scenarios/digests.txt
long=' allreduce_loss alltoall_loss dead_links recovery recovery_large sendrecv '

grep '^#' "$list" >"$work/new.txt"
count=0
for file in "$source_dir"/tools/scenarios/*.json; do
  name=$(basename "$file" .json)
  if [[ -z $all && $long == *" $name "* ]]; then continue; fi
  "$mrc_sim" run "$file" --json "$work/$name.json" >"$work/$name.out" 2>"$work/$name.err" ||
    fail "mrc_sim run $name"
  digests=$(jq -r '[.runs[].digest] | join(" ")' "$work/$name.json")
  printf '%s %s\n' "$name" "$digests" >>"$work/new.txt"
  count=$((count + 1))
  if [[ -z $update ]]; then
    expected=$(sed -n "s/^$name //p" "$list")
    [[ $digests == "$expected" ]] ||
      fail "$name: digests are $digests, in ${list##*/} ${expected:-none}"
  fi
done
if [[ -n $update ]]; then cp "$work/new.txt" "$list"; fi
say "$count scenarios as before"
