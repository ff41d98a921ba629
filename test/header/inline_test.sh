#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# inline_test.sh OBJECT: of a unit that includes all headers. Whatever it defines is inline (a weak
# symbol): two units of a program that include a header would define it twice.
set -euo pipefail
export LC_ALL=C
if ! nm -C --defined-only "$1" | grep ' [WV] .*mrc::' >/dev/null; then
  echo "$1 defines nothing of the library"
  exit 1
fi
if nm -C --defined-only "$1" | grep ' [A-TX-Z] '; then
  echo "not inline: the symbols above, in $1"
  exit 1
fi
