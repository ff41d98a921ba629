// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "nccl_plugin/host/net.hpp"

namespace nccl_host {

/// What decides which plugin a process uses.
struct Selection {
  /// NCCL_NET_PLUGIN: names or paths, separated by commas, or `none`. Empty: libnccl-net.so.
  std::string plugins;
  /// NCCL_NET: only a plugin of this name is used, whatever its case. Empty: any.
  std::string net;
  /// The versions of the interface that are looked for, the newest first. NCCL 2.28.9 starts with
  /// 11, 2.30.7 with 12.
  int newest_api = 11;
  int oldest_api = kOldestApi;

  /// From NCCL_NET_PLUGIN and NCCL_NET.
  [[nodiscard]] static Selection from_environment();
};

/// A communicator's share in the plugin that was chosen for it.
struct Communicator {
  Net* net = nullptr;  ///< null: none was chosen, and NCCL would use its own InfiniBand or sockets
  void* context = nullptr;
  int devices = 0;
  std::string plugin;  ///< as it was named in Selection::plugins
  std::string file;    ///< that was loaded
  std::string reason;  ///< why none was chosen: of each candidate

  explicit operator bool() const { return net != nullptr; }
};

/// The plugins of a process, found, loaded and chosen by the rules of NCCL 2.28.9.
///
/// Candidates are tried in order, each time that a communicator opens. A candidate is loaded when
/// its turn comes first; it is passed over if it can't be loaded, has none of the symbols, or has
/// another name than Selection::net. If init() or devices() fails, or there are no devices,
/// finalize() is called and the candidate is disabled for good. Once one was chosen all the others
/// are disabled. When its last communicator closes it is unloaded.
///
/// Thread safety: one thread at a time.
class PluginLibrary {
 public:
  explicit PluginLibrary(Selection selection = Selection::from_environment());
  ~PluginLibrary();
  PluginLibrary(const PluginLibrary&) = delete;
  PluginLibrary& operator=(const PluginLibrary&) = delete;

  /// As at the beginning of a communicator. What happens is logged to init.logger as NCCL does.
  [[nodiscard]] Communicator open(const CommunicatorInit& init);
  /// As at its end: the result is finalize()'s.
  Result close(Communicator& communicator);

 private:
  struct Candidate;

  std::string try_open(Candidate& candidate, const CommunicatorInit& init, Communicator& result);

  Selection selection_;
  std::vector<std::unique_ptr<Candidate>> candidates_;
};

/// The names in a list like NCCL_NET_PLUGIN's: at most 14, of at most 254 characters.
[[nodiscard]] std::vector<std::string> plugin_names(const std::string& list);
/// What dlopen() is given for a name, in order; an empty string is the program itself.
[[nodiscard]] std::vector<std::string> files_of(const std::string& name);

}  // namespace nccl_host
