#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Option fabric in header-only programs: without mrc/fabric.hpp an error that names the remedy, with
# it the description is read.
set -euo pipefail
programs=$MRC_BUILD_DIR/test/header_only
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '{ "planes": 1, "hosts": [{ "addresses": ["fd00:9::1"], "interfaces": ["none0"] }] }' \
  >"$work/good.json"
echo '{ "planes": 0, "hosts": 1 }' >"$work/bad.json"

expect() {  # expect TEXT PROGRAM FABRIC: it fails with that in its message
  local output status=0
  output=$("$programs/$2" "$3") || status=$?
  if [[ $status != 1 || $output != *"$1"* ]]; then
    printf '%s: expected status 1 and "%s", got %s and "%s"\n' "$2" "$1" "$status" "$output" >&2
    exit 1
  fi
}
expect 'unsupported: option '"'fabric'"': this program was built without fabrics' \
  header_only_plain "$work/good.json"
expect 'include <mrc/fabric.hpp>' header_only_plain "$work/good.json"
# Not a host of that fabric: found out after the description was read.
expect 'fd00:9::1' header_only_fabric "$work/good.json"
expect 'bad.json:1' header_only_fabric "$work/bad.json"

# What needs no fabric works in both.
for program in header_only_plain header_only_fabric; do
  if ! [[ $("$programs/$program" '') == open ]]; then
    echo "$program: no device on the loopback" >&2
    exit 1
  fi
done
echo "fabrics are opt-in"
