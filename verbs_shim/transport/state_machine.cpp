// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/transport/state_machine.hpp"

#include <array>

namespace mrc_verbs {

namespace {

/// One type of queue pairs in one transition: attributes that must be there, and may be.
struct Masks {
  int required, optional;
};

struct Transition {
  ibv_qp_state from, to;
  Masks rc, uc, ud;
};

constexpr int kPort = IBV_QP_PKEY_INDEX | IBV_QP_PORT;
constexpr int kAccess = kPort | IBV_QP_ACCESS_FLAGS;
constexpr int kDatagram = kPort | IBV_QP_QKEY;
constexpr int kPath = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kAlternate = IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS;
constexpr int kMove = IBV_QP_CUR_STATE | kAlternate | IBV_QP_PATH_MIG_STATE;
constexpr int kRetries = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY;
constexpr Masks kQkey{0, IBV_QP_CUR_STATE | IBV_QP_QKEY};
constexpr Masks kMoveRc{0, kMove | IBV_QP_MIN_RNR_TIMER};
constexpr Masks kMoveUc{0, kMove};
constexpr Masks kNotify{0, IBV_QP_EN_SQD_ASYNC_NOTIFY};
/// Of a type that does not go there at all.
constexpr Masks kNever{-1, 0};

constexpr Transition kTransitions[] = {
    {IBV_QPS_RESET, IBV_QPS_INIT, {kAccess, 0}, {kAccess, 0}, {kDatagram, 0}},
    {IBV_QPS_INIT, IBV_QPS_INIT, {0, kAccess}, {0, kAccess}, {0, kDatagram}},
    {IBV_QPS_INIT,
     IBV_QPS_RTR,
     {kPath | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, kAlternate | IBV_QP_PKEY_INDEX},
     {kPath, kAlternate | IBV_QP_PKEY_INDEX},
     {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_RTR,
     IBV_QPS_RTS,
     {kRetries | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC, kMove | IBV_QP_MIN_RNR_TIMER},
     {IBV_QP_SQ_PSN, kMove},
     {IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY}},
    {IBV_QPS_RTS, IBV_QPS_RTS, kMoveRc, kMoveUc, kQkey},
    {IBV_QPS_RTS, IBV_QPS_SQD, kNotify, kNotify, kNotify},
    {IBV_QPS_SQD, IBV_QPS_RTS, kMoveRc, kMoveUc, kQkey},
    {IBV_QPS_SQD,
     IBV_QPS_SQD,
     {0, IBV_QP_PORT | IBV_QP_AV | kRetries | IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC |
             kAlternate | IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
     {0, IBV_QP_AV | kAlternate | IBV_QP_PKEY_INDEX | IBV_QP_PATH_MIG_STATE},
     {0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY}},
    {IBV_QPS_SQE, IBV_QPS_RTS, kNever, {0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS}, kQkey},
};

constexpr std::array<const char*, 26> kNames{"STATE",
                                             "CUR_STATE",
                                             "EN_SQD_ASYNC_NOTIFY",
                                             "ACCESS_FLAGS",
                                             "PKEY_INDEX",
                                             "PORT",
                                             "QKEY",
                                             "AV",
                                             "PATH_MTU",
                                             "TIMEOUT",
                                             "RETRY_CNT",
                                             "RNR_RETRY",
                                             "RQ_PSN",
                                             "MAX_QP_RD_ATOMIC",
                                             "ALT_PATH",
                                             "MIN_RNR_TIMER",
                                             "SQ_PSN",
                                             "MAX_DEST_RD_ATOMIC",
                                             "PATH_MIG_STATE",
                                             "CAP",
                                             "DEST_QPN",
                                             "bit 21",
                                             "bit 22",
                                             "bit 23",
                                             "bit 24",
                                             "RATE_LIMIT"};

std::string names(int mask) {
  std::string text;
  for (unsigned bit = 0; bit < 32; ++bit) {
    if ((static_cast<unsigned>(mask) >> bit & 1u) == 0) continue;
    text += text.empty() ? "" : ", ";
    text +=
        bit < kNames.size() ? std::string("IBV_QP_") + kNames[bit] : "bit " + std::to_string(bit);
  }
  return text;
}

std::string refused(const Masks& masks, int mask) {
  if (const int missing = masks.required & ~mask; missing != 0)
    return "lacks attributes " + names(missing);
  if (const int more = mask & ~(masks.required | masks.optional); more != 0)
    return "does not take attributes " + names(more);
  return {};
}

}  // namespace

const char* name_of(ibv_qp_state state) noexcept {
  constexpr const char* kStates[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  const auto index = static_cast<std::size_t>(state);
  return index < std::size(kStates) ? kStates[index] : "an unknown state";
}

std::string refused_transition(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask) {
  const std::string doing = std::string(name_of(from)) + " to " + name_of(to) + ": ";
  mask &= ~IBV_QP_STATE;
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) {
    const std::string why = refused({0, IBV_QP_CUR_STATE}, mask);
    return why.empty() ? why : doing + why;
  }
  for (const Transition& known : kTransitions) {
    if (known.from != from || known.to != to) continue;
    const Masks& masks = type == IBV_QPT_RC ? known.rc : type == IBV_QPT_UC ? known.uc : known.ud;
    if (masks.required == kNever.required) break;
    const std::string why = refused(masks, mask);
    return why.empty() ? why : doing + why;
  }
  return doing + "there is no such transition";
}

}  // namespace mrc_verbs
