#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# inline_test.sh HEADER_ONLY COMPILED: objects of units that include all headers. Whatever they
# define is inline (a weak symbol): two units that include a header would define it twice.
set -euo pipefail
export LC_ALL=C
failed=0
if ! nm -C --defined-only "$1" | grep ' [WV] .*mrc::' >/dev/null; then
  echo "$1 defines nothing of the library"
  failed=1
fi
for object in "$@"; do
  if nm -C --defined-only "$object" | grep ' [A-TX-Z] '; then
    echo "not inline: the symbols above, in $object"
    failed=1
  fi
done
exit "$failed"
