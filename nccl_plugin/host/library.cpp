// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/host/library.hpp"

#include <dlfcn.h>
#include <strings.h>

#include <cstdlib>
#include <utility>

namespace nccl_host {

namespace {

constexpr std::size_t kMostPlugins = 14;  // NCCL has 16 places, two of which are its own
constexpr std::size_t kMostNameBytes = 254;
constexpr unsigned long kInitNet = nccl_abi::kLogInit | nccl_abi::kLogNet;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void info(const CommunicatorInit& init, const std::string& text) {
  if (!init.logger) return;
  init.logger(nccl_abi::LogLevel::info, kInitNet, __FILE__, __LINE__, "%s", text.c_str());
}

}  // namespace

enum class State { to_load, to_init, enabled, load_failed, disabled };

struct PluginLibrary::Candidate {
  std::string name;
  State state = State::to_load;
  std::string reason = {};  // why it is not enabled
  void* handle = nullptr;
  std::string file = {};
  std::unique_ptr<Net> net = {};
  int devices = 0;
  int communicators = 0;

  /// Opens the first file that there is and finds the newest table in it.
  void load(const Selection& selection);
  void unload();
};

void PluginLibrary::Candidate::load(const Selection& selection) {
  std::string errors;
  for (const std::string& path : files_of(name)) {
    handle = dlopen(path.empty() ? nullptr : path.c_str(), RTLD_NOW | RTLD_LOCAL);
    file = path;
    if (handle) break;
    const char* error = dlerror();
    errors += (errors.empty() ? "" : "; ") + std::string(error ? error : "unknown error");
  }
  if (!handle) {
    state = State::load_failed;
    reason = errors;
    return;
  }
  for (int version = selection.newest_api; version >= selection.oldest_api; --version) {
    if (void* table = dlsym(handle, symbol_of(version).c_str())) {
      net = make_net(version, table);
      state = State::to_init;
      return;
    }
  }
  unload();
  state = State::load_failed;
  reason = "has no symbol " + symbol_of(selection.newest_api) + " nor an older one down to " +
           symbol_of(selection.oldest_api);
}

void PluginLibrary::Candidate::unload() {
  net.reset();
  devices = 0;
  if (handle) dlclose(handle);
  handle = nullptr;
  state = State::to_load;
}

Selection Selection::from_environment() {
  Selection selection;
  selection.plugins = variable("NCCL_NET_PLUGIN");
  selection.net = variable("NCCL_NET");
  return selection;
}

std::vector<std::string> plugin_names(const std::string& list) {
  if (list.empty()) return {"libnccl-net.so"};
  if (strcasecmp(list.c_str(), "none") == 0) return {};
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size() && names.size() < kMostPlugins;) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    if (!name.empty() && name.size() <= kMostNameBytes) names.push_back(name);
    begin = end + 1;
  }
  return names;
}

std::vector<std::string> files_of(const std::string& name) {
  if (name == "STATIC_PLUGIN") return {""};
  const bool is_library = name.size() > 6 && name.starts_with("lib") && name.ends_with(".so");
  if (name.find('/') != std::string::npos || is_library) return {name};
  return {name, "libnccl-net-" + name + ".so"};
}

PluginLibrary::PluginLibrary(Selection selection) : selection_(std::move(selection)) {
  for (std::string& name : plugin_names(selection_.plugins)) {
    candidates_.push_back(std::make_unique<Candidate>(Candidate{.name = std::move(name)}));
  }
}

PluginLibrary::~PluginLibrary() {
  for (auto& candidate : candidates_) candidate->unload();
}

std::string PluginLibrary::try_open(Candidate& candidate, const CommunicatorInit& init,
                                    Communicator& result) {
  if (candidate.state == State::to_load) {
    candidate.load(selection_);
    info(init, "NET/Plugin: " +
                   (candidate.net ? "Loaded net plugin " + std::string(candidate.net->name()) +
                                        " (v" + std::to_string(candidate.net->version()) + ")"
                                  : "Could not load " + candidate.name + ": " + candidate.reason));
  }
  if (!candidate.net || candidate.state == State::disabled) return candidate.reason;
  Net& net = *candidate.net;
  if (!selection_.net.empty() && strcasecmp(selection_.net.c_str(), net.name()) != 0) {
    return std::string("its name is ") + net.name() + ", and NCCL_NET=" + selection_.net;
  }
  void* context = nullptr;
  std::string step = "init";
  Result error = net.init(init, &context);
  if (error == Result::success && candidate.state == State::to_init) {
    step = "devices";
    error = net.devices(&candidate.devices);
  }
  if (error != Result::success || candidate.devices <= 0) {
    info(init, "Failed to initialize NET plugin " + std::string(net.name()));
    net.finalize(context);
    candidate.state = State::disabled;
    candidate.reason = error == Result::success
                           ? "has no devices"
                           : step + " failed: " + std::string(nccl_abi::to_string(error));
    return candidate.reason;
  }
  info(init, "Assigned NET plugin " + std::string(net.name()) + " to comm");
  candidate.state = State::enabled;
  ++candidate.communicators;
  result.net = &net;
  result.context = context;
  result.devices = candidate.devices;
  result.plugin = candidate.name;
  result.file = candidate.file;
  return "";
}

Communicator PluginLibrary::open(const CommunicatorInit& init) {
  Communicator result;
  if (candidates_.empty()) result.reason = "NCCL_NET_PLUGIN=none";
  for (auto& candidate : candidates_) {
    const std::string reason = try_open(*candidate, init, result);
    if (result) {
      result.reason.clear();
      for (auto& other : candidates_) {
        if (other == candidate) continue;
        other->state = State::disabled;
        other->reason = "another plugin is in use";
      }
      return result;
    }
    result.reason += (result.reason.empty() ? "" : "; ") + candidate->name + ": " + reason;
  }
  return result;
}

Result PluginLibrary::close(Communicator& communicator) {
  if (!communicator) return Result::success;
  const Result result = communicator.net->finalize(communicator.context);
  for (auto& candidate : candidates_) {
    if (candidate->net.get() != communicator.net) continue;
    if (--candidate->communicators == 0) candidate->unload();
    break;
  }
  communicator = {};
  return result;
}

}  // namespace nccl_host
