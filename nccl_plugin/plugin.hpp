// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "nccl_plugin/context.hpp"
#include "nccl_plugin/data/receiver.hpp"
#include "nccl_plugin/data/sender.hpp"
#include "nccl_plugin/data/worker.hpp"
#include "nccl_plugin/log.hpp"
#include "nccl_plugin/report.hpp"
#include "nccl_plugin/setup/connector.hpp"
#include "nccl_plugin/setup/listener.hpp"
#include "nccl_plugin/setup/nic.hpp"

namespace mrc_nccl {

/// What a communicator gets from init(), as an opaque pointer.
struct ContextHandle {
  std::shared_ptr<Context> context;
};

/// The plugin in a process: how often it is initialised, its net devices, and the set-up of
/// connections. The first initialisation reads the environment and opens devices; the last
/// finalisation closes them. Connections that are still open then keep theirs.
///
/// A child made by fork() has a plugin of its own, not initialised.
///
/// Methods throw Failure, mrc::Error or SettingsError. Any thread.
class Plugin {
 public:
  static constexpr const char* kName = "MRC";

  /// This process's.
  [[nodiscard]] static Plugin& get() noexcept;

  /// `version` of the interface that NCCL uses.
  [[nodiscard]] ContextHandle* init(int version, const nccl_abi::CommConfig& config,
                                    nccl_abi::Logger logger, nccl_abi::ProfilerCallback profiler);
  /// The last one waits for connections that were closed: Worker::kLinger at most, or
  /// Worker::kDelivery if peers do not answer that lack what NCCL counts as sent. Null, which NCCL
  /// passes after an initialisation that failed, is allowed.
  void finalize(ContextHandle* handle);

  /// Virtual ones too: NCCL asks again after it has made some.
  [[nodiscard]] int devices();
  [[nodiscard]] NicFacts facts(int device);
  /// One device of the planes of several; of one it is that one itself.
  [[nodiscard]] int make_virtual(const std::vector<int>& members);

  /// Null stands for the context of versions up to 10.
  [[nodiscard]] Listener* listen(ContextHandle* handle, int device, void* bytes);
  /// Null as long as the connection is not there.
  [[nodiscard]] Sender* connect(ContextHandle* handle, int device, void* bytes);
  /// Ends a connection; what must go on for a while does so by itself.
  void close(Connection* connection) noexcept;

  [[nodiscard]] const Log& log() const noexcept { return log_; }
  /// Waits for what lingers, before the process ends.
  void at_exit() noexcept;

 private:
  /// Of the interface: newer ones say when a communicator ends.
  static constexpr int kLastUnfinalised = 10;

  void forget_unfinalised() noexcept;
  void open_devices(int version, const nccl_abi::CommConfig& config);
  void close_devices() noexcept;
  [[nodiscard]] std::shared_ptr<Nic> open_nic(const NicPlan& plan, const mrc::Config& config,
                                              std::vector<int> members);
  [[nodiscard]] std::shared_ptr<Nic> nic(int device);
  [[nodiscard]] std::shared_ptr<Context> context(ContextHandle* handle);
  [[nodiscard]] std::shared_ptr<Connector> attempt(ContextHandle* handle, int device, void* bytes);
  void forget(std::uint32_t attempt) noexcept;

  Log log_;
  std::mutex initialising_;  // init and finalize, one at a time
  std::mutex mutex_;         // of what follows; never held while something waits
  int users_ = 0;
  Settings settings_;
  std::vector<std::shared_ptr<Nic>> nics_;
  std::size_t physical_ = 0;  // the first of them; virtual ones follow
  std::shared_ptr<Worker> worker_;
  std::shared_ptr<Report> report_;
  std::shared_ptr<Context> common_;  // of versions up to 10
  std::uint32_t attempts_made_ = 0;
  std::unordered_map<std::uint32_t, std::shared_ptr<Connector>> attempts_;
};

}  // namespace mrc_nccl
