// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/fabric/routes.hpp"
#include "probe/part.hpp"

/// The paths that probes take. With source routes (mrc-1.0 §4) a path may lead back to its sender,
/// so most of a fabric is tested without the help of another host. With ECMP a path is an EV to
/// another host, and switches choose its way by it (mrc-1.0 §3.1).
namespace mrc::probe {

/// What a path is for.
enum class PathKind : std::uint8_t {
  t0_loop,   ///< host, T0, host
  t1_loop,   ///< host, T0, T1, T0, host
  far_loop,  ///< the same by way of another T0: host, T0, T1, other T0, T1, T0, host
  detour,    ///< to a T1 not over the sender's link to it: tells a dead T1 from a dead link
  turn,      ///< to another T0 and back over another T1: tells the directions of links apart
  peer,      ///< to another host, which has to answer
};

/// "T0 loop", as tables call it.
[[nodiscard]] const char* to_string(PathKind kind) noexcept;

/// A host or switch on a path.
struct Stop {
  /// What it is. unknown: a uSID that no switch or host of the description has, or the T1 that
  /// ECMP chooses.
  enum class Kind : std::uint8_t { host, t0, t1, unknown };
  Kind kind = Kind::unknown;  ///< host or switch
  unsigned number = 0;        ///< index of the host, T0 or T1

  /// Equal in both fields.
  friend constexpr bool operator==(const Stop&, const Stop&) = default;
};

/// The path of a probe, from the host that sends it to the host that receives it.
struct ProbePath {
  PathKind kind = PathKind::peer;  ///< what it is for
  Plane plane = 0;                 ///< plane of all its links
  /// Uplink of the sender's T0; of a detour, that of the T1 it tests; with ECMP a plain number.
  std::uint16_t uplink = 0;
  unsigned to = 0;          ///< index of the host at its end; of loops and detours the sender
  unsigned far = 0;         ///< far_loop, detour, turn: the other T0
  Ev ev{};                  ///< EV of the probes on it
  path::UsidRoute route;    ///< empty with ECMP
  std::vector<Stop> stops;  ///< from sender to receiver, both included
  /// All that a probe and its answer pass, each once, sorted; of links also the directions.
  std::vector<Part> parts;
  std::vector<Part> there;  ///< the same without the answer's way back
  bool denied = false;      ///< the description denies one of them
};

/// True if switches choose a part of the path's way (ECMP).
[[nodiscard]] bool is_chosen(const ProbePath& path);

/// "h0 p1t0-0 p1t1-1 p1t0-0 h0"; "?" for an unknown stop.
[[nodiscard]] std::string way_name(const Description& d, const ProbePath& path);

/// The same; with ECMP followed by the EV: "h0 p1t0-0 ? p1t0-1 h1 by EV 0x2c003".
[[nodiscard]] std::string path_name(const Description& d, const ProbePath& path);

/// Makes the paths of one host of a fabric. Keeps a reference to the description, which must
/// outlive it. Const after construction: any thread.
class PathMaker {
 public:
  /// `self` is the index of the sending host in d.hosts.
  PathMaker(const Description& d, unsigned self);

  /// The description given to the constructor.
  [[nodiscard]] const Description& description() const noexcept { return d_; }
  /// Index of the sending host.
  [[nodiscard]] unsigned self() const noexcept { return self_; }

  /// All loops: paths from the host back to itself. Every link between switches is on one of them.
  /// For fabrics with source routes (Forwarding::srv6). Throws mrc::Error if the description's
  /// blocks and uSIDs give no route.
  [[nodiscard]] std::vector<ProbePath> loops() const;

  /// All paths to another host: one per source route, or, with ECMP, `evs` EVs of each plane.
  /// Throws mrc::Error like fabric::paths().
  [[nodiscard]] std::vector<ProbePath> paths_to(unsigned host,
                                                unsigned evs = fabric::kEcmpPaths) const;

  /// The loop that reaches T1 `u` from T0 `far`, and T0 `far` over T1 `by`. It leaves out the uSID
  /// of the sender's T0, as an address has room for six (mrc-1.0 §4.1).
  [[nodiscard]] ProbePath detour(Plane plane, unsigned u, unsigned far, unsigned by) const;

  /// The loop over T1 `u` to T0 `far`, and over T1 `by` back.
  [[nodiscard]] ProbePath turn(Plane plane, unsigned u, unsigned far, unsigned by) const;

 private:
  [[nodiscard]] unsigned home() const noexcept { return d_.hosts[self_].t0; }
  using Switch = fabric::Node;
  [[nodiscard]] static Switch t0(unsigned i) noexcept { return {fabric::NodeKind::t0, i}; }
  [[nodiscard]] static Switch t1(unsigned j) noexcept { return {fabric::NodeKind::t1, j}; }

  /// The uSIDs that lead over `switches`, in turn, and back to the host itself.
  [[nodiscard]] std::vector<fabric::Usid> usids_over(Plane plane,
                                                     const std::vector<Switch>& switches) const;

  /// The path over `switches` and back to the host itself.
  [[nodiscard]] ProbePath make_loop(PathKind kind, Plane plane, unsigned uplink, unsigned far,
                                    const std::vector<Switch>& switches) const;

  /// Fills in stops and parts, from the route or, with ECMP, from the ends of the path.
  [[nodiscard]] ProbePath trace(ProbePath p) const;

  [[nodiscard]] static Stop stop_of(const fabric::Node& node) noexcept;

  void find_parts(ProbePath& p) const;

  const Description& d_;
  unsigned self_;
};

}  // namespace mrc::probe
