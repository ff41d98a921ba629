# SPDX-License-Identifier: Apache-2.0
# An #include arrow goes down the layers only. The top level (device.hpp and the like) is in no list
# below: it may include everything, and only impl/, which defines its classes, may include it.
BEGIN {
  below["core"] = ""
  below["wire"] = below["path"] = below["cc"] = below["json"] = "core"
  below["reliability"] = "core wire path cc"
  below["engine"] = "core wire path cc reliability"
  below["port"] = "core wire"
  below["fabric"] = "core wire path json"
  below["probe"] = "core wire path json fabric"
  below["config"] = "core wire cc port"
  below["exchange"] = "core wire port"
  below["device"] = "core wire path cc json reliability engine port fabric config exchange"
  below["impl"] = below["device"] " probe sim device the top level"
  below["sim"] = "core wire path cc reliability engine port"
}
FNR == 1 {
  layer = FILENAME
  sub(/^include\/mrc\//, "", layer)
  if (!sub(/\/.*/, "", layer)) layer = ""
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
  if (!sub(/\/.*/, "", target)) target = "the top level"
  if (layer == "" || target == layer) next
  if (!(layer in below)) {
    printf "%s:%d: unknown layer %s, give it a line in layers.awk\n", FILENAME, FNR, layer
    next
  }
  if (index(" " below[layer] " ", " " target " ") == 0)
    printf "%s:%d: layer %s may not include %s\n", FILENAME, FNR, layer, target
}
