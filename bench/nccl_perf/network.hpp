// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "nccl_perf/options.hpp"
#include "nccl_perf/setup.hpp"
#include "nccl_plugin/host/library.hpp"

namespace mrc::nccl_perf {

/// A network that the options name: a plugin, loaded and chosen by NCCL's rules, or TCP.
class OpenNetwork {
 public:
  /// Throws Failure, which tells why there is none.
  OpenNetwork(const Options& options, const std::string& net);
  ~OpenNetwork();
  OpenNetwork(const OpenNetwork&) = delete;
  OpenNetwork& operator=(const OpenNetwork&) = delete;

  [[nodiscard]] const Network& get() const noexcept { return network_; }
  /// Finalises it. Throws Failure. The destructor ignores errors.
  void close();

 private:
  void open_plugin(const Options& options, const std::string& net);
  void open_sockets(const Options& options);

  Network network_;
  std::unique_ptr<nccl_host::PluginLibrary> library_;
  nccl_host::Communicator communicator_;
  std::unique_ptr<Net> sockets_;
};

}  // namespace mrc::nccl_perf
