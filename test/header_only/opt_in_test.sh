#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# opt_in_test.sh VERBS: options control, fabric and verbs in header-only programs. Without
# mrc/control.hpp, mrc/fabric.hpp or mrc/verbs.hpp an error that names the remedy; with it there is
# a socket, the description is read, or devices are looked for. VERBS: 1 if libibverbs' headers are
# there.
set -euo pipefail
programs=$MRC_BUILD_DIR/test/header_only
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '{ "planes": 1, "hosts": [{ "addresses": ["fd00:9::1"], "interfaces": ["none0"] }] }' \
  >"$work/good.json"
echo '{ "planes": 0, "hosts": 1 }' >"$work/bad.json"

expect() {  # expect TEXT PROGRAM FABRIC [VERBS [CONTROL]]: it fails with that in its message
  local output status=0
  output=$("$programs/$2" "$3" "${4:-}" ${5+"$5"} </dev/null) || status=$?
  if [[ $status != 1 || $output != *"$1"* ]]; then
    printf '%s: expected status 1 and "%s", got %s and "%s"\n' "$2" "$1" "$status" "$output" >&2
    exit 1
  fi
}
expect 'unsupported: option '"'fabric'"': this program was built without fabrics' \
  header_only_plain "$work/good.json"
expect 'include <mrc/fabric.hpp>' header_only_plain "$work/good.json"
# Not a host of that fabric: found out after the description was read.
expect 'fd00:9::1' header_only_more "$work/good.json"
expect 'bad.json:1' header_only_more "$work/bad.json"
expect 'unsupported: option '"'verbs'"': this program was built without verbs planes' \
  header_only_plain '' no_nic0
expect 'include <mrc/verbs.hpp>' header_only_plain '' no_nic0
expect 'unsupported: option '"'control'"': this program was built without control sockets' \
  header_only_plain '' '' "$work/sockets"
expect 'include <mrc/control.hpp>' header_only_plain '' '' "$work/sockets"
"$programs/header_only_plain" '' '' auto </dev/null >/dev/null  # nobody asked for one
mkdir "$work/sockets"
mkfifo "$work/wait"
exec 9<>"$work/wait"
"$programs/header_only_more" '' '' "$work/sockets" <&9 >"$work/control.out" &
control=$!
for _ in {1..600}; do
  if grep -q open "$work/control.out"; then break; fi
  sleep 0.05
done
sockets=("$work"/sockets/*.sock)
kill "$control"
wait "$control" || true
if [[ ${#sockets[@]} != 1 || ! -S ${sockets[0]} ]]; then
  echo "header_only_more: no control socket: $(cat "$work/control.out")" >&2
  exit 1
fi
if [[ $1 == 1 ]]; then  # <infiniband/verbs.h> is there
  expect 'refused: ' header_only_more '' no_nic:0  # no number of a port
fi

# What needs neither works in all.
for program in header_only_plain header_only_more; do
  if ! [[ $("$programs/$program" '' '') == open ]]; then
    echo "$program: no device on the loopback" >&2
    exit 1
  fi
done
echo "control sockets, fabrics and RDMA devices are opt-in"
