// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mrc/control/host_store.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/mrc.hpp"

namespace mrc_verbs {

/// EV events of the other processes of this host: a thread listens at the control sockets of their
/// devices, and puts what it hears into the streams that are there. It runs while there is one, and
/// looks for further devices twice a second. Any thread.
class HostEvents {
 public:
  /// The process has one.
  static HostEvents& all();

  /// The stream gets events of the others, too, from now on.
  void add(const mrc::EvEventStream& stream, const mrc::Device& device);
  void remove(const mrc::EvEventStream& stream) noexcept;

 private:
  /// A device that is listened to.
  struct Heard {
    std::string path;
    std::unique_ptr<mrc::control::RemoteDevice> device;
    std::uint32_t dropped = 0;  ///< events that it was too fast for, not told yet
  };

  void run() noexcept;
  void find_more();
  void hear(Heard& heard);
  void hear(Heard& heard, const nlohmann::json& line);
  void push(Heard& heard, mrc::EvEvent& event);
  void wake() const noexcept;

  std::mutex starting_;  ///< held while the thread starts or ends
  std::mutex mutex_;     ///< of streams_, folders_, ends_
  std::vector<mrc::EvEventStream> streams_;
  std::vector<std::string> folders_;
  bool ends_ = false;
  mrc::UniqueFd wake_;
  std::vector<Heard> heard_;                     ///< of the thread, as what follows
  std::map<std::string, std::uint64_t> newest_;  ///< number of the newest event, by socket
  bool first_look_ = true;
  std::vector<std::string> not_heard_;  ///< sockets of this process, or of other hosts
  std::thread thread_;
};

}  // namespace mrc_verbs
