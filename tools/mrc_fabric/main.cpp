// SPDX-License-Identifier: Apache-2.0
#include "common/program.hpp"
#include "mrc_fabric/commands.hpp"
#include "mrc_fabric/wire/wire.hpp"

namespace mrc::tools {
namespace {

int run(const Options& o) {
  switch (o.command) {
    case Command::up:
      return run_up(o);
    case Command::down:
      return run_down(o);
    case Command::show:
      return run_show(o);
    case Command::exec:
      return run_exec(o);
    case Command::link:
      return run_link(o);
    case Command::node:
      return run_switch(o);
    case Command::set:
      return run_set(o);
    case Command::write_configs:
      return run_export(o);
    case Command::wire:
      return run_wire(o);
  }
  return 1;
}

}  // namespace
}  // namespace mrc::tools

/// mrc_fabric: fabrics of network namespaces, for MRC to run on.
int main(int argc, char** argv) {
  return mrc::tools::run_main(
      "mrc_fabric", [&] { return mrc::tools::run(mrc::tools::parse_options(argc, argv)); });
}
