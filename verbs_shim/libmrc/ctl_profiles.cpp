// SPDX-License-Identifier: Apache-2.0
// The functions of mrc_ctl.h for profiles. In one call attributes come first, then operations, then
// the state, as in Device's own.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "verbs_shim/libmrc/ctl_values.hpp"
#include "verbs_shim/libmrc/mrc_objects.hpp"
#include "verbs_shim/transport/linger.hpp"

namespace mrc_verbs::provided {

namespace {

/// As minus_one_of(), but for limits of profiles, which are E2BIG here.
template <class Act>
int profile_call(const char* call, Act&& act) noexcept {
  return minus_one_of(call, [&] {
    try {
      act();
    } catch (const mrc::Error& error) {
      if (error.code() == mrc::Errc::no_resources) fail(E2BIG, error.what());
      throw;
    }
  });
}

[[nodiscard]] mrc::ProfileState to_state(mrc_ctl_profile_state state) {
  if (state < MRC_CTL_PROFILE_INIT || state > MRC_CTL_PROFILE_ONLINE)
    fail(EINVAL, "unknown state " + std::to_string(static_cast<int>(state)));
  return static_cast<mrc::ProfileState>(state);
}

/// What is asserted of a profile before it is changed.
void assert_state(bool wanted, mrc_ctl_profile_state asserted, mrc::ProfileState now) {
  if (wanted && to_state(asserted) != now)
    fail(EINVAL,
         "cur_profile_state: the profile is in state " + std::to_string(static_cast<int>(now)));
}

/// What profiles of all kinds have. `mask` has the same first bits for all.
template <class Attributes>
void put_common(Attributes& a, int mask, mrc::ProfileState now, bool vendor_cfg) {
  const auto state = static_cast<mrc_ctl_profile_state>(now);
  if ((mask & MRC_CTL_EV_PROFILE_STATE) != 0) a.profile_state = state;
  if ((mask & MRC_CTL_EV_PROFILE_CUR_STATE) != 0) a.cur_profile_state = state;
  if (vendor_cfg) std::fill(std::begin(a.vendor_cfg), std::end(a.vendor_cfg), std::uint8_t{0});
}

/// Before a profile leaves ONLINE: queue pairs that the program has destroyed may linger, and use
/// it.
void free_of_lingering(const std::optional<mrc::ProfileState>& next, std::uint32_t queue_pairs) {
  if (next == mrc::ProfileState::offline && queue_pairs > 0) Linger::end();
}

/// 0 is the device's own: ONLINE for ever.
void check_id(std::uint64_t id) {
  if (id == 0) fail(EINVAL, "profile 0 is the device's own, which does not change");
}

/// Elements that the program has, or has room for.
template <class T>
[[nodiscard]] std::span<T> array_of(T* first, int count, const char* name) {
  if (count < 0) fail(EINVAL, std::string(name) + ": a negative number of elements");
  if (count > 0 && first == nullptr) fail(EINVAL, std::string(name) + " is NULL");
  return {first, static_cast<std::size_t>(count)};
}

/// Copies as many elements as there are. Throws mrc::Error (E2BIG) without room; `count` then says
/// how many.
template <class T, class From, class Convert>
void put_array(T* first, int& count, const std::vector<From>& from, const char* name,
               Convert&& convert) {
  const std::span<T> room = array_of(first, count, name);
  count = static_cast<int>(from.size());
  if (room.size() < from.size())
    fail(E2BIG, std::string(name) + ": there are " + std::to_string(from.size()) +
                    " elements, and room for " + std::to_string(room.size()));
  std::transform(from.begin(), from.end(), room.begin(), convert);
}

// ---------------------------------------------------------------------------- format profiles

constexpr int kFormatMask = MRC_CTL_EV_FMT_PROFILE_STATE | MRC_CTL_EV_FMT_PROFILE_CUR_STATE |
                            MRC_CTL_EV_FMT_PROFILE_MODE | MRC_CTL_EV_FMT_PROFILE_OP |
                            MRC_CTL_EV_FMT_VENDOR_CFG;

void query_fields(const mrc::FormatProfileInfo& info, mrc_ctl_ev_fmt_profile_attr& a) {
  put_array(a.ev_fmt_op.fmt_fields, a.ev_fmt_op.fmt_field_count, info.fields, "fmt_fields",
            [](const mrc::path::FormatField& field) {
              return mrc_ctl_ev_fmt_field{static_cast<std::uint8_t>(field.width)};
            });
}

[[nodiscard]] mrc::path::EvMode to_mode(mrc_ctl_ev_fmt_mode mode) {
  if (mode != MRC_CTL_EV_FMT_MODE_STEV && mode != MRC_CTL_EV_FMT_MODE_SRV6 &&
      mode != MRC_CTL_EV_FMT_MODE_UDP)
    fail(EINVAL, "unknown mode " + std::to_string(static_cast<int>(mode)));
  return static_cast<mrc::path::EvMode>(mode);
}

}  // namespace

int mrc_ctl_modify_ev_fmt_profile(mrc_context* mrc, std::uint64_t id,
                                  mrc_ctl_ev_fmt_profile_attr* attr, int mask) noexcept {
  return profile_call("mrc_ctl_modify_ev_fmt_profile", [&] {
    const auto profiles = controller(mrc);
    check_id(id);
    check_mask(mask, kFormatMask, attr);
    if (mask == 0) return;
    mrc_ctl_ev_fmt_profile_attr& a = *attr;
    if ((mask & MRC_CTL_EV_FMT_VENDOR_CFG) != 0) check_vendor_cfg(a.vendor_cfg);
    assert_state((mask & MRC_CTL_EV_FMT_PROFILE_CUR_STATE) != 0, a.cur_profile_state,
                 profiles->format(id).state);
    mrc::FormatProfileChange change;
    if ((mask & MRC_CTL_EV_FMT_PROFILE_STATE) != 0) change.state = to_state(a.profile_state);
    if ((mask & MRC_CTL_EV_FMT_PROFILE_MODE) != 0) change.mode = to_mode(a.ev_fmt_mode);
    const bool operation = (mask & MRC_CTL_EV_FMT_PROFILE_OP) != 0;
    if (operation && a.ev_fmt_op.op == MRC_CTL_EV_FMT_OP_MODIFY_FIELDS) {
      change.fields.emplace();
      for (const mrc_ctl_ev_fmt_field& field :
           array_of(a.ev_fmt_op.fmt_fields, a.ev_fmt_op.fmt_field_count, "fmt_fields"))
        change.fields->push_back({field.width});
    } else if (operation && a.ev_fmt_op.op != MRC_CTL_EV_FMT_OP_QUERY_FIELDS) {
      fail(EINVAL, "unknown operation " + std::to_string(static_cast<int>(a.ev_fmt_op.op)));
    }
    profiles->change(id, change);
    if (operation && a.ev_fmt_op.op == MRC_CTL_EV_FMT_OP_QUERY_FIELDS)
      query_fields(profiles->format(id), a);
  });
}

int mrc_ctl_query_ev_fmt_profile(mrc_context* mrc, std::uint64_t id,
                                 mrc_ctl_ev_fmt_profile_attr* attr, int mask) noexcept {
  return profile_call("mrc_ctl_query_ev_fmt_profile", [&] {
    const auto profiles = controller(mrc);
    check_mask(mask, kFormatMask, attr);
    if (mask == 0) return;
    mrc_ctl_ev_fmt_profile_attr& a = *attr;
    if (id == 0) fail(EINVAL, "profile 0 is the device's own, which has no format");
    if ((mask & MRC_CTL_EV_FMT_PROFILE_OP) != 0 && a.ev_fmt_op.op != MRC_CTL_EV_FMT_OP_QUERY_FIELDS)
      fail(EINVAL, "a query does not modify");
    const mrc::FormatProfileInfo info = profiles->format(id);
    put_common(a, mask, info.state, (mask & MRC_CTL_EV_FMT_VENDOR_CFG) != 0);
    if ((mask & MRC_CTL_EV_FMT_PROFILE_MODE) != 0)
      a.ev_fmt_mode =
          static_cast<mrc_ctl_ev_fmt_mode>(info.mode ? static_cast<int>(*info.mode) : 0);
    if ((mask & MRC_CTL_EV_FMT_PROFILE_OP) != 0) query_fields(info, a);
  });
}

// -------------------------------------------------------------------------------- EV profiles

namespace {

constexpr int kEvMask = MRC_CTL_EV_PROFILE_STATE | MRC_CTL_EV_PROFILE_CUR_STATE |
                        MRC_CTL_EV_PROFILE_MODE | MRC_CTL_EV_PROFILE_FMT_ID |
                        MRC_CTL_EV_PROFILE_COUNT | MRC_CTL_EV_PROFILE_MIN_ACTIVE |
                        MRC_CTL_EV_PROFILE_EVENT_MASK | MRC_CTL_EV_PROFILE_EV_OP |
                        MRC_CTL_EV_PROFILE_EV_FIELDS_OP | MRC_CTL_EV_PROFILE_VENDOR_CFG;

[[nodiscard]] bool is_query(mrc_ctl_ev_op op) {
  if (op < MRC_CTL_EV_OP_REPLACE_EV || op > MRC_CTL_EV_OP_QUERY_EV_ARRAY)
    fail(EINVAL, "unknown operation " + std::to_string(static_cast<int>(op)));
  return op == MRC_CTL_EV_OP_QUERY_EV_STATE || op == MRC_CTL_EV_OP_QUERY_EV_ARRAY;
}

[[nodiscard]] bool is_query(mrc_ctl_ev_fields_op op) {
  if (op != MRC_CTL_EV_FIELDS_OP_MODIFY_FIELDS && op != MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS)
    fail(EINVAL, "unknown operation " + std::to_string(static_cast<int>(op)));
  return op == MRC_CTL_EV_FIELDS_OP_QUERY_FIELDS;
}

void check_operations(const mrc_ctl_ev_profile_attr& a, int mask, bool may_modify) {
  constexpr int kBoth = MRC_CTL_EV_PROFILE_EV_OP | MRC_CTL_EV_PROFILE_EV_FIELDS_OP;
  if ((mask & kBoth) == kBoth) fail(EINVAL, "operations on EVs and on fields in one call");
  const bool modifies =
      ((mask & MRC_CTL_EV_PROFILE_EV_OP) != 0 && !is_query(a.ev_op.op)) ||
      ((mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) != 0 && !is_query(a.ev_fields_op.op));
  if (modifies && !may_modify) fail(EINVAL, "a query does not modify");
}

[[nodiscard]] mrc::EvOperation to_operation(mrc_ctl_ev_op op, const mrc_ctl_ev_op_entry& entry) {
  if ((entry.flags & ~unsigned{MRC_CTL_EV_OP_F_ALL_COPIES}) != 0)
    fail(EINVAL, "unknown flags of an entry");
  const bool replaces = op == MRC_CTL_EV_OP_REPLACE_EV;
  const bool none = replaces && static_cast<int>(entry.state) == 0;
  const mrc_ctl_ev_state state = none ? MRC_CTL_EV_GOOD : entry.state;
  if (state != MRC_CTL_EV_GOOD && state != MRC_CTL_EV_DENIED)
    fail(EINVAL, "the state of an entry is GOOD (1) or DENIED (4)");
  mrc::EvOperation out;
  out.kind = replaces ? mrc::EvOperation::Kind::replace : mrc::EvOperation::Kind::set_state;
  out.ev = from_ctl(entry.ev);
  if (replaces) out.replacement = from_ctl(entry.ev_new);
  out.state = static_cast<mrc::EvState>(state);
  out.all_copies = (entry.flags & MRC_CTL_EV_OP_F_ALL_COPIES) != 0;
  return out;
}

[[nodiscard]] mrc::path::EvField to_field(const mrc_ctl_ev_field& field) {
  if (field.width > 64) fail(EINVAL, "a field has up to 64 bits");
  return {static_cast<std::uint16_t>(field.width), field.init_val, field.min_val, field.max_val,
          field.mask};
}

[[nodiscard]] mrc_ctl_ev_field to_ctl_field(const mrc::path::EvField& field) {
  const auto low = [](std::uint64_t value) { return static_cast<std::uint32_t>(value); };
  return {field.width, low(field.init_val), low(field.min_val), low(field.max_val),
          low(field.mask)};
}

/// The state of an EV that is in the array once or several times, if all of its entries agree.
[[nodiscard]] mrc_ctl_ev_state state_of(const mrc::EvProfileInfo& info, const mrc::ProfileEv& ev) {
  std::optional<mrc::EvState> state;
  for (const mrc::EvEntry& entry : info.entries) {
    if (!(entry.ev == ev)) continue;
    state = !state || *state == entry.state ? entry.state : mrc::EvState::unknown;
  }
  if (!state) fail(ENOENT, "an EV is not in the array");
  return static_cast<mrc_ctl_ev_state>(*state);
}

void query_evs(const mrc::EvProfileInfo& info, mrc_ctl_ev_profile_attr& a) {
  if (a.ev_op.op == MRC_CTL_EV_OP_QUERY_EV_ARRAY)
    return put_array(a.ev_op.entries, a.ev_op.entry_count, info.entries, "entries",
                     [](const mrc::EvEntry& entry) {
                       mrc_ctl_ev_op_entry out{};
                       out.ev = to_ctl(entry.ev);
                       out.state = static_cast<mrc_ctl_ev_state>(entry.state);
                       return out;
                     });
  for (mrc_ctl_ev_op_entry& entry : array_of(a.ev_op.entries, a.ev_op.entry_count, "entries"))
    entry.state = state_of(info, from_ctl(entry.ev));
}

void query_operations(const mrc::EvProfileInfo& info, mrc_ctl_ev_profile_attr& a, int mask) {
  if ((mask & MRC_CTL_EV_PROFILE_EV_OP) != 0 && is_query(a.ev_op.op)) query_evs(info, a);
  if ((mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) != 0 && is_query(a.ev_fields_op.op))
    put_array(a.ev_fields_op.fields, a.ev_fields_op.field_count, info.fields, "fields",
              &to_ctl_field);
}

[[nodiscard]] mrc::EvProfileChange to_change(const mrc_ctl_ev_profile_attr& a, int mask) {
  mrc::EvProfileChange change;
  if ((mask & MRC_CTL_EV_PROFILE_STATE) != 0) change.state = to_state(a.profile_state);
  if ((mask & MRC_CTL_EV_PROFILE_MODE) != 0) {
    if (a.ev_mode != MRC_CTL_EV_MODE_AUTO && a.ev_mode != MRC_CTL_EV_MODE_EXP &&
        a.ev_mode != MRC_CTL_EV_MODE_GEN)
      fail(EINVAL, "unknown mode " + std::to_string(static_cast<int>(a.ev_mode)));
    change.mode = static_cast<mrc::EvProfileMode>(a.ev_mode);
  }
  if ((mask & MRC_CTL_EV_PROFILE_FMT_ID) != 0) change.format = a.ev_fmt_profile_id;
  if ((mask & MRC_CTL_EV_PROFILE_COUNT) != 0) change.ev_count = a.ev_count;
  if ((mask & MRC_CTL_EV_PROFILE_MIN_ACTIVE) != 0) change.min_active = a.ev_min_active;
  if ((mask & MRC_CTL_EV_PROFILE_EVENT_MASK) != 0)
    change.event_mask = static_cast<std::uint32_t>(a.ev_event_mask);
  if ((mask & MRC_CTL_EV_PROFILE_EV_FIELDS_OP) != 0 && !is_query(a.ev_fields_op.op)) {
    change.fields.emplace();
    for (const mrc_ctl_ev_field& field :
         array_of(a.ev_fields_op.fields, a.ev_fields_op.field_count, "fields"))
      change.fields->push_back(to_field(field));
  }
  if ((mask & MRC_CTL_EV_PROFILE_EV_OP) != 0 && !is_query(a.ev_op.op))
    for (const mrc_ctl_ev_op_entry& entry :
         array_of(a.ev_op.entries, a.ev_op.entry_count, "entries"))
      change.operations.push_back(to_operation(a.ev_op.op, entry));
  return change;
}

}  // namespace

int mrc_ctl_modify_ev_profile(mrc_context* mrc, std::uint64_t id, mrc_ctl_ev_profile_attr* attr,
                              int mask) noexcept {
  return profile_call("mrc_ctl_modify_ev_profile", [&] {
    const auto profiles = controller(mrc);
    check_id(id);
    check_mask(mask, kEvMask, attr);
    if (mask == 0) return;
    mrc_ctl_ev_profile_attr& a = *attr;
    check_operations(a, mask, true);
    if ((mask & MRC_CTL_EV_PROFILE_VENDOR_CFG) != 0) check_vendor_cfg(a.vendor_cfg);
    assert_state((mask & MRC_CTL_EV_PROFILE_CUR_STATE) != 0, a.cur_profile_state,
                 profiles->evs(id).state);
    const mrc::EvProfileChange change = to_change(a, mask);
    free_of_lingering(change.state, profiles->evs(id).queue_pairs);
    profiles->change(id, change);
    query_operations(profiles->evs(id), a, mask);
  });
}

int mrc_ctl_query_ev_profile(mrc_context* mrc, std::uint64_t id, mrc_ctl_ev_profile_attr* attr,
                             int mask) noexcept {
  return profile_call("mrc_ctl_query_ev_profile", [&] {
    const auto profiles = controller(mrc);
    check_mask(mask, kEvMask, attr);
    if (mask == 0) return;
    mrc_ctl_ev_profile_attr& a = *attr;
    check_operations(a, mask, false);
    mrc::EvProfileInfo info;
    if (id == 0) {
      info.state = mrc::ProfileState::online;
      info.mode = mrc::EvProfileMode::automatic;
      info.entries = controlled(mrc).own_evs();
      info.ev_count = static_cast<std::uint32_t>(info.entries.size());
    } else {
      info = profiles->evs(id);
    }
    put_common(a, mask, info.state, (mask & MRC_CTL_EV_PROFILE_VENDOR_CFG) != 0);
    if ((mask & MRC_CTL_EV_PROFILE_MODE) != 0)
      a.ev_mode = static_cast<mrc_ctl_ev_mode>(info.mode ? static_cast<int>(*info.mode) : 0);
    if ((mask & MRC_CTL_EV_PROFILE_FMT_ID) != 0) a.ev_fmt_profile_id = info.format.value_or(0);
    if ((mask & MRC_CTL_EV_PROFILE_COUNT) != 0) a.ev_count = info.ev_count;
    if ((mask & MRC_CTL_EV_PROFILE_MIN_ACTIVE) != 0) a.ev_min_active = info.min_active.value_or(0);
    if ((mask & MRC_CTL_EV_PROFILE_EVENT_MASK) != 0)
      a.ev_event_mask = static_cast<int>(info.event_mask.value_or(0));
    query_operations(info, a, mask);
  });
}

// -------------------------------------------------------------------------------- CC profiles

namespace {

constexpr int kCcMask = MRC_CTL_CC_PROFILE_STATE | MRC_CTL_CC_PROFILE_CUR_STATE |
                        MRC_CTL_CC_PROFILE_ALGORITHM | MRC_CTL_CC_PROFILE_CONFIG |
                        MRC_CTL_CC_PROFILE_VENDOR_CFG;

[[nodiscard]] mrc::cc::Algorithm to_algorithm(const char* name) {
  if (name == nullptr) return mrc::cc::Algorithm::none;
  const auto known = mrc::cc::parse_algorithm(name);
  if (!known) fail(EINVAL, "unknown algorithm " + std::string(name).substr(0, 64));
  return *known;
}

/// Zeros are not given.
[[nodiscard]] mrc::CcConfig to_config(const void* given_config) {
  mrc::CcConfig out;
  if (given_config == nullptr) return out;
  const auto& c = *static_cast<const mrc_ctl_cc_nscc_cfg*>(given_config);
  const auto number = [](auto& to, auto from) {
    if (from != 0) to = from;
  };
  const auto time = [](std::optional<mrc::Duration>& to, std::uint32_t nanoseconds) {
    if (nanoseconds != 0) to = std::chrono::nanoseconds(nanoseconds);
  };
  const auto factor = [](std::optional<double>& to, float from) {
    if (!std::isfinite(from)) fail(EINVAL, "a parameter of congestion control is not finite");
    if (from != 0) to = static_cast<double>(from);
  };
  out.disable_qa = c.disable_qa != 0;
  number(out.adjust_bytes_threshold, c.adjust_bytes_threshold);
  time(out.adjust_period_threshold, c.adjust_period_threshold);
  time(out.base_rtt, c.base_rtt);
  factor(out.eta, c.eta);
  factor(out.fi, c.fi);
  factor(out.fi_scale, c.fi_scale);
  factor(out.gamma, c.gamma);
  factor(out.max_md_jump, c.max_md_jump);
  number(out.max_cwnd, c.max_cwnd);
  number(out.qa_gate, c.qa_gate);
  time(out.qa_threshold, c.qa_threshold);
  time(out.target_delay, c.target_delay);
  return out;
}

[[nodiscard]] mrc_ctl_cc_nscc_cfg to_ctl_config(const mrc::CcConfig& c) {
  const auto time = [](const std::optional<mrc::Duration>& from) {
    return from ? static_cast<std::uint32_t>(std::chrono::nanoseconds(*from).count()) : 0u;
  };
  const auto factor = [](const std::optional<double>& from) {
    return static_cast<float>(from.value_or(0));
  };
  mrc_ctl_cc_nscc_cfg out{};
  out.disable_qa = c.disable_qa.value_or(false) ? 1 : 0;
  out.adjust_bytes_threshold = c.adjust_bytes_threshold.value_or(0);
  out.adjust_period_threshold = time(c.adjust_period_threshold);
  out.base_rtt = time(c.base_rtt);
  out.eta = factor(c.eta);
  out.fi = factor(c.fi);
  out.fi_scale = factor(c.fi_scale);
  out.gamma = factor(c.gamma);
  out.max_md_jump = factor(c.max_md_jump);
  out.max_cwnd =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(c.max_cwnd.value_or(0), UINT32_MAX));
  out.qa_gate = static_cast<std::uint8_t>(c.qa_gate.value_or(0));
  out.qa_threshold = time(c.qa_threshold);
  out.target_delay = time(c.target_delay);
  return out;
}

}  // namespace

int mrc_ctl_modify_cc_profile(mrc_context* mrc, std::uint64_t id, mrc_ctl_cc_profile_attr* attr,
                              int mask) noexcept {
  return profile_call("mrc_ctl_modify_cc_profile", [&] {
    const auto profiles = controller(mrc);
    check_id(id);
    check_mask(mask, kCcMask, attr);
    if (mask == 0) return;
    const mrc_ctl_cc_profile_attr& a = *attr;
    if ((mask & MRC_CTL_CC_PROFILE_VENDOR_CFG) != 0) check_vendor_cfg(a.vendor_cfg);
    assert_state((mask & MRC_CTL_CC_PROFILE_CUR_STATE) != 0, a.cur_profile_state,
                 profiles->cc(id).state);
    mrc::CcProfileChange change;
    if ((mask & MRC_CTL_CC_PROFILE_STATE) != 0) change.state = to_state(a.profile_state);
    if ((mask & MRC_CTL_CC_PROFILE_ALGORITHM) != 0) change.algorithm = to_algorithm(a.algorithm);
    if ((mask & MRC_CTL_CC_PROFILE_CONFIG) != 0) change.config = to_config(a.cc_config);
    free_of_lingering(change.state, profiles->cc(id).queue_pairs);
    profiles->change(id, change);
  });
}

int mrc_ctl_query_cc_profile(mrc_context* mrc, std::uint64_t id, mrc_ctl_cc_profile_attr* attr,
                             int mask) noexcept {
  return profile_call("mrc_ctl_query_cc_profile", [&] {
    const auto profiles = controller(mrc);
    check_mask(mask, kCcMask, attr);
    if (mask == 0) return;
    mrc_ctl_cc_profile_attr& a = *attr;
    mrc::CcProfileInfo info;
    if (id == 0) {
      info.state = mrc::ProfileState::online;
      info.algorithm = controlled(mrc).config().cc;
    } else {
      info = profiles->cc(id);
    }
    put_common(a, mask, info.state, (mask & MRC_CTL_CC_PROFILE_VENDOR_CFG) != 0);
    if ((mask & MRC_CTL_CC_PROFILE_ALGORITHM) != 0) {
      const auto algorithm = info.algorithm.value_or(mrc::cc::Algorithm::none);
      a.algorithm = algorithm == mrc::cc::Algorithm::none ? nullptr : mrc::cc::to_string(algorithm);
    }
    if ((mask & MRC_CTL_CC_PROFILE_CONFIG) != 0) {
      thread_local mrc_ctl_cc_nscc_cfg kept;
      kept = to_ctl_config(info.config.value_or(mrc::CcConfig{}));
      a.cc_config = &kept;
    }
  });
}

}  // namespace mrc_verbs::provided
