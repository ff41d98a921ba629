# SPDX-License-Identifier: Apache-2.0
# An #include arrow goes down the layers only. What stands above them (device.hpp and the like) may
# include everything and is included by no layer.
BEGIN {
  below["core"] = ""
  below["wire"] = below["path"] = below["cc"] = below["json"] = "core"
  below["reliability"] = "core wire path cc"
  below["engine"] = "core wire path cc reliability"
  below["port"] = "core wire"
  below["fabric"] = "core wire path json"
  below["sim"] = "core wire path cc reliability engine port"
}
FNR == 1 {
  layer = FILENAME
  sub(/^include\/mrc\//, "", layer)
  if (!sub(/\/.*/, "", layer)) layer = ""
}
/^[ \t]*#[ \t]*include[ \t]*"/ {
  split($0, part, "\"")
  target = part[2]
  if (target !~ /^mrc\//) {
    printf "%s:%d: write \"mrc/<layer>/<file>.hpp\", not \"%s\"\n", FILENAME, FNR, target
    next
  }
  sub(/^mrc\//, "", target)
  if (!sub(/\/.*/, "", target)) target = "the top level"
  if (!(layer in below) || target == layer) next
  if (index(" " below[layer] " ", " " target " ") == 0)
    printf "%s:%d: layer %s may not include %s\n", FILENAME, FNR, layer, target
}
