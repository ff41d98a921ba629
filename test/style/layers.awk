# SPDX-License-Identifier: Apache-2.0
# An #include arrow goes down the layers only. A layer is a folder of include/mrc/; headers of the
# top level that hold values alone are one of their own, `values`. The rest of the top level
# (device.hpp and the like) is in no list below: it may include everything, and nobody may include
# it, but for modules, which define members of Device. Nothing in the transport includes a module,
# but for host/modules.inl, which names them. A list of definitions is of no layer.
BEGIN {
  below["core"] = ""
  below["wire"] = below["path"] = below["cc"] = "core"
  below["net"] = "core wire"
  below["engine"] = "core wire path cc"
  below["values"] = "core wire path cc net engine"
  below["plane"] = "core wire path net values"
  below["host"] = "core wire path cc engine net values plane"
  transport = below["host"] " host"
  below["resolve"] = below["control"] = below["faults"] = below["fabric"] = transport
  below["verbs"] = below["sim"] = transport " fabric"
  split("resolve control faults fabric verbs", names)
  for (i in names) module[names[i]] = 1
  split("config exchange stats profile_types datagram qp_change", names)
  for (i in names) value[names[i]] = 1
}
# The layer of a path relative to include/mrc/.
function layer_of(path) {
  if (path == "version.hpp") return "core"  # it includes nothing else
  if (sub(/\/.*/, "", path)) return path
  sub(/\..*/, "", path)
  return path in value ? "values" : ""
}
FNR == 1 {
  layer = FILENAME
  sub(/^include\/mrc\//, "", layer)
  layer = layer_of(layer)
  names_modules = FILENAME == "include/mrc/host/modules.inl"
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
  if (layer in module && FILENAME ~ /\.inl$/ && target ~ /^(device|stats_json)\.hpp$/) next
  target = layer_of(target)
  if (target == "") target = "the top level"
  if (layer == "" || target == layer || (names_modules && target in module)) next
  if (!(layer in below)) {
    printf "%s:%d: unknown layer %s, give it a line in layers.awk\n", FILENAME, FNR, layer
    next
  }
  if (index(" " below[layer] " ", " " target " ") == 0)
    printf "%s:%d: layer %s may not include %s\n", FILENAME, FNR, layer, target
}
