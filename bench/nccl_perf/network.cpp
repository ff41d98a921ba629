// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/network.hpp"

#include <climits>
#include <cstdlib>
#include <filesystem>

#include "nccl_perf/failure.hpp"
#include "nccl_perf/socket_net.hpp"
#include "nccl_plugin/host/debug_log.hpp"

namespace mrc::nccl_perf {
namespace {

/// This build's plugin, beside this program; else by NCCL's rules.
std::string plugin_name(const std::string& net) {
  if (net != "mrc") return net;
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto built = self.parent_path().parent_path() / "nccl_plugin" / "libnccl-net-mrc.so";
  return !error && std::filesystem::exists(built) ? built.string() : net;
}

nccl_host::CommunicatorInit communicator_init() {
  nccl_host::CommunicatorInit init;
  init.comm_id = 1;
  init.logger = nccl_host::DebugLog::logger();
  return init;
}

}  // namespace

OpenNetwork::OpenNetwork(const Options& options, const std::string& net) {
  if (net == "socket")
    open_sockets(options);
  else
    open_plugin(options, net);
}

OpenNetwork::~OpenNetwork() {
  try {
    close();
  } catch (const Failure&) {  // nobody to tell
  }
}

void OpenNetwork::open_plugin(const Options& options, const std::string& net) {
  if (getenv("NCCL_DEBUG") == nullptr) {
    setenv("NCCL_DEBUG", "WARN", 1);
    nccl_host::DebugLog::instance().read_environment();
  }
  nccl_host::Selection selection;
  selection.plugins = plugin_name(net);
  selection.newest_api = options.api != 0 ? options.api : nccl_host::kNewestApi;
  if (options.api != 0) selection.oldest_api = options.api;
  library_ = std::make_unique<nccl_host::PluginLibrary>(selection);
  communicator_ = library_->open(communicator_init());
  if (!communicator_)
    throw Failure(fmt::format("no network: plugin {}: {} (NCCL_DEBUG=INFO tells more)",
                              selection.plugins, communicator_.reason));
  network_ = {communicator_.net, communicator_.context, communicator_.devices};
}

void OpenNetwork::open_sockets(const Options& options) {
  sockets_ = make_socket_net({options.sockets, options.threads, options.congestion});
  check(sockets_->init(communicator_init(), &network_.context), "init");
  check(sockets_->devices(&network_.devices), "devices");
  if (network_.devices == 0)
    throw Failure("no network: no interface with an address is up that NCCL_SOCKET_IFNAME allows");
  network_.net = sockets_.get();
}

void OpenNetwork::close() {
  if (network_.net == nullptr) return;
  const Network network = std::exchange(network_, {});
  if (sockets_ != nullptr)
    check(network.net->finalize(network.context), "finalize");
  else
    check(library_->close(communicator_), "finalize");
}

}  // namespace mrc::nccl_perf
