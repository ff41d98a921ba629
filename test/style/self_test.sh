#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# self_test.sh: breaks each rule of style_test.sh in a small source tree and expects the finding, so
# that a rule can't stop working unseen.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'wait; rm -rf "$work"' EXIT
touch "$work/failures"
processors=$(nproc)

spdx='// SPDX-License-Identifier: Apache-2.0'
header=$spdx$'\n#pragma once\n'

put() {  # put FILE CONTENT: a tree that holds this file only
  tree=$(mktemp -d "$work/tree.XXXXXX")
  mkdir -p "$tree/$(dirname "$1")"
  printf '%s\n' "$2" >"$tree/$1"
}
begin() {  # begin COMMAND...: beside the others, as many as there are processors
  if ((++begun > processors)); then wait -n || true; fi
  "$@" >>"$work/failures" &
}
begun=0
judge() {  # judge TREE FINDING: style_test.sh makes that finding; none if it is empty
  local output status=0
  output=$("$here/style_test.sh" "$1" 2>/dev/null) || status=$?
  if [[ -z $2 ]]; then
    if ((status != 0)); then printf 'wrongly found:\n%s\n' "$output"; fi
  elif ((status != 1)) || [[ $output != *"$2"* ]]; then
    printf 'expected "%s", got (status %s):\n%s\n' "$2" "$status" "$output"
  fi
  echo >>"$work/judged"
}
found_in_tree() {  # found_in_tree FINDING
  begin judge "$tree" "$1"
}
expect() {  # expect FINDING FILE CONTENT
  put "$2" "$3"
  found_in_tree "$1"
}
accept() {  # accept FILE CONTENT
  put "$1" "$2"
  begin judge "$tree" ''
}

expect 'white space' include/mrc/core/a.hpp "${header}int a; "
expect 'columns' include/mrc/core/a.hpp "$header// $(printf 'x%.0s' {1..98})"
expect 'more than 500' include/mrc/core/a.hpp "$header$(printf '//\n%.0s' {1..500})"
expect 'SPDX' include/mrc/core/a.hpp '#pragma once'
expect 'SPDX' scripts/a '#!/bin/sh'
expect '#pragma once' include/mrc/core/a.hpp "$spdx"
expect 'may not include wire' include/mrc/core/a.hpp "$header#include \"mrc/wire/b.hpp\""
expect 'may not include plane' include/mrc/engine/a.hpp "$header#include \"mrc/plane/b.hpp\""
expect 'may not include engine' include/mrc/plane/a.hpp "$header#include \"mrc/engine/b.hpp\""
expect 'may not include the top' include/mrc/engine/a.hpp "$header#include \"mrc/device.hpp\""
expect 'may not include host' include/mrc/api/a.hpp "$header#include \"mrc/host/b.hpp\""
expect 'may not include fabric' include/mrc/exchange/a.hpp "$header#include \"mrc/fabric/b.hpp\""
expect 'may not include host' include/mrc/exchange/a.hpp "$header#include \"mrc/host/b.hpp\""
expect 'may not include the top' include/mrc/host/a.hpp "$header#include \"mrc/config.hpp\""
expect 'may not include impl' include/mrc/host/a.hpp "$header#include \"mrc/impl/b.ipp\""
expect 'may not include sim' include/mrc/host/impl/a.ipp "$header#include \"mrc/sim/b.hpp\""
expect 'may not include host' include/mrc/probe/a.hpp "$header#include \"mrc/host/b.hpp\""
expect 'verbs_shim may not include mrc/engine/b.hpp' verbs_shim/a.cpp \
  "$spdx"$'\n#include "mrc/engine/b.hpp"'
expect 'no file of verbs_shim includes mrc/reliability/retry.hpp' verbs_shim/abi.cpp "$spdx"
accept nccl_plugin/a.cpp "$spdx"$'\n#include "mrc/api/b.hpp"\n#include "mrc/mrc.hpp"'
expect 'host may not include plane/udp' include/mrc/host/a.hpp \
  "$header#include \"mrc/plane/udp/b.hpp\""
expect 'plane/udp may not include plane/verbs' include/mrc/plane/udp/impl/a.ipp \
  "$header#include \"mrc/plane/verbs/b.hpp\""
expect 'plane may not include plane/udp' include/mrc/plane/impl/a.ipp \
  "$header#include \"mrc/plane/udp/b.hpp\""
accept include/mrc/host/impl/plane_kinds.ipp "$header#include \"mrc/plane/udp/b.hpp\""
many=include/mrc/core
put "$many/a0.hpp" "$header"
for i in {1..45}; do printf '%s\n' "$header" >"$tree/$many/a$i.hpp"; done
found_in_tree 'more than 45 files'
put include/mrc/core/a.hpp "$header"
mkdir -p "$tree/include/mrc/wire" && printf '%s\n' "$header" >"$tree/include/mrc/wire/a.hpp"
found_in_tree 'the name of include/mrc/core/a.hpp'
expect 'unknown layer' include/mrc/other/a.hpp "$header#include \"mrc/core/b.hpp\""
expect 'not <mrc/' include/mrc/core/a.hpp "$header#include <mrc/wire/b.hpp>"
expect 'not "b.hpp"' include/mrc/core/a.hpp "$header#include \"b.hpp\""
engine_of() {  # engine_of LISTED INPUT GETTER: a class Engine whose comment lists an input
  printf '%s/// * inputs: %s();\n/// * outputs\n' "$header" "$1"
  printf '  // --- %s --\n  %s;\n' Inputs "void $2()" Getters "int get()$3"
}
expect 'the comment lists inputs a; the section has b' include/mrc/engine/engine.hpp \
  "$(engine_of a b ' const')"
expect 'a getter that is not const' include/mrc/engine/engine.hpp "$(engine_of a a '')"
accept include/mrc/engine/engine.hpp "$(engine_of a a ' const')"
expect 'open namespace' include/mrc/core/a.hpp "${header}namespace mrc {"
expect 'open namespace' include/mrc/core/a.hpp "${header}namespace mrc::wire {"
expect 'elsewhere' include/mrc/core/a.hpp "${header}namespace mrc::inline v0_1 {
namespace mrc::inline v0_2 {"
for kind in 'class A {};' 'struct A : B {' 'enum class A : int { x };' 'union A {' \
  $'template <class T>\nclass A {' $'template <class T>\nconcept A = true;' \
  $'template <class T,\n          class U>\nstruct A {'; do
  expect 'no /// comment' include/mrc/core/a.hpp "$header$kind"
  accept include/mrc/core/a.hpp "$header/// What it is."$'\n'"$kind"
done
expect 'virtual on' include/mrc/engine/a.hpp "$header  virtual void f();"
expect 'throw on' include/mrc/reliability/a.hpp "$header  throw 1;"
expect 'std::function on' include/mrc/engine/a.hpp "${header}void f(std::function<void()>);"
expect 'new on' include/mrc/engine/a.hpp "${header}int* a = new int;"
expect 'banned' docs/a.md "a $(printf '%s%s' TO DO)"
expect 'banned' include/mrc/core/a.hpp "$header// $(printf '%s%s' FIX ME)"
expect 'banned' include/mrc/core/a.hpp "$header// a $(printf '%s%s' st ub)"

accept include/mrc/engine/a.hpp "$header#include <new>
#include \"mrc/reliability/b.hpp\"
// new things throw nothing virtual
int new_size = 0;  // a new one
const char* name = \"new\";
int* a = new int;  // set-up"
accept include/mrc/device.hpp "$header#include \"mrc/plane/b.hpp\"
class A;
struct B;  // forward"
accept include/mrc/host/a.hpp "$header#include \"mrc/api/b.hpp\"
#include \"mrc/exchange/b.hpp\""
accept include/mrc/impl/a.ipp "$header#include \"mrc/device.hpp\"
#include \"mrc/host/b.hpp\""
accept include/mrc/core/a.hpp "${header}template <>
struct hash<A> : B {};
namespace detail {
struct C {
  int x;
};
}  // namespace detail"
accept include/mrc/core/a.hpp "${header}namespace mrc::inline v0_1::core {
namespace detail {"
accept scripts/a $'#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0'

wait
if [[ ! -e $work/judged ]] || (($(wc -l <"$work/judged") != begun)); then
  echo "a judge died" >>"$work/failures"
fi
if [[ -s $work/failures ]]; then
  cat "$work/failures"
  echo "these rules do not work" >&2
  exit 1
fi
echo "all rules work"
