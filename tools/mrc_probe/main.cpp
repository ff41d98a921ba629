// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "common/files.hpp"
#include "common/interrupt.hpp"
#include "common/program.hpp"
#include "mrc/device.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/net/interface.hpp"
#include "mrc_probe/options.hpp"
#include "mrc_probe/output.hpp"
#include "mrc_probe/watch.hpp"

namespace mrc::probe_tool {
namespace {

constexpr int kCannotRun = 3;

/// The hosts that --to names, or all.
std::vector<unsigned> wanted_hosts(const Options& o, const Description& d, unsigned self) {
  std::vector<unsigned> hosts;
  for (const std::string& name : o.to) {
    const fabric::Host* host = d.find_host(name);
    if (host == nullptr)
      throw Error(Errc::invalid_argument,
                  fmt::format("--to {}: {} has no such host", name, d.file));
    if (host == &d.hosts[self])
      throw Error(Errc::invalid_argument,
                  fmt::format("--to {}: is this host itself{}", name,
                              d.forwarding == fabric::Forwarding::srv6
                                  ? "; --only loops probes just what leads back to it"
                                  : ""));
    const auto number = static_cast<unsigned>(host - d.hosts.data());
    if (std::find(hosts.begin(), hosts.end(), number) == hosts.end()) hosts.push_back(number);
  }
  for (unsigned k = 0; k < d.hosts.size() && o.hosts && o.to.empty(); ++k)
    if (k != self) hosts.push_back(k);
  return hosts;
}

/// Every device answers probes, so one that does nothing else will do.
int run_answer(const Options& o, const Description& d, const fabric::Host& self) {
  const tools::HeldSignals signals;  // they are this thread's, not the device's
  Config config = o.config;
  config.helper = true;
  Device device(config);
  fmt::print("{} answers probes of {} ({}) in {} planes; Ctrl-C ends it\n", self.name, d.name,
             d.file, d.planes);
  std::fflush(stdout);
  while (!tools::g_interrupted) signals.sleep({}, nullptr);
  fmt::print("{} probes answered\n", device.stats().unconnected_probes_answered);
  return 0;
}

int run(const Options& o) {
  const Description d = fabric::read(o.config.fabric);
  const bool routed = d.forwarding == fabric::Forwarding::srv6;
  if (!routed && !o.hosts)
    throw Error(Errc::unsupported,
                fmt::format("--only loops: {} has forwarding \"ecmp\", and without source routes "
                            "nothing leads back to its sender",
                            d.file));
  for (const std::string& file : {o.json_file, o.deny_file})
    if (file != "-") tools::check_writable(file);
  const fabric::Host& host = fabric::find_self(d, port::local_addresses(), o.config.host);
  const auto self = static_cast<unsigned>(&host - d.hosts.data());
  const ProberOptions options{o.loops && routed,
                              wanted_hosts(o, d, self),
                              o.config.paths,
                              o.tries,
                              !o.small,
                              o.load,
                              o.sweep};
  tools::catch_signals();
  if (o.answer) return run_answer(o, d, host);
  if (!routed && options.hosts.empty())
    throw Error(Errc::not_found, fmt::format("{} has no other host to probe", d.file));
  Network network(d, d.hosts[self], o.config);
  Prober prober(d, self, network, options);
  if (o.watch) return watch(o, d, network, prober);
  const Report report = prober.sweep();
  if (tools::g_interrupted) return tools::kInterruptedStatus;
  if (!o.quiet()) print_report(d, report, o.verbose);
  write_files(o, d, report);
  return report.all_alive() ? 0 : 1;
}

}  // namespace
}  // namespace mrc::probe_tool

/// mrc_probe: sweeps the paths of a fabric, and finds what is dead.
int main(int argc, char** argv) {
  return mrc::tools::run_main(
      "mrc_probe", [&] { return mrc::probe_tool::run(mrc::probe_tool::parse_options(argc, argv)); },
      mrc::probe_tool::kCannotRun);
}
