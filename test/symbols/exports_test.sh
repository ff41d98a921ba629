#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports_test.sh VERSION LIBRARY PLUGIN UNLISTED [HEADER_ONLY]: what shared objects export. VERSION
# is the project's, as 0.1; LIBRARY is libopenmrc.so, PLUGIN a shared object with libopenmrc.a
# inside, UNLISTED one without a version script, HEADER_ONLY (if this build has it) one with an
# implementing unit compiled without any flag but -fPIC. MRC_UPDATE_EXPORTS=1 writes the list of
# LIBRARY's exports anew.
set -euo pipefail
export LC_ALL=C
version=$1 library=$2 plugin=$3 unlisted=$4 header_only=${5-}
namespace=mrc::v${version/./_}
list=$MRC_SOURCE_DIR/test/symbols/libopenmrc.txt
failures=0
fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# Exported symbols with their arguments, without symbol versions, each once.
exported() {
  nm -D --defined-only -C "$1" | cut -d ' ' -f 3- |
    sed -E 's/@@?[A-Z_0-9.]+$//; s/\[abi:cxx11\]//' | sort -u
}

# --- libopenmrc.so: the list that is committed, so that a change of the ABI is seen.
if [[ -n ${MRC_UPDATE_EXPORTS:-} ]]; then exported "$library" >"$list"; fi
diff "$list" <(exported "$library") || fail "exports of libopenmrc.so differ from $list"
if grep -vE "^((typeinfo( name)?|vtable) for )?$namespace::|^OPENMRC_$version\$" "$list"; then
  fail "libopenmrc.so exports what is not of $namespace"
fi
grep -q "^$namespace::Device::create_qp(" "$list" || fail "Device::create_qp is not exported"

# --- Unloading. A GNU_UNIQUE symbol is one that makes a shared object stay without anybody's wish.
for object in "$library" "$plugin"; do
  nm -D --defined-only "$object" | grep ' u ' && fail "$object has GNU_UNIQUE symbols"
done
for object in "$library" "$plugin"; do
  grep -q 'FLAGS_1.*NODELETE' <<<"$(readelf -d "$object")" || fail "$object can be unloaded"
done
grep -qF "soname: [libopenmrc.so.$version]" <<<"$(readelf -d "$library")" || fail "wrong soname"

# --- What it needs at run time.
needed=$(readelf -d "$library" | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' |
  grep -vE '^(libstdc\+\+|libgcc_s|libc|libm|libpthread|ld-linux-.*)\.so' || true)
if [[ -n $needed ]]; then fail "libopenmrc.so needs $needed"; fi

# --- A plugin: its own function alone, so that no two of them meet.
[[ $(exported "$plugin") == plugin_planes ]] ||
  fail "the plugin exports more than its function: $(exported "$plugin")"
if exported "$unlisted" | grep "$namespace::"; then
  fail "a plugin without a version script exports functions of the library"
fi

# --- Header-only without flags: of this version alone, and of what is defined once the API alone.
if [[ -n $header_only ]]; then
  grep -q "$namespace::" <<<"$(exported "$header_only")" ||
    fail "no symbols found in $header_only"
  if nm -D --defined-only -C "$header_only" | grep 'mrc::' | grep -v "$namespace"; then
    fail "symbols of the library without its version in $header_only"
  fi
  strong=$(nm -D --defined-only -C "$header_only" | grep -v ' [WVu] ' | cut -d ' ' -f 3- |
    sed 's/\[abi:cxx11\]//' | sort -u)
  if comm -23 <(printf '%s\n' "$strong") "$list" | grep .; then
    fail "$header_only exports what libopenmrc.so does not"
  fi
fi

((failures == 0)) && echo "$(wc -l <"$list") exports, all as listed"
