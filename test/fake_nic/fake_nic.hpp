// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

/// A stand-in for libibverbs (libibverbs.so.1) whose devices live in this process and are joined by
/// one network, so that verbs ports run in ordinary tests, under sanitizers, and with failures that
/// no kernel makes on request. It has what VerbsLibrary looks for: UD with immediate, RDMA writes
/// with immediate on UC, shared receive queues, completion channels; and raw-packet queue pairs
/// with rules for flows, whose frames go through a network interface of this host.
///
/// Any thread. Hooks are called with the network's lock held and must not call back.
namespace mrc::test::fake_nic {

using Address = std::array<std::uint8_t, 16>;
using Time = std::chrono::steady_clock::duration;

#define MRC_FAKE __attribute__((visibility("default")))

/// A GID of a port; InfiniBand's and RoCE v1's are of no use to OpenMRC.
struct Gid {
  Address address{};
  bool roce_v2 = true;
};

/// What a device has and can do.
struct Nic {
  std::string name;
  std::vector<Gid> gids;                 ///< of port 1
  std::vector<std::vector<Gid>> others;  ///< of ports 2 and so on
  bool active = true;                    ///< port 1; the others are
  bool ethernet = true;
  int max_qp = 1000;
  int max_cqe = 1 << 16;
  int max_srq_wr = 1 << 15;
  int max_sge = 16;
  std::uint32_t max_inline = 64;
  int max_qp_wr = 1 << 14;
  /// A new queue pair gets the lowest number that is free; else numbers only grow.
  bool reuses_numbers = false;
  /// When port 1 goes down, or its GIDs change, its queue pairs fail, as those of Soft-RoCE do.
  bool fragile = false;
  /// Time from posting to sending: what is sent is read from memory only then.
  Time send_delay{};
  std::string interface;  ///< of raw-packet queue pairs; empty: it has none
};

/// What carries a packet.
enum class Carrier : std::uint8_t { ud, uc, raw };

/// A packet as it enters the network.
struct Packet {
  Carrier carrier = Carrier::ud;
  std::string from;                   ///< name of the device
  std::uint32_t source_qpn = 0;       ///< that sent it
  std::uint32_t destination_qpn = 0;  ///< that is to have it
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint32_t immediate = 0;  ///< host byte order
};

/// What the network does with a packet.
enum class Fate : std::uint8_t {
  deliver,
  drop,
  hold,  ///< until release()
};

/// What the network does to all packets of a kind.
struct Weather {
  double loss = 0;       ///< share of packets, 0 .. 1
  double duplicate = 0;  ///< likewise
  Time delay{};          ///< of all packets; their order stays
  Time jitter{};         ///< up to so much more, by chance: later packets overtake earlier ones
};

/// Objects that exist, and what went wrong.
struct Counts {
  int contexts = 0, pds = 0, mrs = 0, channels = 0, cqs = 0, srqs = 0, qps = 0, ahs = 0, flows = 0;
  std::uint64_t overruns = 0;         ///< completions that a completion queue had no room for
  std::uint64_t without_receive = 0;  ///< packets that found no receive posted
  std::uint64_t to_nobody = 0;        ///< packets to queue pairs that do not exist

  /// Objects of all kinds.
  [[nodiscard]] int objects() const {
    return contexts + pds + mrs + channels + cqs + srqs + qps + ahs + flows;
  }
};

/// Adds a device, or one that was removed.
MRC_FAKE void add(const Nic& nic);
/// Removes a device: it is no longer listed, and its ports are no longer active.
MRC_FAKE void remove(const std::string& name);
/// Port 1 goes down or comes up, with or without telling those who have the device open.
MRC_FAKE void set_link(const std::string& name, bool up, bool with_event = true);
/// Replaces the GIDs of port 1.
MRC_FAKE void set_gids(const std::string& name, const std::vector<Gid>& gids);
/// What happens to packets of a kind from now on.
MRC_FAKE void set_weather(Carrier carrier, const Weather& weather);
/// Judges each packet; empty: all are delivered, as far as the weather allows.
MRC_FAKE void set_judge(std::function<Fate(const Packet&)> judge);
/// Delivers what was held, in the order in which it was sent. Returns how many.
MRC_FAKE std::size_t release();
/// From the call number `after` (from now on, 0 first) on, `times` calls of a function of
/// libibverbs fail with an errno value: "ibv_create_qp", "post_send" or "post_srq_recv".
MRC_FAKE void fail(const std::string& function, int after, int error, int times = 1);
/// What exists, and what went wrong since reset().
[[nodiscard]] MRC_FAKE Counts counts();
/// What went wrong, a line each.
[[nodiscard]] MRC_FAKE std::vector<std::string> misuses();
/// Removes all devices and hooks. The objects must be gone.
MRC_FAKE void reset();

}  // namespace mrc::test::fake_nic
