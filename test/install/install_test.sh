#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_test.sh CMAKE CXX: installs the library, moves what was installed, and builds and runs a
# program against it there, found with find_package alone.
set -euo pipefail
cmake=$1 cxx=$2
work=$MRC_BUILD_DIR/install_test

rm -rf "$work"
"$cmake" --install "$MRC_BUILD_DIR" --prefix "$work/staging" --component openmrc >/dev/null
mv "$work/staging" "$work/prefix"
diff -r "$MRC_SOURCE_DIR/include/mrc" "$work/prefix/include/mrc"
if grep -rnF -e "$MRC_SOURCE_DIR" -e "$work/staging" "$work/prefix/share"; then
  echo "the installed package refers to where it was built" >&2
  exit 1
fi

build() {  # build NAME OPTION...
  "$cmake" -S "$MRC_SOURCE_DIR/test/install/consumer" -B "$work/$1" -G Ninja \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "${@:2}"
  grep -F "OpenMRC_DIR:PATH=$work/prefix/" "$work/$1/CMakeCache.txt" >/dev/null
  "$cmake" --build "$work/$1"
  "$work/$1/consumer"
}
build default
build portable -DMRC_WITH_ISAL=OFF
grep -F MRC_HAVE_ISAL=0 "$work/portable/compile_commands.json" >/dev/null
