// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "verbs_shim/abi.hpp"

namespace mrc_verbs {

/// A queue pair for datagrams, as requests name it.
struct DatagramAddress {
  ibv_ah* device = nullptr;
  std::uint32_t qpn = 0, q_key = 0;
};

/// Copies of send requests that outlive what the program gave: those that ibv_wr_start() and its
/// kin put together, and those of a queue pair in SQD. One thread at a time.
class RequestList {
 public:
  /// Held from ibv_wr_start() to ibv_wr_complete() or ibv_wr_abort().
  std::mutex mutex;

  /// Begins the next request, without data.
  ibv_send_wr& add();
  /// The data of the newest request; inline data is copied at once.
  void set_sges(std::span<const ibv_sge> sges);
  void set_inline(std::span<const ibv_data_buf> pieces);
  /// Where the newest request goes, of those that name it: datagrams.
  void set_address(const DatagramAddress& address);
  /// A copy of a request, with its inline data.
  void copy(const ibv_send_wr& request);

  /// What went wrong while the list was made: 0, or an errno value.
  int error = 0;
  [[nodiscard]] std::size_t size() const noexcept { return requests_.size(); }
  /// The requests, chained, with their data in place. Complete: nothing can be added any more.
  [[nodiscard]] ibv_send_wr* chain();
  void clear() noexcept;

 private:
  struct Part {  ///< where the data of a request is
    std::size_t first_sge = 0, sges = 0;
  };

  std::vector<ibv_send_wr> requests_;
  std::vector<Part> parts_;
  std::vector<ibv_sge> sges_;  ///< of inline data: addr is an offset in bytes_
  std::vector<std::byte> bytes_;
  bool chained_ = false;
};

}  // namespace mrc_verbs
