// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/prober.hpp"

#include <poll.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <thread>

#include "common/interrupt.hpp"
#include "mrc/plane/plane.hpp"

namespace mrc::check_tool {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSmallProbe = 256, kPiece = 1200;
/// Paths of answers that are asked for by TCP, each on its own.
constexpr std::uint64_t kPathsByTcp = 0xF;
/// Of the patience, before a probe is sent again, or given up.
constexpr int kWaits[] = {25, 10, 5};
/// Sizes of IP packets that links often carry.
constexpr std::uint32_t kUsualSizes[] = {9000, 8000, 4200, 2200, 1500, 1450, 1400, 1280, 1000, 576};

unsigned count_of(std::uint64_t paths) {
  return static_cast<unsigned>(std::popcount(paths));
}

Way way_of(std::uint64_t tried, std::uint64_t passed, int error, std::size_t size) {
  return {true, count_of(tried), count_of(tried & passed), error, static_cast<std::uint32_t>(size),
          0};
}

}  // namespace

std::uint64_t Prober::Part::missing() const noexcept {
  std::uint64_t arrived = ~std::uint64_t{0};
  if (there_counts) arrived &= there;
  if (here_counts) arrived &= here;
  return paths & ~arrived;
}

Prober::Prober(OwnHost& own, const HostFacts& there, const Token& token, CheckClient& client,
               Duration patience)
    : own_(own),
      there_(there),
      token_(token),
      client_(client),
      patience_(patience),
      planes_(std::min(own.planes.size(), there.planes.size())) {
  const unsigned paths = std::clamp(std::min(own.facts.probed, there.probed), 1u, kMostPaths);
  all_paths_ = ~std::uint64_t{0} >> (64 - paths);
}

/// Bytes of an IP packet of full size in that plane.
std::uint32_t Prober::full_size(std::size_t plane) const noexcept {
  return std::min(own_.facts.mtu, there_.mtu) + mrc::detail::kPacketOverhead +
         headers_of(own_.facts.planes[plane]);
}

std::vector<Prober::Part> Prober::parts_of(const std::vector<std::size_t>& planes) const {
  std::vector<Part> parts;
  for (const std::size_t plane : planes) {
    Part part;
    part.plane = plane;
    part.paths = all_paths_;
    part.size = part.wanted = kSmallProbe;
    parts.push_back(part);
  }
  return parts;
}

/// Answers that are larger than a request need several.
void Prober::send(const Part& part, int& error) {
  if (part.by_tcp) return ask_for(part);
  PlaneSockets& sockets = own_.planes[part.plane];
  const PlaneFacts& to = there_.planes[part.plane];
  if (port::is_v4(to.address) != port::is_v4(sockets.address())) {
    error = EAFNOSUPPORT;
    return;
  }
  const std::size_t pieces = std::max<std::size_t>(1, (part.wanted + part.size - 1) / part.size);
  std::size_t bytes = 0;
  for (std::uint64_t left = part.missing(); left != 0; left &= left - 1) {
    ProbeHead head;
    head.token = token_;
    head.asking = head.answering = static_cast<std::uint8_t>(part.plane);
    head.path = static_cast<std::uint8_t>(std::countr_zero(left));
    head.round = round_;
    head.wanted = static_cast<std::uint16_t>(part.wanted);
    if (part.here_counts) head.kind = part.kind;
    const unsigned by = part.by == 0 ? head.path : static_cast<unsigned>(std::countr_zero(part.by));
    const port::PeerAddress at{to.address, to.probe_port};
    const bool piece = part.kind != head.kind;
    for (std::size_t i = 0; i < pieces; ++i) {
      const int failed = piece ? sockets.send_piece(head, kPiecePacket, part.size, at, by)
                               : sockets.send(head, part.size, at, by);
      if (failed != 0) error = failed;
      bytes += part.size + part.wanted / pieces;
    }
    if (bytes < 32'768) continue;  // a socket's buffer should not overflow
    bytes = 0;
    std::this_thread::sleep_for(1ms);
  }
}

void Prober::ask_for(const Part& part) {
  for (std::uint64_t left = part.missing(); left != 0; left &= left - 1)
    (void)client_.ask({{"check", kCheckProtocol},
                       {"request", "send"},
                       {"round", round_},
                       {"plane", part.plane},
                       {"path", std::countr_zero(left)}});
}

void Prober::receive(std::vector<Part>& parts) {
  for (Part& part : parts) {
    own_.planes[part.plane].receive(
        [&](const ProbeHead& head, std::size_t size, const port::PeerAddress& from) {
          const PlaneFacts& other = there_.planes[part.plane];
          if (head.kind == ProbeHead::Kind::answer && head.token == token_ &&
              head.round == round_ && head.asking == part.plane && head.path < kMostPaths &&
              (part.kind != ProbeHead::Kind::request ||
               size == std::max(part.wanted, ProbeHead::kSize)) &&
              from.ip == other.address)
            part.there |= part.here |= std::uint64_t{1} << head.path;
        });
  }
}

/// Until all answers that are wanted are there.
void Prober::await(std::vector<Part>& parts, Duration longest) {
  const Time end = monotonic_now() + longest;
  while (!tools::g_interrupted) {
    receive(parts);
    const Duration left = end - monotonic_now();
    if (left <= Duration(0) || std::all_of(parts.begin(), parts.end(), [](const Part& part) {
          return part.here_counts && part.missing() == 0;
        }))
      return;
    std::vector<::pollfd> fds;
    for (const Part& part : parts) fds.push_back({own_.planes[part.plane].fd(), POLLIN, 0});
    (void)::poll(fds.data(), fds.size(), static_cast<int>(left / 1ms + 1));
  }
}

void Prober::take_report(std::vector<Part>& parts) {
  const Json answer =
      client_.ask({{"check", kCheckProtocol}, {"request", "arrived"}, {"round", round_}});
  const auto rows = [&](const char* name, auto&& fn) {
    for (const Json& row : ctl_tool::list_in(answer, name)) {
      if (!row.is_array() || row.size() != 3 ||
          !std::all_of(row.begin(), row.end(),
                       [](const Json& n) { return n.is_number_unsigned(); }))
        continue;
      for (Part& part : parts)
        if (row[0] == part.plane && row[1] == part.plane) fn(part, row[2].get<std::uint64_t>());
    }
  };
  rows("arrived", [](Part& part, std::uint64_t paths) { part.there |= paths; });
  rows("failed", [](Part& part, std::uint64_t error) {
    part.error_there = static_cast<int>(std::min<std::uint64_t>(error, 4095));
  });
}

/// Sends all parts, and again what has not arrived.
void Prober::work(std::vector<Part>& parts) {
  if (parts.empty()) return;
  ++round_;
  const auto done = [&] {
    return tools::g_interrupted ||
           std::all_of(parts.begin(), parts.end(), [](const Part& p) { return p.missing() == 0; });
  };
  for (const int share : kWaits) {
    for (Part& part : parts) {
      send(part, part.error_here);
      receive(parts);
    }
    // What has arrived there is asked for now and then; answers take the time that they take.
    const Time end = monotonic_now() + patience_ / share;
    while (!done() && monotonic_now() < end) {
      await(parts, parts.front().there_counts ? Duration(50ms) : end - monotonic_now());
      if (!done()) take_report(parts);
    }
    if (done()) return;
  }
}

/// Whether packets come from there where none arrives there, so that none is answered.
void Prober::try_back(std::vector<PlaneResult>& results, const std::vector<std::size_t>& planes) {
  std::vector<Part> parts = parts_of(planes);
  std::erase_if(parts, [this](const Part& part) {  // these can't reach each other
    return port::is_v4(there_.planes[part.plane].address) !=
           port::is_v4(own_.planes[part.plane].address());
  });
  for (Part& part : parts) {
    part.by_tcp = true;
    part.paths = all_paths_ & kPathsByTcp;
    part.wanted = 0;
    part.there_counts = false;
  }
  work(parts);
  for (const Part& part : parts)
    results[part.plane].small_here =
        way_of(part.paths, part.here, part.error_there,
               ProbeHead::kSize + headers_of(own_.facts.planes[part.plane]));
}

/// Which size passes where the full one does not, by one path that small packets take.
void Prober::find_fitting(std::vector<PlaneResult>& results, bool to_there,
                          const std::vector<std::uint64_t>& by) {
  for (const std::uint32_t size : kUsualSizes) {
    std::vector<std::size_t> planes;
    const auto way_in = [&](std::size_t plane) -> Way& {
      return to_there ? results[plane].full_there : results[plane].full_here;
    };
    for (std::size_t i = 0; i < planes_; ++i)
      if (const Way& way = way_in(i);
          way.tried && way.passed == 0 && way.fits == 0 && size < way.size && by[i] != 0)
        planes.push_back(i);
    std::vector<Part> parts = parts_of(planes);
    for (Part& part : parts) {
      const std::size_t bytes = size - headers_of(own_.facts.planes[part.plane]);
      part.by = by[part.plane];
      part.paths = part.by & -part.by;
      part.size = to_there ? bytes : std::min(bytes, kPiece);
      part.wanted = to_there ? 0 : bytes;
      part.there_counts = to_there;
      part.here_counts = !to_there;
    }
    work(parts);
    for (const Part& part : parts)
      if (part.missing() == 0) way_in(part.plane).fits = size;
  }
}

/// Sends pieces of both kinds by these paths, or asks for them; `by`: paths by which requests go.
/// Anything of a piece counts.
void Prober::try_pieces(std::vector<PlaneResult>& results, bool to_there,
                        const std::vector<std::uint64_t>& paths,
                        const std::vector<std::uint64_t>& by) {
  const HostFacts& sender = to_there ? own_.facts : there_;
  if (!sender.gso || !sender.gso_wanted) return;
  std::vector<std::size_t> planes;
  for (std::size_t i = 0; i < planes_; ++i)
    if (paths[i] != 0) planes.push_back(i);
  std::vector<std::uint64_t> passed = paths;
  std::vector<int> errors(planes_);
  for (const ProbeHead::Kind kind :
       {ProbeHead::Kind::for_equal, ProbeHead::Kind::for_shorter_end}) {
    std::vector<Part> parts = parts_of(planes);
    for (Part& part : parts) {
      part.kind = kind;
      part.paths = paths[part.plane];
      part.by = to_there ? 0 : by[part.plane];
      part.size = piece_bytes(kind);
      part.wanted = to_there ? 0 : part.size;
      part.there_counts = to_there;
      part.here_counts = !to_there;
    }
    work(parts);
    for (const Part& part : parts) {
      passed[part.plane] &= to_there ? part.there : part.here;
      if (const int error = to_there ? part.error_here : part.error_there; error != 0)
        errors[part.plane] = error;
    }
  }
  for (const std::size_t plane : planes)
    (to_there ? results[plane].pieces_there : results[plane].pieces_here) =
        way_of(paths[plane], passed[plane], errors[plane], kPiecePacket);
}

std::vector<PlaneResult> Prober::run() {
  std::vector<PlaneResult> results(planes_);
  std::vector<std::uint64_t> there(planes_), here(planes_);
  std::vector<std::size_t> planes(planes_);
  for (std::size_t i = 0; i < planes_; ++i) planes[i] = i;
  std::vector<Part> small = parts_of(planes);
  work(small);
  for (const Part& part : small) {
    const std::size_t size = kSmallProbe + headers_of(own_.facts.planes[part.plane]);
    PlaneResult& result = results[part.plane];
    result.small_there = way_of(part.paths, part.there, part.error_here, size);
    there[part.plane] = part.there & part.paths;
    here[part.plane] = part.here & part.paths;
    result.small_here = way_of(part.there & part.paths, part.here, part.error_there, size);
  }
  const auto silent =
      std::stable_partition(planes.begin(), planes.end(), [&](auto p) { return there[p] != 0; });
  try_back(results, {silent, planes.end()});
  planes.erase(silent, planes.end());

  std::vector<Part> out = parts_of(planes);
  for (Part& part : out) {
    part.paths = there[part.plane];
    part.size = full_size(part.plane) - headers_of(own_.facts.planes[part.plane]);
    part.wanted = 0;
    part.here_counts = false;
  }
  work(out);
  for (const Part& part : out)
    results[part.plane].full_there =
        way_of(part.paths, part.there, part.error_here, full_size(part.plane));
  find_fitting(results, true, there);

  std::erase_if(planes, [&](std::size_t plane) { return here[plane] == 0; });
  std::vector<Part> back = parts_of(planes);
  for (Part& part : back) {
    part.paths = here[part.plane];
    part.by = there[part.plane];
    part.wanted = full_size(part.plane) - headers_of(own_.facts.planes[part.plane]);
    part.size = std::min(part.wanted, kPiece);
    part.there_counts = false;
  }
  work(back);
  for (const Part& part : back)
    results[part.plane].full_here =
        way_of(part.paths, part.here, part.error_there, full_size(part.plane));
  find_fitting(results, false, here);
  try_pieces(results, true, there, there);
  try_pieces(results, false, here, there);
  return results;
}

}  // namespace mrc::check_tool
