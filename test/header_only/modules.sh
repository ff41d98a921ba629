# SPDX-License-Identifier: Apache-2.0
# To be sourced: what of include/mrc is no part of the transport.
modules=(resolve control faults fabric verbs sim)
module_headers=(resolve.hpp control.hpp stats_json.hpp faults.hpp fabric.hpp verbs.hpp)

copy_transport() {  # copy_transport SOURCE_DIR FOLDER: include/ without modules, in FOLDER/mrc
  mkdir -p "$2"
  cp -r "$1/include/mrc" "$2"
  (cd "$2/mrc" && rm -r "${modules[@]}" "${module_headers[@]}")
}
