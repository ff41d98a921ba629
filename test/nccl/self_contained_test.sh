#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# self_contained_test.sh PLUGIN: a node that has glibc 2.34 and nothing else can load the plugin,
# and NCCL finds its tables there and nothing else.
set -euo pipefail
export LC_ALL=C
plugin=$1
newest_glibc=2.34  # of Ubuntu 22.04 (2.35) and RHEL 9, the older one
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}
for tool in readelf nm ldd; do
  if ! command -v "$tool" >/dev/null; then
    echo "$tool not found"
    exit 77
  fi
done
[[ -f $plugin ]] || { echo "no file $plugin"; exit 1; }
dynamic=$(readelf -dW "$plugin")

# --- What has to be there when it is loaded.
needed=$(sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' <<<"$dynamic" |
  grep -vE '^(libstdc\+\+|libgcc_s|libc|libm|ld-linux-[a-z0-9-]+)\.so\.[0-9]+$' || true)
[[ -z $needed ]] || fail "needs $(tr '\n' ' ' <<<"$needed")"
! grep -qE '\((RPATH|RUNPATH)\)' <<<"$dynamic" || fail "has a search path"
! grep -q '(TEXTREL)' <<<"$dynamic" || fail "has relocations in its code"

# --- Versions of glibc's symbols.
versions=$(readelf -VW "$plugin" | grep -oE 'GLIBC_[0-9.]+' | sort -uV)
[[ -n $versions ]] || fail "no version of glibc found"
newest=$(printf '%s\n' "$versions" "GLIBC_$newest_glibc" | sort -V | tail -1)
if [[ $newest != "GLIBC_$newest_glibc" ]]; then
  fail "needs $newest, and $newest_glibc is the newest allowed:" \
    "$(nm -D --undefined-only "$plugin" | grep -F "@$newest" | tr '\n' ' ')"
fi

# --- Every undefined symbol is found in what it needs (NCCL opens plugins with RTLD_NOW).
unresolved=$(ldd -r "$plugin" 2>&1 | grep -E 'undefined symbol|not found' || true)
[[ -z $unresolved ]] || fail "$unresolved"

# --- Exports: the tables, one for each version.
wanted=$(printf 'ncclNetPlugin_v%s\n' 6 7 8 9 10 11 12 | sort)
exported=$(nm -D --defined-only "$plugin" | cut -d ' ' -f 3- | sort)
[[ $exported == "$wanted" ]] || fail "exports $(tr '\n' ' ' <<<"$exported")"
! nm -D --defined-only "$plugin" | grep ' u ' || fail "has GNU_UNIQUE symbols"
notes=$(readelf -sW --dyn-syms "$plugin" | grep -E ' ncclNetPlugin_v' | grep -v ' OBJECT ' || true)
[[ -z $notes ]] || fail "tables that are not data: $notes"

# --- Threads may still run when NCCL unloads it; and no memory is both writable and executable.
grep -q 'FLAGS_1.*NODELETE' <<<"$dynamic" || fail "can be unloaded"
! readelf -lW "$plugin" | grep -E '(GNU_STACK|LOAD).* RWE ' || fail "has an executable stack"

((failures == 0)) || exit 1
echo "needs $(grep -c NEEDED <<<"$dynamic") libraries, glibc up to $(tail -1 <<<"$versions")"
