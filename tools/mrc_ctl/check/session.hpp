// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "mrc_ctl/check/facts.hpp"
#include "mrc_ctl/check/probe_packet.hpp"

namespace mrc::check_tool {

/// A checker, as the host that it checks keeps it: what of its probes has arrived, and what it may
/// have as answers. An answer goes only to an address from which at least as many bytes have come
/// with the token, so that the host amplifies nothing, and reflects nothing to others. Where
/// nothing comes, some of the smallest size may be asked for by TCP, one at a time, each smaller
/// than what asks for it. Knows no sockets; memory is bounded.
class Session {
 public:
  Session(const Token& token, HostFacts other) : token_(token), other_(std::move(other)) {}

  [[nodiscard]] const HostFacts& other() const noexcept { return other_; }
  [[nodiscard]] const Token& token() const noexcept { return token_; }

  /// An answer that is to be sent.
  struct Answer {
    ProbeHead head;
    std::size_t size = 0;
    bool piece = false;  ///< it leaves in one piece, in packets of kPiecePacket
    port::PeerAddress to;
  };
  /// A request has arrived in `plane`. Nothing: there is no answer to it.
  [[nodiscard]] std::optional<Answer> on_request(const ProbeHead& head, std::size_t size,
                                                 unsigned plane, const port::IpAddress& from);
  /// An answer of the smallest size was asked for by TCP: from `plane` to that of the same number,
  /// on a path. Nothing: there is no such plane or path, or it was asked too often.
  [[nodiscard]] std::optional<Answer> on_asked(std::uint16_t round, std::uint64_t plane,
                                               std::uint64_t path);
  /// An answer could not be sent.
  void on_failure(unsigned asking, unsigned answering, int error);

  /// What has arrived in a round, as JSON: {"arrived": [[asking, answering, paths], ...], "failed":
  /// [[asking, answering, errno], ...]}, paths as bits. Forgets it.
  [[nodiscard]] Json report(std::uint16_t round);

 private:
  static constexpr std::size_t kMostKept = 4096;
  using Pair = std::pair<unsigned, unsigned>;  // plane that asks, plane that answers

  Token token_;
  HostFacts other_;
  std::map<std::tuple<std::uint16_t, unsigned, unsigned>, std::uint64_t> arrived_;
  std::map<Pair, int> failed_;
  std::map<unsigned, std::uint64_t> credit_;  ///< bytes, by plane that asks
  unsigned asked_ = 0;                        ///< calls of on_asked() that were answered
};

}  // namespace mrc::check_tool
