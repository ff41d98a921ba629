// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "mrc_ctl/check/gather.hpp"
#include "mrc_ctl/check/line_socket.hpp"
#include "mrc_ctl/check/results.hpp"

namespace mrc::check_tool {

/// Probes the planes between this host and one that listens, each plane here with the one of the
/// same number there. A probe goes out up to three times. One thread.
class Prober {
 public:
  /// What it takes must outlive it. `token`: that the other host has given. `patience`: a probe
  /// that is lost takes a third of it.
  Prober(OwnHost& own, const HostFacts& there, const Token& token, CheckClient& client,
         Duration patience);

  /// Throws NoAnswer if the other host no longer answers.
  [[nodiscard]] std::vector<PlaneResult> run();

 private:
  /// What is to be sent in a plane, and what became of it; paths are bits.
  struct Part {
    std::size_t plane = 0;
    std::uint64_t paths = 0;  ///< to be tried
    std::size_t size = 0;     ///< bytes of UDP payload
    std::size_t wanted = 0;   ///< of the answer; 0: none
    /// Kind of the requests. Pieces: what is sent, or, with `here_counts`, what is asked for.
    ProbeHead::Kind kind = ProbeHead::Kind::request;
    bool there_counts = true;  ///< what arrives there is wanted
    bool here_counts = true;   ///< answers are
    bool by_tcp = false;       ///< answers are asked for by TCP, since no packet arrives there
    std::uint64_t by = 0;      ///< paths by which small packets arrive there; 0: each its own
    std::uint64_t there = 0, here = 0;    ///< what has arrived
    int error_there = 0, error_here = 0;  ///< of senders there, and here

    [[nodiscard]] std::uint64_t missing() const noexcept;
  };
  void work(std::vector<Part>& parts);
  void send(const Part& part, int& error);
  void ask_for(const Part& part);
  void receive(std::vector<Part>& parts);
  void await(std::vector<Part>& parts, Duration longest);
  void take_report(std::vector<Part>& parts);
  [[nodiscard]] std::vector<Part> parts_of(const std::vector<std::size_t>& planes) const;
  void try_back(std::vector<PlaneResult>& results, const std::vector<std::size_t>& planes);
  void find_fitting(std::vector<PlaneResult>& results, bool to_there,
                    const std::vector<std::uint64_t>& by);
  void try_pieces(std::vector<PlaneResult>& results, bool to_there,
                  const std::vector<std::uint64_t>& paths, const std::vector<std::uint64_t>& by);
  [[nodiscard]] std::uint32_t full_size(std::size_t plane) const noexcept;

  OwnHost& own_;
  const HostFacts& there_;
  const Token token_;
  CheckClient& client_;
  const Duration patience_;
  const std::size_t planes_;
  std::uint64_t all_paths_ = 0;
  std::uint16_t round_ = 0;
};

}  // namespace mrc::check_tool
