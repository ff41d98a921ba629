// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verbs_shim/libmrc/provider.hpp"
#include "verbs_shim/transport/connected_transport.hpp"

namespace mrc_verbs {

/// What mrc_modify_qp() may say of a queue pair, beside verbs' attributes.
struct MrcAttributes {
  mrc::QpProfiles profiles{};
  mrc::RtrAttributes rtr{};
  mrc::RtsAttributes rts{};
};

/// Connections of mrc.h: writes alone, and attributes of MRC in place of RC's.
class MrcTransport final : public ConnectedTransport {
 public:
  explicit MrcTransport(const Parts& parts) : ConnectedTransport(Operations::writes, parts) {}

  /// Attributes of the steps to come.
  MrcAttributes attributes{};
  /// As QueuePair::set_hint().
  void set_hint(const mrc::QpHint& hint) noexcept { (void)queue_pair().set_hint(hint); }
  [[nodiscard]] mrc::QpInfo info() const { return queue_pair().query(); }

  void to_init() override;
  void to_rtr(const ibv_qp_attr& verbs) override;
  void to_rts(const ibv_qp_attr& verbs) override;
};

}  // namespace mrc_verbs
