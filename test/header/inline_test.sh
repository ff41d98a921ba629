#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# inline_test.sh OBJECT...: objects of units that include all headers. Whatever they define is inline
# (a weak symbol): two units of a program that include the same header would define it twice.
set -euo pipefail
export LC_ALL=C
failed=0
for object in "$@"; do
  symbols=$(nm -C --defined-only "$object")
  if ! grep -q ' [WV] .*mrc::' <<<"$symbols"; then
    echo "$object defines nothing of the library"
    failed=1
  fi
  if grep ' [A-TX-Z] ' <<<"$symbols"; then
    echo "not inline: the symbols above, in $object"
    failed=1
  fi
done
exit "$failed"
