#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports_test.sh: the verbs shim exports what libibverbs of any release exports, under the same
# versions, and can be loaded wherever there is glibc 2.34.
. "$(dirname "${BASH_SOURCE[0]}")/verbs_lib.sh"
need_tool nm readelf

say 'the symbols of all releases of rdma-core, and of the system'"'"'s library'
listed=$(dirname "${BASH_SOURCE[0]}")/released_symbols.txt
symbols() { nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { print $3 }'; }
symbols "$shim" | sed 's/@@/@/' | sort >"$work/ours"
nodes=$(sed -nE 's/^(IBVERBS_PRIVATE_[0-9]+) .*/\1/p' \
  "$(dirname "${BASH_SOURCE[0]}")/../../verbs_shim/libibverbs.map")
# Symbols between libibverbs and its providers are in the nodes of all releases.
awk -v nodes="$nodes" '
  BEGIN { n = split(nodes, node, "\n") }
  /^#/ { next }
  $2 != "PRIVATE" { print $1 "@" $2; next }
  { for (i = 1; i <= n; ++i) print $1 "@" node[i] }
  END {
    for (i = 1; i <= n; ++i) {
      number = node[i]
      sub(/.*_/, "", number)
      print "verbs_register_driver_" number "@" node[i]
    }
  }' "$listed" | sort >"$work/wanted"
[[ $(wc -l <"$work/wanted") -gt 900 ]] || fail 'the list is too short'
missing=$(comm -13 "$work/ours" "$work/wanted")
[[ -z $missing ]] || fail "missing: $missing"
more=$(comm -23 "$work/ours" "$work/wanted" |
  grep -vE '^mrc_verbs_(shim|device_folder)@IBVERBS_PRIVATE_34$' || true)
[[ -z $more ]] || fail "exports besides: $more"
# A system with a later release than the list knows: its symbols belong into the list.
# awk reads to the end: where many libraries are installed, ldconfig would write into a closed pipe.
system=$(/sbin/ldconfig -p | awk '$1 == "libibverbs.so.1" && !n++ { print $NF }')
if [[ -n $system ]]; then
  # Default versions only: those with one @ are of the ABI before 2007, which nothing needs.
  symbols "$system" | grep '@@' | sed 's/@@/@/' | sort >"$work/theirs"
  [[ $(wc -l <"$work/theirs") -gt 120 ]] || fail 'the system'"'"'s library exports too little'
  missing=$(comm -13 "$work/wanted" "$work/theirs")
  [[ -z $missing ]] || fail "released_symbols.txt lacks: $missing"
fi

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
