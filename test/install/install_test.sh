#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install_test.sh CMAKE CXX: installs the library, moves what was installed, and builds and runs a
# program against it there, found with find_package alone: static, shared and, where scripts/check
# --full runs this, header-only; with pkg-config; and libMRC.
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
    -DCMAKE_CXX_COMPILER="${compiler:-$cxx}" -DCMAKE_PREFIX_PATH="$work/prefix" \
    -DCONSUMER_LINKS="$2" \
    "${@:3}" >"$work/$1.log" || { cat "$work/$1.log" && exit 1; }
  grep -F "OpenMRC_DIR:PATH=$work/prefix/" "$work/$1/CMakeCache.txt" >/dev/null
  "$cmake" --build "$work/$1"
  "$work/$1/consumer"
}
if [[ ${MRC_TEST_SCOPE:-full} != check ]]; then
  # By clang where it is installed, which takes two thirds of the time; docs/readme_test.sh compiles
  # such a program with the build's own compiler.
  compiler=$(command -v clang++ || echo "$cxx") build header_only openmrc
fi
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
read -ra flags < <(pkg-config --cflags --libs openmrc-static)
"$cxx" -std=c++20 "$MRC_SOURCE_DIR/test/install/consumer/main.cpp" "${flags[@]}" \
  -fsanitize=undefined -o "$work/with_pkg_config_static"
"$work/with_pkg_config_static"
if readelf -d "$work/with_pkg_config_static" | grep -F libopenmrc; then exit 1; fi

if [[ -e $MRC_BUILD_DIR/verbs_shim/libmrc.so.1 ]]; then
  echo "== libMRC, in C: pkg-config and CMake"
  "$cmake" --install "$MRC_BUILD_DIR" --prefix "$work/prefix" --component verbs_shim >/dev/null
  if grep -nF -e "$MRC_SOURCE_DIR" "$pc_dir/libmrc.pc"; then exit 1; fi
  cat >"$work/query.c" <<'C'
#include <mrc_ctl.h>
#include <stdio.h>
int main(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  struct ibv_context *context = ibv_open_device(list[0]);
  struct mrc_device_attr attr;
  int supported = 0;
  if (context == NULL || mrc_query_device(context, &attr, &supported) != 0) return 1;
  printf("supported: %d\n", supported);
  return supported == 1 ? 0 : 1;
}
C
  read -ra flags < <(pkg-config --cflags --libs libmrc)
  cc -std=c11 -Wall -Werror "$work/query.c" "${flags[@]}" -o "$work/query"
  MRC_PLANES=loopback:1 "$work/prefix/bin/mrcrun" --quiet "$work/query"
  mkdir -p "$work/c"
  cat >"$work/c/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(query LANGUAGES C CXX)
find_package(OpenMRC 0.1 CONFIG REQUIRED)
add_executable(query ../query.c)
target_link_libraries(query PRIVATE OpenMRC::libmrc ibverbs)
CMAKE
  "$cmake" -S "$work/c" -B "$work/c/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
    -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/c.log" || { cat "$work/c.log" && exit 1; }
  "$cmake" --build "$work/c/build"
  MRC_PLANES=loopback:1 "$work/prefix/bin/mrcrun" --quiet "$work/c/build/query"
fi
