// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/libmrc/mrc_objects.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "verbs_shim/address.hpp"
#include "verbs_shim/libmrc/host_events.hpp"
#include "verbs_shim/transport/state_machine.hpp"

namespace mrc_verbs {

bool all_zeros(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t byte) { return byte == 0; });
}

void check_vendor_cfg(std::span<const std::uint8_t> bytes) {
  if (!all_zeros(bytes)) fail(EOPNOTSUPP, "vendor_cfg must be zeros: this device knows no other");
}

MrcObjects& MrcObjects::all() {
  static MrcObjects* instance = new MrcObjects;  // programs may still call while they exit
  return *instance;
}

/// A child knows the parent's objects, of which all calls fail: so its copies of the locks are
/// free.
MrcObjects::MrcObjects() {
  constexpr auto lock = [] {
    all().mutex_.lock();
    lasting_mutex().lock();
  };
  constexpr auto unlock = [] {
    lasting_mutex().unlock();
    all().mutex_.unlock();
  };
  (void)::pthread_atfork(lock, unlock, unlock);
}

namespace {

/// The widest incast that the hint speaks of, to these peers or with them to one.
mrc::QpHint to_hint(const mrc_qp_hint_attr& a) {
  mrc::QpHint hint;
  hint.peers = static_cast<std::uint32_t>(std::max(a.num_send_peers, a.num_remote_recv_peers));
  hint.flows_per_peer = static_cast<std::uint32_t>(a.num_qps_per_peer);
  return hint;
}

}  // namespace

}  // namespace mrc_verbs

using mrc_verbs::fail;
using mrc_verbs::MrcTransport;
using mrc_verbs::name_of;

void mrc_qp_hint::give(MrcTransport& transport) {
  const std::lock_guard lock(mutex_);
  users_.insert(&transport);
  transport.set_hint(mrc_verbs::to_hint(attributes_));
}

void mrc_qp_hint::take_back(MrcTransport& transport) {
  const std::lock_guard lock(mutex_);
  users_.erase(&transport);
  transport.set_hint({});
}

void mrc_qp_hint::change(const mrc_qp_hint_attr& wanted) {
  const std::lock_guard lock(mutex_);
  attributes_ = wanted;
  for (MrcTransport* transport : users_) transport->set_hint(mrc_verbs::to_hint(attributes_));
}

mrc_qp_hint_attr mrc_qp_hint::query() {
  const std::lock_guard lock(mutex_);
  return attributes_;
}

bool mrc_qp_hint::in_use() {
  const std::lock_guard lock(mutex_);
  return !users_.empty();
}

// ------------------------------------------------------------------------------ queue pairs

mrc_qp::mrc_qp(mrc_context& mrc, mrc_verbs::Pd& pd, ibv_qp_init_attr_ex& wanted)
    : Qp(mrc.owner, pd, wanted, std::make_unique<MrcTransport>(parts_of(mrc.owner, pd, wanted))),
      parent(mrc) {}

mrc_cq::~mrc_cq() {
  if (ev_events) mrc_verbs::HostEvents::all().remove(*ev_events);
}

mrc_qp::~mrc_qp() {
  set_hint(nullptr);
}

void mrc_qp::set_hint(mrc_qp_hint* wanted) {
  if (wanted == hint_) return;
  if (hint_ != nullptr) hint_->take_back(mrc_transport());
  hint_ = wanted;
  if (hint_ != nullptr) hint_->give(mrc_transport());
}

namespace {

// Attributes of verbs. Some have no meaning for MRC, but programs written for verbs pass them, some
// of them with values that verbs does not allow.
constexpr int kIgnored = IBV_QP_PORT | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_MIN_RNR_TIMER | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
constexpr int kAnyTime = IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | kIgnored;
constexpr int kPeer = IBV_QP_AV | IBV_QP_DEST_QPN;

// Attributes of MRC.
constexpr int kLimits =
    MRC_QP_MAX_WIMM | MRC_QP_MAX_WIMM_DEST | MRC_QP_MPR | MRC_QP_MPR_DEST | MRC_QP_CAP;
constexpr int kProfiles = MRC_QP_EV_PROFILE_ID | MRC_QP_CC_PROFILE_ID;

/// What a step takes.
struct Step {
  ibv_qp_state from, to;
  int verbs, own;
};

constexpr Step kSteps[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX, kProfiles | MRC_QP_VENDOR_CFG},
    {IBV_QPS_INIT, IBV_QPS_INIT, IBV_QP_PKEY_INDEX, MRC_QP_VENDOR_CFG},
    {IBV_QPS_INIT, IBV_QPS_RTR, kPeer | IBV_QP_PKEY_INDEX | IBV_QP_RQ_PSN | IBV_QP_PATH_MTU,
     kLimits | MRC_QP_VENDOR_CFG},
    {IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN,
     kLimits | MRC_QP_TIMEOUT | MRC_QP_RETRY_CNT | MRC_QP_VENDOR_CFG},
    {IBV_QPS_RTS, IBV_QPS_RTS, 0, MRC_QP_VENDOR_CFG},
};

/// The first bit of a mask, as a number.
std::string bits(int mask) {
  char text[16];
  std::snprintf(text, sizeof text, "0x%x", static_cast<unsigned>(mask));
  return text;
}

/// Throws mrc::Error if the step, or an attribute in it, is not allowed.
void check_step(ibv_qp_state from, ibv_qp_state to, int verbs_mask, int own_mask) {
  const std::string step = std::string(name_of(from)) + " to " + name_of(to);
  for (const Step& known : kSteps) {
    if (known.from != from || known.to != to) continue;
    if (const int extra = verbs_mask & ~(known.verbs | kAnyTime); extra != 0)
      fail(EINVAL, step + ": attributes " + bits(extra) + " of ibv_qp_attr_mask are not allowed");
    if (const int extra = own_mask & ~(known.own | MRC_QP_HINT); extra != 0)
      fail(EINVAL, step + ": attributes " + bits(extra) + " of mrc_qp_attr_mask are not allowed");
    if (to == IBV_QPS_RTR && (verbs_mask & kPeer) != kPeer)
      fail(EINVAL, step + ": IBV_QP_AV and IBV_QP_DEST_QPN are needed, since they name the peer");
    return;
  }
  fail(EINVAL, "there is no step from " + step);
}

/// Throws mrc::Error if a value is out of range.
void check_ranges(const mrc_qp_attr& a, int mask) {
  constexpr int kMostTimeout = 24, kMostLinear = 7, kMostExponential = 25;
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if ((has(MRC_QP_MPR) && a.mpr.mpr == 0) || (has(MRC_QP_MPR_DEST) && a.mpr.mpr_dest == 0))
    fail(EINVAL, "an MPR of 0");
  const auto wimm_fits = [](std::uint16_t limit) {
    return limit >= 1 && limit <= mrc_verbs::kMaxWimm;
  };
  if ((has(MRC_QP_MAX_WIMM) && !wimm_fits(a.wimm.max_wimm)) ||
      (has(MRC_QP_MAX_WIMM_DEST) && !wimm_fits(a.wimm.max_wimm_dest)))
    fail(EINVAL, "the limits of writes with immediate are 1 to 32768");
  if (has(MRC_QP_TIMEOUT) && a.timeout > kMostTimeout) fail(EINVAL, "timeout above 24");
  if (has(MRC_QP_RETRY_CNT) &&
      (a.retry.linear_cnt > kMostLinear || a.retry.exp_cnt > kMostExponential))
    fail(EINVAL, "linear_cnt above 7, or exp_cnt above 25");
  constexpr unsigned kCaps = MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED | MRC_QP_CAP_DYNAMIC_MPR |
                             MRC_QP_CAP_SVC_TIME_DEST_UNSUPPORTED;
  if (has(MRC_QP_CAP) && (a.cap & ~kCaps) != 0)
    fail(EINVAL, "unknown bits in cap: " + bits(static_cast<int>(a.cap & ~kCaps)));
  if (has(MRC_QP_VENDOR_CFG)) mrc_verbs::check_vendor_cfg(a.vendor_cfg);
}

/// Adds what the mask names. 0 is no profile.
void take(mrc_verbs::MrcAttributes& to, const mrc_qp_attr& a, int mask) {
  const auto profile = [](std::uint64_t id) {
    return id == 0 ? std::nullopt : std::optional<mrc::ProfileId>(id);
  };
  if ((mask & MRC_QP_EV_PROFILE_ID) != 0) to.profiles.ev = profile(a.profile.ev_profile_id);
  if ((mask & MRC_QP_CC_PROFILE_ID) != 0) to.profiles.cc = profile(a.profile.cc_profile_id);
  if ((mask & MRC_QP_MPR) != 0) to.rtr.mpr = to.rts.mpr = a.mpr.mpr;
  if ((mask & MRC_QP_MPR_DEST) != 0) to.rtr.mpr_dest = to.rts.mpr_dest = a.mpr.mpr_dest;
  if ((mask & MRC_QP_MAX_WIMM) != 0) to.rtr.max_wimm = to.rts.max_wimm = a.wimm.max_wimm;
  if ((mask & MRC_QP_MAX_WIMM_DEST) != 0)
    to.rtr.max_wimm_dest = to.rts.max_wimm_dest = a.wimm.max_wimm_dest;
  if ((mask & MRC_QP_TIMEOUT) != 0) to.rts.timeout = a.timeout;
  if ((mask & MRC_QP_RETRY_CNT) != 0) {
    to.rts.retry_linear = a.retry.linear_cnt;
    to.rts.retry_exponential = a.retry.exp_cnt;
  }
  if ((mask & MRC_QP_CAP) != 0) {
    to.rtr.dynamic_mpr = (a.cap & MRC_QP_CAP_DYNAMIC_MPR) != 0;
    if ((a.cap & MRC_QP_CAP_TRIM_NACK_DEST_UNSUPPORTED) != 0) to.rtr.trim_nack = false;
  }
}

}  // namespace

/// Attributes of verbs as this device can have them: each port leads to all planes, and packets are
/// as large as these carry. With option strict, programs hear of it instead.
ibv_qp_attr mrc_qp::adapted(const ibv_qp_attr& given, int mask) {
  ibv_qp_attr a = given;
  a.ah_attr.port_num = 1;
  const ibv_mtu most = context().host().active_mtu();
  if ((mask & IBV_QP_PATH_MTU) == 0 || a.path_mtu <= most || a.path_mtu > IBV_MTU_4096 ||
      context().device().config().strict)
    return a;
  using mrc_verbs::bytes_of;
  mrc_verbs::note("mrc_modify_qp", "path MTU " + std::to_string(bytes_of(a.path_mtu)) +
                                       ": the planes carry packets of up to " +
                                       std::to_string(bytes_of(most)) + " bytes, which are sent");
  a.path_mtu = most;
  return a;
}

void mrc_qp::modify(const ibv_qp_attr& given, int verbs_mask, const mrc_qp_attr& own,
                    int own_mask) {
  const ibv_qp_attr verbs = adapted(given, verbs_mask);
  const auto lock = modify_lock();
  const ibv_qp_state from = state();
  const bool step_wanted = (verbs_mask & IBV_QP_STATE) != 0;
  const ibv_qp_state to = step_wanted ? verbs.qp_state : from;
  if ((verbs_mask & IBV_QP_CUR_STATE) != 0 && verbs.cur_qp_state != from)
    fail(EINVAL, std::string("IBV_QP_CUR_STATE: it is in ") + name_of(from));
  const bool ends = step_wanted && (to == IBV_QPS_RESET || to == IBV_QPS_ERR);
  if (ends) {
    own_mask = 0;  // some callers leave it uninitialised here
    verbs_mask &= IBV_QP_STATE | IBV_QP_CUR_STATE;
  } else if (step_wanted) {
    check_step(from, to, verbs_mask, own_mask);
  } else if ((verbs_mask & ~kAnyTime) != 0 || (own_mask & ~MRC_QP_HINT) != 0) {
    fail(EINVAL, "without IBV_QP_STATE only IBV_QP_ACCESS_FLAGS and MRC_QP_HINT may change");
  }
  verbs_mask &= ~kIgnored;
  check_values(verbs, verbs_mask);
  check_ranges(own, own_mask);
  mrc_qp_hint* hint = hint_;
  if ((own_mask & MRC_QP_HINT) != 0)
    hint = own.qp_hint == nullptr ? nullptr : &mrc_verbs::known_in(parent, own.qp_hint, "qp_hint");
  MrcTransport& transport = mrc_transport();
  const mrc_verbs::MrcAttributes before = transport.attributes;
  if (to == IBV_QPS_RESET) transport.attributes = {};
  take(transport.attributes, own, own_mask);
  try {
    if (step_wanted)
      step(to, verbs, verbs_mask);
    else
      change(verbs, verbs_mask);
  } catch (...) {
    transport.attributes = before;
    throw;
  }
  if ((own_mask & MRC_QP_CAP) != 0) cap_ = own.cap;
  if (to == IBV_QPS_RESET) cap_ = 0;
  set_hint(hint);
}

void mrc_qp::query_mrc(mrc_qp_attr& out) {
  const auto lock = modify_lock();
  const mrc::QpInfo info = mrc_transport().info();
  std::memset(&out, 0, sizeof out);  // what is between the members, too
  out.mpr.mpr = info.attributes.mpr;
  out.mpr.mpr_dest = info.attributes.mpr_dest;
  out.wimm.max_wimm = info.attributes.max_wimm;
  out.wimm.max_wimm_dest = info.attributes.max_wimm_dest;
  out.timeout = info.attributes.timeout;
  out.profile.ev_profile_id = info.profiles.ev.value_or(0);
  out.profile.cc_profile_id = info.profiles.cc.value_or(0);
  out.retry.linear_cnt = info.attributes.retry_linear;
  out.retry.exp_cnt = info.attributes.retry_exponential;
  out.qp_hint = hint_;
  out.cap = cap_ & ~std::uint32_t{MRC_QP_CAP_DYNAMIC_MPR};
  if (info.attributes.dynamic_mpr) out.cap |= MRC_QP_CAP_DYNAMIC_MPR;
}
