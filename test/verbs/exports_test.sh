#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports_test.sh: the verbs shim exports what the system's libibverbs exports, under the same
# versions, and can be loaded wherever there is glibc 2.34.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"
need_tool nm
need_tool readelf

say 'the same symbols as the system'"'"'s library'
# awk reads to the end: where many libraries are installed, ldconfig would write into a closed pipe.
system=$(/sbin/ldconfig -p | awk '$1 == "libibverbs.so.1" && !n++ { print $NF }')
[[ -n $system ]] || skip 'no libibverbs1'
# Default versions only: those with one @ are of the ABI before 2007, which nothing needs.
symbols() { nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { print $3 }'; }
symbols "$system" | grep '@@' | sed 's/@@/@/' | sort >"$work/theirs"
symbols "$shim" | sed 's/@@/@/' | sort >"$work/ours"
[[ $(wc -l <"$work/theirs") -gt 120 ]] || fail 'the system'"'"'s library exports too little'
missing=$(comm -13 "$work/ours" "$work/theirs")
[[ -z $missing ]] || fail "missing: $missing"
more=$(comm -23 "$work/ours" "$work/theirs" |
  grep -vE '^(IBVERBS_[0-9A-Z_.]+|ibv_\w+@IBVERBS_1\.1[5-9]|\w+@IBVERBS_PRIVATE_[0-9]+)$' || true)
[[ -z $more ]] || fail "exports besides: $more"

say 'the name that programs know, and what it needs'
dynamic=$(readelf -dW "$shim")
grep_all 'SONAME.*\[libibverbs\.so\.1\]' <<<"$dynamic" || fail 'another soname'
[[ $(readlink -f "$build/verbs_shim/libibverbs.so") == "$(readlink -f "$shim")" ]] ||
  fail 'libibverbs.so is another library'
needed=$(sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' <<<"$dynamic" |
  grep -vE '^(libc|libm|ld-linux-[a-z0-9-]+)\.so\.[0-9]+$' || true)
[[ -z $needed ]] || fail "needs $needed"
newest=$({ readelf -VW "$shim" | grep -oE 'GLIBC_[0-9.]+' && echo GLIBC_2.34; } |
  sort -uV | tail -1)
[[ $newest == GLIBC_2.34 ]] || fail "needs $newest"
unresolved=$(ldd -r "$shim" 2>&1 | grep -E 'undefined symbol|not found' || true)
[[ -z $unresolved ]] || fail "$unresolved"
