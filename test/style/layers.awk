# SPDX-License-Identifier: Apache-2.0
# An #include arrow goes down the layers only. A layer is a folder of include/mrc/. A kind of plane
# is one of its own, which only host/plane_kinds.inl may name. The top level (device.hpp and the
# like) is in no list below: it may include everything, and nobody may include it. A list of
# definitions (definitions.inl) is of no layer.
BEGIN {
  below["core"] = ""
  below["wire"] = below["path"] = below["cc"] = below["json"] = "core"
  below["net"] = "core wire"
  below["reliability"] = "core wire path cc"
  below["engine"] = "core wire path cc reliability"
  below["fabric"] = "core wire path json"
  below["probe"] = "core wire path json fabric"
  below["exchange"] = "core wire net"
  below["api"] = "core wire path cc net engine exchange"
  below["plane"] = "core wire path net exchange api"
  below["plane/udp"] = below["plane"] " plane"
  below["plane/packet"] = below["plane"] " json fabric plane"
  below["plane/verbs"] = below["plane"] " plane plane/packet"
  below["control"] = "core"
  below["host"] = "core wire path cc reliability engine net exchange api plane control"
  below["sim"] = "core wire path cc reliability engine net api plane"
}
# The layer of a path relative to include/mrc/.
function layer_of(path) {
  if (path ~ /^plane\/[a-z_]+\//) {
    sub(/^plane\//, "", path)
    sub(/\/.*/, "", path)
    return "plane/" path
  }
  return sub(/\/.*/, "", path) ? path : ""
}
FNR == 1 {
  layer = FILENAME
  sub(/^include\/mrc\//, "", layer)
  layer = layer_of(layer)
  names_kinds = FILENAME == "include/mrc/host/plane_kinds.inl"
  if (FILENAME ~ /\/definitions\.inl$/) layer = ""
}
/^[ \t]*#[ \t]*include[ \t]*<mrc\// {
  printf "%s:%d: write \"mrc/...\", not <mrc/...>\n", FILENAME, FNR
  next
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
  split($0, part, "\"")
  target = part[2]
  if (target !~ /^mrc\//) {
    printf "%s:%d: write \"mrc/<layer>/<file>.hpp\", not \"%s\"\n", FILENAME, FNR, target
    next
  }
  sub(/^mrc\//, "", target)
  target = layer_of(target)
  if (part[2] == "mrc/version.hpp") target = "core"  # it includes nothing else
  if (target == "") target = "the top level"
  if (layer == "" || target == layer || (names_kinds && target ~ /^plane\//)) next
  if (!(layer in below)) {
    printf "%s:%d: unknown layer %s, give it a line in layers.awk\n", FILENAME, FNR, layer
    next
  }
  if (index(" " below[layer] " ", " " target " ") == 0)
    printf "%s:%d: layer %s may not include %s\n", FILENAME, FNR, layer, target
}
