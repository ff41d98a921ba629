// SPDX-License-Identifier: Apache-2.0
// Limit of UDP sockets without a protocol: two processes, packets of the same size as MRC's on the
// same number of sockets, sent in GSO bursts, received with GRO and copied once to their
// destination. No ordering, no retransmission, no congestion control; only a packet count is
// returned from time to time, so that the receive buffers don't overrun. Prints payload bandwidth
// as JSON.
#include <netinet/udp.h>
#include <poll.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>

#include "baseline_util.hpp"
#include "mrc/wire/icrc.hpp"

namespace {

using baseline::SteadyClock;
using baseline::UdpSocket;

/// BTH .. RETH, as in MRC; the first 8 bytes are the offset of the payload.
constexpr std::size_t kHeader = 36;
constexpr std::size_t kTrailer = 4;
constexpr std::size_t kMaxBurst = 64;
constexpr std::size_t kMaxMessage = 65'507;
constexpr std::size_t kSlots = 16;  ///< datagrams per receive call
constexpr std::size_t kSlotBytes = 65'536;

struct Setup {
  unsigned planes, paths, payload, burst, milliseconds, buffer_mib, area_mib;
  bool crc;
  [[nodiscard]] std::size_t packet() const { return kHeader + payload + kTrailer; }
  [[nodiscard]] std::size_t area() const { return std::size_t{area_mib} << 20; }
};

struct Totals {
  std::atomic<bool> ready{false}, stop{false};
  std::atomic<std::uint64_t> packets{0}, bad{0};
};

/// One plane: socket for data, socket for counts, and one sending socket per path.
struct PlaneSockets {
  explicit PlaneSockets(unsigned plane, const Setup& setup) : data(plane + 1), counts(plane + 1) {
    const int bytes = static_cast<int>(setup.buffer_mib << 20);
    window = data.set_buffer(SO_RCVBUF, SO_RCVBUFFORCE, bytes) / 4 / setup.packet();
    const int on = 1;
    if (setsockopt(data.fd(), IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0)
      baseline::fail_errno("UDP_GRO");
    for (unsigned i = 0; i < setup.paths; ++i) {
      paths.emplace_back(plane + 1);
      (void)paths.back().set_buffer(SO_SNDBUF, SO_SNDBUFFORCE, 1 << 20);
      paths.back().connect_to(data.address());
    }
  }
  UdpSocket data, counts;
  std::vector<UdpSocket> paths;
  std::uint64_t window;  ///< packets that certainly fit the receive buffer
};

/// Polls for a while and then sleeps, as programs using the library do: endless polling would keep
/// the processes it waits for off a shared processor.
class Patience {
 public:
  explicit Patience(std::vector<pollfd> watched) : watched_(std::move(watched)) {}
  /// After each round; `moved`: it received or sent something.
  void round(bool moved) {
    const auto now = SteadyClock::now();
    if (moved) last_ = now;
    if (now - last_ < kSpin) return;
    (void)poll(watched_.data(), watched_.size(), 1);
    last_ = SteadyClock::now();
  }

 private:
  static constexpr auto kSpin = std::chrono::microseconds(20);
  std::vector<pollfd> watched_;
  SteadyClock::time_point last_{};
};

class Receiver {
 public:
  Receiver(const Setup& setup, const std::vector<PlaneSockets>& planes, Totals& totals)
      : setup_(setup),
        planes_(planes),
        totals_(totals),
        pool_(std::make_unique<std::uint8_t[]>(kSlots * kSlotBytes)),
        area_(setup.area()),
        received_(planes.size()) {
    for (std::size_t i = 0; i < kSlots; ++i) {
      vectors_[i] = {pool_.get() + i * kSlotBytes, kSlotBytes};
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
      messages_[i].msg_hdr.msg_control = controls_[i].data();
    }
  }
  void run() {
    std::vector<pollfd> watched;
    for (const auto& plane : planes_) watched.push_back({plane.data.fd(), POLLIN, 0});
    Patience patience(std::move(watched));
    totals_.ready = true;
    while (!totals_.stop.load(std::memory_order_relaxed)) {
      bool moved = false;
      for (std::size_t p = 0; p < planes_.size(); ++p) moved |= receive(p);
      patience.round(moved);
    }
  }

 private:
  bool receive(std::size_t plane) {
    for (auto& m : messages_) m.msg_hdr.msg_controllen = sizeof controls_[0];
    const int n =
        recvmmsg(planes_[plane].data.fd(), messages_.data(), kSlots, MSG_DONTWAIT, nullptr);
    if (n <= 0) return false;
    for (int i = 0; i < n; ++i) received_[plane] += split(messages_[static_cast<std::size_t>(i)]);
    totals_.packets.store(totals_.packets.load(std::memory_order_relaxed) + last_,
                          std::memory_order_relaxed);
    last_ = 0;
    (void)sendto(planes_[plane].data.fd(), &received_[plane], sizeof received_[plane], MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&planes_[plane].counts.address()),
                 sizeof(sockaddr_in));
    return true;
  }
  std::uint64_t split(mmsghdr& m) {
    std::size_t segment = m.msg_len;
    for (cmsghdr* c = CMSG_FIRSTHDR(&m.msg_hdr); c != nullptr; c = CMSG_NXTHDR(&m.msg_hdr, c)) {
      int size = 0;
      if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_GRO) continue;
      std::memcpy(&size, CMSG_DATA(c), sizeof size);
      segment = static_cast<std::size_t>(size);
    }
    auto* bytes = static_cast<const std::uint8_t*>(m.msg_hdr.msg_iov->iov_base);
    std::uint64_t packets = 0;
    for (std::size_t left = m.msg_len; left >= segment && segment == setup_.packet();) {
      take(bytes);
      bytes += segment;
      left -= segment;
      ++packets;
    }
    last_ += packets;
    return packets;
  }
  void take(const std::uint8_t* packet) {
    const std::size_t covered = kHeader + setup_.payload;
    if (setup_.crc) {
      std::uint32_t stored;
      std::memcpy(&stored, packet + covered, sizeof stored);
      if (mrc::wire::crc32(0, {packet, covered}) != stored) ++totals_.bad;
    }
    std::uint64_t offset;
    std::memcpy(&offset, packet, sizeof offset);
    if (offset <= area_.size() - setup_.payload)
      std::memcpy(area_.data() + offset, packet + kHeader, setup_.payload);
  }

  const Setup& setup_;
  const std::vector<PlaneSockets>& planes_;
  Totals& totals_;
  std::unique_ptr<std::uint8_t[]> pool_;
  std::vector<std::uint8_t> area_;
  std::vector<std::uint64_t> received_;
  std::uint64_t last_ = 0;
  std::array<iovec, kSlots> vectors_{};
  std::array<mmsghdr, kSlots> messages_{};
  struct alignas(cmsghdr) Control : std::array<std::uint8_t, 64> {};
  std::array<Control, kSlots> controls_{};
};

class Sender {
 public:
  Sender(const Setup& setup, const std::vector<PlaneSockets>& planes)
      : setup_(setup),
        planes_(planes),
        area_(setup.area(), 0x5A),
        progress_(planes.size()),
        burst_(std::clamp<std::size_t>(kMaxMessage / setup.packet(), 1,
                                       std::min<std::size_t>(setup.burst, kMaxBurst))) {}

  /// Sends one burst on each plane with room for it; false if none had.
  bool step() {
    bool moved = false;
    for (std::size_t p = 0; p < planes_.size(); ++p) {
      read_counts(p);
      Progress& g = progress_[p];
      if (g.sent - g.counted + burst_ > std::max<std::uint64_t>(planes_[p].window, burst_))
        continue;
      const auto& path = planes_[p].paths[next_path_++ % setup_.paths];
      if (!send(path)) continue;
      g.sent += burst_;
      moved = true;
    }
    return moved;
  }
  /// The counts stopped: treat packets in flight as lost.
  void give_up() {
    for (Progress& g : progress_) {
      lost_ += g.sent - g.counted;
      g.sent = g.counted;
    }
  }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }

 private:
  struct Progress {
    std::uint64_t sent = 0, counted = 0;
  };

  void read_counts(std::size_t plane) {
    std::uint64_t count;
    while (recv(planes_[plane].counts.fd(), &count, sizeof count, MSG_DONTWAIT) == sizeof count) {
      // Packets that arrive after give_up() are counted, but are not in flight.
      const std::uint64_t news = count - progress_total_[plane];
      progress_total_[plane] = count;
      Progress& g = progress_[plane];
      g.counted = std::min(g.sent, g.counted + news);
    }
  }
  bool send(const UdpSocket& path) {
    for (std::size_t i = 0; i < burst_; ++i) {
      std::uint8_t* const header = headers_[i].data();
      std::memcpy(header, &offset_, sizeof offset_);
      vectors_[3 * i] = {header, kHeader};
      vectors_[3 * i + 1] = {area_.data() + offset_, setup_.payload};
      if (setup_.crc) {
        std::uint32_t crc = mrc::wire::crc32(0, {header, kHeader});
        crc = mrc::wire::crc32(crc, {area_.data() + offset_, setup_.payload});
        std::memcpy(trailers_[i].data(), &crc, sizeof crc);
      }
      vectors_[3 * i + 2] = {trailers_[i].data(), kTrailer};
      offset_ += setup_.payload;
      if (offset_ + setup_.payload > area_.size()) offset_ = 0;
    }
    msghdr m{};
    m.msg_iov = vectors_.data();
    m.msg_iovlen = 3 * burst_;
    m.msg_control = control_.data();
    m.msg_controllen = CMSG_SPACE(sizeof(std::uint16_t));
    cmsghdr* const c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
    const auto segment = static_cast<std::uint16_t>(setup_.packet());
    std::memcpy(CMSG_DATA(c), &segment, sizeof segment);
    const auto n = sendmsg(path.fd(), &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != ENOBUFS) baseline::fail_errno("sendmsg");
    return n > 0;
  }

  const Setup& setup_;
  const std::vector<PlaneSockets>& planes_;
  std::vector<std::uint8_t> area_;
  std::vector<Progress> progress_;
  std::array<std::uint64_t, 256> progress_total_{};
  std::size_t burst_;
  std::size_t offset_ = 0, next_path_ = 0;
  std::uint64_t lost_ = 0;
  std::array<std::array<std::uint8_t, kHeader>, kMaxBurst> headers_{};
  std::array<std::array<std::uint8_t, kTrailer>, kMaxBurst> trailers_{};
  std::array<iovec, 3 * kMaxBurst> vectors_{};
  alignas(cmsghdr) std::array<std::uint8_t, 64> control_{};
};

void send_for_a_while(const Setup& setup, const std::vector<PlaneSockets>& planes, Totals& totals) {
  constexpr auto kLost = std::chrono::milliseconds(100);
  while (!totals.ready) sched_yield();
  Sender sender(setup, planes);
  std::vector<pollfd> watched;
  for (const auto& plane : planes) watched.push_back({plane.counts.fd(), POLLIN, 0});
  Patience patience(std::move(watched));
  auto moved = SteadyClock::now();
  const auto run_until = [&](SteadyClock::time_point end) {
    for (auto now = moved; now < end; now = SteadyClock::now()) {
      const bool sent = sender.step();
      patience.round(sent);
      if (sent) {
        moved = now;
      } else if (now - moved > kLost) {
        sender.give_up();
        moved = now;
      }
    }
  };
  run_until(SteadyClock::now() + std::chrono::milliseconds(200));  // warms up
  const std::uint64_t before = totals.packets;
  const auto start = SteadyClock::now();
  run_until(start + std::chrono::milliseconds(setup.milliseconds));
  const std::uint64_t packets = totals.packets - before;
  const std::chrono::duration<double> time = SteadyClock::now() - start;
  totals.stop = true;
  const double bits = static_cast<double>(packets) * setup.payload * 8;
  fmt::print(
      "{{\"gbps\": {:.3f}, \"mpps\": {:.4f}, \"packets\": {}, \"lost\": {}, \"bad_crc\": {}, "
      "\"planes\": {}, \"paths\": {}, \"crc\": {}, \"window_packets\": {}}}\n",
      bits / time.count() / 1e9, static_cast<double>(packets) / time.count() / 1e6, packets,
      sender.lost(), totals.bad.load(), setup.planes, setup.paths, setup.crc, planes[0].window);
}

}  // namespace

int main(int argc, char** argv) {
  const baseline::Arguments a(argc, argv,
                              {{"planes", 1},
                               {"paths", 16},
                               {"payload", 4096},
                               {"burst", 64},
                               {"milliseconds", 2000},
                               {"buffer-mib", 8},
                               {"area-mib", 1},
                               {"crc", 0}});
  const Setup setup{a["planes"],       a["paths"],      a["payload"],  a["burst"],
                    a["milliseconds"], a["buffer-mib"], a["area-mib"], a["crc"] != 0};
  if (setup.planes < 1 || setup.planes > 250 || setup.paths < 1 || setup.burst < 1 ||
      setup.payload < 8 || setup.packet() > kMaxMessage || setup.area() < setup.payload)
    baseline::fail("planes 1 .. 250, paths and burst from 1, payload 8 .. 65467, area-mib from 1");
  std::vector<PlaneSockets> planes;
  for (unsigned p = 0; p < setup.planes; ++p) planes.emplace_back(p, setup);
  auto& totals = baseline::shared<Totals>();
  baseline::run_two([&] { Receiver(setup, planes, totals).run(); },
                    [&] { send_for_a_while(setup, planes, totals); },
                    setup.milliseconds / 1000 + 20);
}
