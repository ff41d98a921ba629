// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/datagram_qp.hpp"
#include "mrc/engine/object_tables.hpp"

namespace mrc::inline v0_1::engine {

/// A device that datagrams are sent to.
struct Destination {
  /// Its paths that begin in one plane.
  struct Way {
    Plane plane = 0;          ///< NIC port
    std::uint32_t first = 0;  ///< index in DestinationSpec::paths
    std::uint32_t count = 0;  ///< number of paths, at least 1
  };
  DestinationSpec spec;    ///< as added, sorted by way
  std::vector<Way> ways;   ///< in the order in which they are tried
  std::uint32_t uses = 0;  ///< datagrams in send queues
};

/// Datagram queue pairs, whose numbers are of the same space as those of other queue pairs, and the
/// devices that they send to. It only stores and finds them. One thread.
class DatagramTables {
 public:
  /// `numbers`: where the queue pairs' numbers come from; must outlive the tables.
  explicit DatagramTables(ObjectTables& numbers) : numbers_(numbers) {}

  /// A new queue pair, or Errc::no_resources. Throws std::bad_alloc.
  Result<Qpn> add_qp(const DatagramInit& init);
  /// Destroys a queue pair, which must exist.
  void remove_qp(Qpn qpn) noexcept;
  /// Null when there is no such datagram queue pair.
  [[nodiscard]] DatagramState* qp(Qpn qpn) noexcept {
    const std::uint32_t place = numbers_.place_of(qpn);
    DatagramState* qp = place < qps_.size() ? qps_[place].get() : nullptr;
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  /// The same, read-only.
  [[nodiscard]] const DatagramState* qp(Qpn qpn) const noexcept {
    return const_cast<DatagramTables*>(this)->qp(qpn);
  }
  /// Calls fn(DatagramState&) for each.
  template <class F>
  void for_each_qp(F&& fn) {
    if (count_ == 0) return;
    for (auto& qp : qps_)
      if (qp) fn(*qp);
  }
  /// Number of queue pairs.
  [[nodiscard]] std::uint32_t qp_count() const noexcept { return count_; }

  /// A new destination; needs at least one path. Throws std::bad_alloc.
  DestinationId add_destination(const DestinationSpec& spec);
  /// It has these paths from now on. Throws std::bad_alloc.
  void set_paths(DestinationId id, std::span<const path::PathSpec> paths);
  /// The way that begins in that plane is tried first; nothing if there is none.
  void prefer_plane(DestinationId id, Plane plane) noexcept;
  /// Errc::in_use while datagrams to it are posted.
  Errc remove_destination(DestinationId id) noexcept;
  /// Null when there is no such destination.
  [[nodiscard]] Destination* destination(DestinationId id) noexcept {
    const auto i = static_cast<std::uint32_t>(id);
    return i < destinations_.size() ? destinations_[i].get() : nullptr;
  }

 private:
  ObjectTables& numbers_;
  std::vector<std::unique_ptr<DatagramState>> qps_;  ///< by ObjectTables::place_of()
  std::uint32_t count_ = 0;
  std::vector<std::unique_ptr<Destination>> destinations_;  ///< by DestinationId
};

}  // namespace mrc::inline v0_1::engine
