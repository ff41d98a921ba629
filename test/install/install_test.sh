#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_test.sh CMAKE CXX: installs the library, moves what was installed, and builds and runs a
# program against it there: header-only, static and shared, found with find_package alone, and with
# pkg-config.
set -euo pipefail
cmake=$1 cxx=$2
work=$MRC_BUILD_DIR/install_test

rm -rf "$work"
"$cmake" --install "$MRC_BUILD_DIR" --prefix "$work/staging" --component openmrc >/dev/null
mv "$work/staging" "$work/prefix"
diff -r "$MRC_SOURCE_DIR/include/mrc" "$work/prefix/include/mrc"
if grep -rnF -e "$MRC_SOURCE_DIR" -e "$work/staging" "$work/prefix" --include='*.cmake' \
  --include='*.pc'; then
  echo "the installed package refers to where it was built" >&2
  exit 1
fi

build() {  # build NAME TARGET OPTION...
  echo "== $1"
  "$cmake" -S "$MRC_SOURCE_DIR/test/install/consumer" -B "$work/$1" -G Ninja \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_PREFIX_PATH="$work/prefix" -DCONSUMER_LINKS="$2" \
    "${@:3}" >"$work/$1.log" || { cat "$work/$1.log" && exit 1; }
  grep -F "OpenMRC_DIR:PATH=$work/prefix/" "$work/$1/CMakeCache.txt" >/dev/null
  "$cmake" --build "$work/$1"
  "$work/$1/consumer"
}
build header_only openmrc
build static static
build shared shared -DCONSUMER_EXAMPLE="$MRC_SOURCE_DIR/examples/first_program.cpp"
"$work/shared/first_program" | grep -F success
readelf -d "$work/shared/consumer" | grep -F 'libopenmrc.so.0.1' >/dev/null

echo "== pkg-config"
pc_dir=$(dirname "$(find "$work/prefix" -name openmrc.pc)")
export PKG_CONFIG_PATH=$pc_dir
lib_dir=$(pkg-config --variable=libdir openmrc)
read -ra flags < <(pkg-config --cflags --libs openmrc)
"$cxx" -std=c++20 "$MRC_SOURCE_DIR/test/install/consumer/main.cpp" "${flags[@]}" \
  -o "$work/with_pkg_config"
LD_LIBRARY_PATH=$lib_dir "$work/with_pkg_config"
