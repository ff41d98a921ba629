// SPDX-License-Identifier: Apache-2.0
// Names of numbers, and rates of links.
#include <cstddef>

#include "verbs_shim/abi.hpp"

namespace {

template <std::size_t n>
const char* name_at(const char* const (&names)[n], long index) {
  if (index < 0 || static_cast<std::size_t>(index) >= n || names[index] == nullptr)
    return "unknown";
  return names[index];
}

/// A rate: its code, its multiple of 2.5 Gb/s, and Mb/s.
struct Rate {
  ibv_rate code;
  int multiple, megabits;
};

/// The multiples and Mb/s are those that rdma-core gives, which programs compare: links that encode
/// 64 bits in 66 are a little faster than their name.
constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 1, 2500},       {IBV_RATE_5_GBPS, 2, 5000},
    {IBV_RATE_10_GBPS, 4, 10000},       {IBV_RATE_20_GBPS, 8, 20000},
    {IBV_RATE_30_GBPS, 12, 30000},      {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},      {IBV_RATE_80_GBPS, 32, 80000},
    {IBV_RATE_120_GBPS, 48, 120000},    {IBV_RATE_14_GBPS, 6, 14062},
    {IBV_RATE_56_GBPS, 22, 56250},      {IBV_RATE_112_GBPS, 45, 112500},
    {IBV_RATE_168_GBPS, 67, 168750},    {IBV_RATE_25_GBPS, 10, 25781},
    {IBV_RATE_100_GBPS, 40, 103125},    {IBV_RATE_200_GBPS, 80, 206250},
    {IBV_RATE_300_GBPS, 120, 309375},   {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},      {IBV_RATE_400_GBPS, 160, 425000},
    {IBV_RATE_600_GBPS, 240, 637500},   {IBV_RATE_800_GBPS, 320, 850000},
    {IBV_RATE_1200_GBPS, 480, 1275000},
};

}  // namespace

extern "C" {

const char* ibv_node_type_str(ibv_node_type type) {
  static const char* const names[] = {nullptr,
                                      "InfiniBand channel adapter",
                                      "InfiniBand switch",
                                      "InfiniBand router",
                                      "iWARP NIC",
                                      "usNIC",
                                      "usNIC UDP",
                                      "unspecified"};
  return name_at(names, type);
}

const char* ibv_port_state_str(ibv_port_state state) {
  static const char* const names[] = {"no state change", "down",   "init",
                                      "armed",           "active", "active deferred"};
  if (state < IBV_PORT_NOP || state > IBV_PORT_ACTIVE_DEFER) return "invalid state";
  return name_at(names, state);
}

const char* ibv_event_type_str(ibv_event_type event) {
  static const char* const names[] = {"CQ error",
                                      "local work queue catastrophic error",
                                      "invalid request local work queue error",
                                      "local access violation work queue error",
                                      "communication established",
                                      "send queue drained",
                                      "path migrated",
                                      "path migration request error",
                                      "local catastrophic error",
                                      "port active",
                                      "port error",
                                      "LID change",
                                      "P_Key change",
                                      "SM change",
                                      "SRQ catastrophic error",
                                      "SRQ limit reached",
                                      "last WQE reached",
                                      "client reregistration",
                                      "GID table change",
                                      "WQ fatal"};
  return name_at(names, event);
}

const char* ibv_wc_status_str(ibv_wc_status status) {
  static const char* const names[] = {"success",
                                      "local length error",
                                      "local QP operation error",
                                      "local EE context operation error",
                                      "local protection error",
                                      "work request flushed",
                                      "memory window bind error",
                                      "bad response error",
                                      "local access error",
                                      "remote invalid request error",
                                      "remote access error",
                                      "remote operation error",
                                      "transport retry counter exceeded",
                                      "RNR retry counter exceeded",
                                      "local RDD violation error",
                                      "remote invalid RD request",
                                      "remote abort error",
                                      "invalid EE context number",
                                      "invalid EE context state",
                                      "fatal error",
                                      "response timeout error",
                                      "general error",
                                      "tag matching error",
                                      "tag matching rendezvous incomplete"};
  return name_at(names, status);
}

int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& known : kRates)
    if (known.code == rate) return known.multiple;
  return -1;
}

ibv_rate mult_to_ibv_rate(int multiple) {
  for (const Rate& known : kRates)
    if (known.multiple == multiple) return known.code;
  return IBV_RATE_MAX;
}

int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& known : kRates)
    if (known.code == rate) return known.megabits;
  return -1;
}

ibv_rate mbps_to_ibv_rate(int megabits) {
  for (const Rate& known : kRates)
    if (known.megabits == megabits) return known.code;
  return IBV_RATE_MAX;
}

}  // extern "C"
