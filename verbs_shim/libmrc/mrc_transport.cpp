// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/libmrc/mrc_transport.hpp"

namespace mrc_verbs {

void MrcTransport::to_init() {
  mrc::QpChange change;
  change.state = mrc::QpState::init;
  change.profiles = attributes.profiles;
  queue_pair().modify(change);
}

void MrcTransport::to_rtr(const ibv_qp_attr& verbs) {
  mrc::QpChange change = towards(verbs);
  change.rtr = attributes.rtr;
  queue_pair().modify(change);
}

void MrcTransport::to_rts(const ibv_qp_attr& verbs) {
  mrc::QpChange change;
  change.state = mrc::QpState::rts;
  change.rts = attributes.rts;
  change.rts.send_psn = mrc::Psn{verbs.sq_psn};
  queue_pair().modify(change);
}

}  // namespace mrc_verbs
