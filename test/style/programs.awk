# SPDX-License-Identifier: Apache-2.0
# The NCCL plugin and the verbs shim are programs of users: they include what users may (mrc/*.hpp),
# what any program of ours stands on (core/, net/), and besides only the headers below.
# An exception that is no longer needed is a finding, too.
function except(folder, header) { allowed[folder " " header] = 1 }
BEGIN {
  # The plugin's greeting carries the numbers of queue pairs.
  except("nccl_plugin", "mrc/engine/verbs_types.hpp")
  # It copies small messages itself, as an engine would: for NCCL's flags in the data.
  except("nccl_plugin", "mrc/engine/memory.hpp")
  # Timeouts as InfiniBand encodes them, which NCCL and verbs programs set.
  except("nccl_plugin", "mrc/engine/send_window.hpp")
  except("verbs_shim", "mrc/engine/send_window.hpp")
  # A NIC is what a fabric description, or an RDMA device, says of this host.
  except("nccl_plugin", "mrc/fabric/fabric_reader.hpp")
  except("nccl_plugin", "mrc/fabric/packet_kind.hpp")
  except("nccl_plugin", "mrc/verbs/verbs_device.hpp")
  # A device's kind of planes knows the address that it would have.
  except("verbs_shim", "mrc/host/modules.hpp")
  # mrc_ctl.h acts on all devices of the host.
  except("verbs_shim", "mrc/control/host_store.hpp")
  except("verbs_shim", "mrc/control/dumps.hpp")
  except("verbs_shim", "mrc/control/profiles.hpp")
}
FNR == 1 {
  folder = FILENAME
  sub(/\/.*/, "", folder)
  if (FILENAME ~ /^(nccl_plugin\/plugin|verbs_shim\/abi)\.cpp$/) whole[folder] = 1
}
/^[ \t]*#[ \t]*include[ \t]*"mrc\/[a-z_]+\// {
  split($0, part, "\"")
  header = part[2]
  if (header ~ /^mrc\/(api|core|net)\//) next
  if (folder " " header in allowed)
    used[folder " " header] = 1
  else
    printf "%s:%d: %s may not include %s (test/style/programs.awk)\n", FILENAME, FNR, folder, header
}
END {
  for (exception in allowed) {
    split(exception, part, " ")
    if (part[1] in whole && !(exception in used))
      printf "test/style/programs.awk:1: no file of %s includes %s\n", part[1], part[2]
  }
}
