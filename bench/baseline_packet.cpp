// SPDX-License-Identifier: Apache-2.0
// Limit of packet sockets without a protocol: two processes at two hosts of a fabric made by
// mrc_fabric; frames of the same size and form as MRC's are sprayed over all paths, 64 per system
// call, received from a ring as packet ports do (--ring 0: 64 per system call), checked and copied
// once to their destination. No ordering, no retransmission, no congestion control; only a packet
// count is returned from time to time, so that the receive buffers don't overrun. Prints payload
// bandwidth as JSON.
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>

#include <array>
#include <atomic>
#include <memory>

#include "baseline_util.hpp"
#include "mrc/fabric/fabric_reader.hpp"
#include "mrc/fabric/packet.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "mrc/fabric/routes.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/icrc.hpp"

namespace {

using baseline::SteadyClock;
using mrc::port::Socket;

constexpr std::size_t kBatch = 64;
/// BTH .. RETH, as in MRC; the first 8 bytes are the offset of the payload.
constexpr std::size_t kHeader = 36;
constexpr std::size_t kTrailer = 4;
constexpr std::size_t kSlotBytes = 16'384;

struct Setup {
  mrc::fabric::Description fabric;
  unsigned payload, milliseconds, buffer_mib, area_mib;
  bool crc, ring;
  [[nodiscard]] std::size_t area() const { return std::size_t{area_mib} << 20; }
};

struct Totals {
  std::atomic<bool> ready{false}, stop{false};
  std::atomic<std::uint64_t> packets{0}, bad{0};
};

void enter(const Setup& setup, const std::string& prefix, const std::string& host) {
  const std::string name = "/run/netns/" + prefix + "-" + setup.fabric.name + "-" + host;
  const int fd = open(name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) baseline::fail(name + " is not there; make the fabric with mrc_fabric up");
  if (setns(fd, CLONE_NEWNET) != 0) baseline::fail_errno("setns");
  close(fd);
}

/// All bytes before the payload, for one path.
using Head = std::vector<std::uint8_t>;

/// As a packet port determines it; empty if there is none.
std::optional<mrc::wire::MacAddress> find_next_hop(const mrc::fabric::Host& from, unsigned plane,
                                                   std::uint32_t interface,
                                                   const mrc::wire::IpAddress& to) {
  if (!from.next_hops.empty()) return from.next_hops[plane];
  const auto gateway = mrc::port::find_gateway(interface, to);
  if (!gateway) return std::nullopt;
  const auto neighbour = mrc::port::find_neighbour(interface, *gateway);
  if (!neighbour) return std::nullopt;
  return neighbour->mac;
}

/// One plane at one host: its socket, and the frame headers for each path to the other host.
class PlanePort {
 public:
  PlanePort(const Setup& setup, const mrc::fabric::Host& from, const mrc::fabric::Host& to,
            unsigned plane, std::size_t packet)
      : socket_(mrc::port::open_packet_socket()) {
    const auto interface = mrc::port::look_up_interface(socket_, from.interfaces[plane]);
    const int bytes = static_cast<int>(setup.buffer_mib << 20);
    buffer_ = mrc::port::set_buffer(socket_, SO_RCVBUF, SO_RCVBUFFORCE,
                                    static_cast<std::uint32_t>(bytes));
    (void)mrc::port::try_option(socket_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    if (setup.ring) {
      ring_ = std::make_unique<mrc::port::PacketRing>();
      const auto why = ring_->open(socket_, interface.mtu, 2 * static_cast<std::uint64_t>(bytes));
      if (!why.empty()) baseline::fail("no receive ring: " + why);
    }
    if (!mrc::port::bind_packet_socket(socket_, interface.index, ETH_P_IPV6))
      baseline::fail_errno("bind");
    for (const auto& path : mrc::fabric::paths(setup.fabric, from, to)) {
      if (path.plane != plane) continue;
      const auto next_hop = find_next_hop(from, plane, interface.index, path.route.destination);
      if (!next_hop) baseline::fail("no next hop in plane " + std::to_string(plane));
      mrc::wire::Envelope e;
      e.source = e.outer_source = from.addresses[plane];
      e.destination = to.addresses[plane];
      e.encapsulation = mrc::wire::Encapsulation::ipv6_in_ipv6;
      e.outer_destination = path.route.destination;
      Head head(mrc::wire::kMaxEnvelope + ETH_HLEN);
      std::copy(next_hop->begin(), next_hop->end(), head.begin());
      std::copy(interface.mac.begin(), interface.mac.end(), head.begin() + 6);
      head[12] = 0x86;
      head[13] = 0xDD;
      head.resize(ETH_HLEN +
                  mrc::wire::build_envelope(std::span(head).subspan(ETH_HLEN), e, packet));
      heads_.push_back(std::move(head));
    }
  }
  [[nodiscard]] const Socket& socket() const { return socket_; }
  [[nodiscard]] mrc::port::PacketRing* ring() const { return ring_.get(); }
  /// Packets of that size that may be on their way.
  [[nodiscard]] std::uint64_t room(std::size_t packet) const {
    return ring_ ? ring_->slots() / 2 : buffer_ / 4 / packet;
  }
  [[nodiscard]] const Head& head(std::size_t n) const { return heads_[n % heads_.size()]; }

 private:
  Socket socket_;
  std::unique_ptr<mrc::port::PacketRing> ring_;
  std::uint64_t buffer_ = 0;
  std::vector<Head> heads_;
};

std::vector<PlanePort> open_planes(const Setup& setup, const std::string& from,
                                   const std::string& to, std::size_t packet) {
  std::vector<PlanePort> planes;
  for (unsigned p = 0; p < setup.fabric.planes; ++p)
    planes.emplace_back(setup, *setup.fabric.find_host(from), *setup.fabric.find_host(to), p,
                        packet);
  return planes;
}

constexpr std::size_t kCountPacket = 8 + kTrailer;  ///< returned count: one number

/// Frames that arrive at one socket, a batch at a time.
class Inbox {
 public:
  Inbox() : pool_(std::make_unique<std::uint8_t[]>(kBatch * kSlotBytes)) {
    for (std::size_t i = 0; i < kBatch; ++i) {
      vectors_[i] = {pool_.get() + i * kSlotBytes, kSlotBytes};
      messages_[i].msg_hdr.msg_iov = &vectors_[i];
      messages_[i].msg_hdr.msg_iovlen = 1;
    }
  }
  template <class F>
  void read(const PlanePort& plane, F&& frame) {
    if (plane.ring() != nullptr) {
      frames_.clear();
      plane.ring()->receive(kBatch, frames_);
      for (const mrc::MutableBytes arrived : frames_) frame(mrc::Bytes(arrived));
      return;
    }
    const int n = recvmmsg(plane.socket().fd(), messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < n; ++i)
      frame(
          mrc::Bytes(static_cast<const std::uint8_t*>(vectors_[i].iov_base), messages_[i].msg_len));
  }

 private:
  std::unique_ptr<std::uint8_t[]> pool_;
  std::array<iovec, kBatch> vectors_{};
  std::array<mmsghdr, kBatch> messages_{};
  std::vector<mrc::MutableBytes> frames_;
};

/// Offset of the payload of an encapsulated frame.
constexpr std::size_t kInFront =
    ETH_HLEN + mrc::wire::envelope_size(false, mrc::wire::Encapsulation::ipv6_in_ipv6);

void receive_all(const Setup& setup, const std::string& from, const std::string& to,
                 Totals& totals) {
  const auto planes = open_planes(setup, to, from, kCountPacket);
  Inbox inbox;
  std::vector<std::uint8_t> area(setup.area());
  std::vector<pollfd> watched;
  for (const auto& plane : planes) watched.push_back({plane.socket().fd(), POLLIN, 0});
  std::uint64_t count = 0;
  totals.ready = true;
  while (!totals.stop.load(std::memory_order_relaxed)) {
    bool moved = false;
    for (const auto& plane : planes) {
      const std::uint64_t before = count;
      inbox.read(plane, [&](mrc::Bytes frame) {
        if (frame.size() != kInFront + kHeader + setup.payload + kTrailer) return;
        const std::uint8_t* packet = frame.data() + kInFront;
        const std::size_t covered = kHeader + setup.payload;
        std::uint32_t stored;
        std::memcpy(&stored, packet + covered, sizeof stored);
        if (setup.crc && mrc::wire::crc32(0, {packet, covered}) != stored) ++totals.bad;
        std::uint64_t offset;
        std::memcpy(&offset, packet, sizeof offset);
        if (offset <= area.size() - setup.payload)
          std::memcpy(area.data() + offset, packet + kHeader, setup.payload);
        ++count;
      });
      if (count == before) continue;
      moved = true;
      totals.packets.store(count, std::memory_order_relaxed);
      Head back = plane.head(count / kBatch);
      back.resize(back.size() + kCountPacket);
      std::memcpy(back.data() + back.size() - kCountPacket, &count, sizeof count);
      (void)send(plane.socket().fd(), back.data(), back.size(), MSG_DONTWAIT);
    }
    if (!moved) (void)poll(watched.data(), watched.size(), 1);
  }
}

/// The frames of one system call.
class Outbox {
 public:
  explicit Outbox(const Setup& setup) : setup_(setup), data_(setup.area()) {
    for (std::size_t i = 0; i < data_.size(); ++i) data_[i] = static_cast<std::uint8_t>(i * 7);
  }
  void add(const Head& head, std::uint64_t number) {
    const std::uint64_t offset = number * setup_.payload % (data_.size() - setup_.payload + 1);
    auto& front = fronts_[count_];
    std::memcpy(front.data(), head.data(), head.size());
    std::uint8_t* header = front.data() + head.size();
    std::memset(header, 0, kHeader);
    std::memcpy(header, &offset, sizeof offset);
    std::uint32_t crc = 0;
    if (setup_.crc) {
      crc = mrc::wire::crc32(0, {header, kHeader});
      crc = mrc::wire::crc32(crc, {data_.data() + offset, setup_.payload});
    }
    trailers_[count_] = crc;
    iovec* v = &vectors_[3 * count_];
    v[0] = {front.data(), head.size() + kHeader};
    v[1] = {data_.data() + offset, setup_.payload};
    v[2] = {&trailers_[count_], kTrailer};
    messages_[count_].msg_hdr.msg_iov = v;
    messages_[count_++].msg_hdr.msg_iovlen = 3;
  }
  /// Returns the number of frames sent.
  std::size_t flush(const Socket& socket) {
    const int n =
        sendmmsg(socket.fd(), messages_.data(), static_cast<unsigned>(count_), MSG_DONTWAIT);
    count_ = 0;
    return n > 0 ? static_cast<std::size_t>(n) : 0;
  }

 private:
  const Setup& setup_;
  std::vector<std::uint8_t> data_;
  std::array<std::array<std::uint8_t, 256>, kBatch> fronts_{};
  std::array<std::uint32_t, kBatch> trailers_{};
  std::array<iovec, 3 * kBatch> vectors_{};
  std::array<mmsghdr, kBatch> messages_{};
  std::size_t count_ = 0;
};

void send_all(const Setup& setup, const std::string& from, const std::string& to, Totals& totals) {
  const std::size_t packet = kHeader + setup.payload + kTrailer;
  const auto planes = open_planes(setup, from, to, packet);
  Outbox outbox(setup);
  Inbox inbox;
  const std::uint64_t window =
      std::max<std::uint64_t>(kBatch, planes.front().room(packet)) * planes.size();
  std::uint64_t sent = 0, counted = 0;
  while (!totals.ready) usleep(1000);
  const auto start = SteadyClock::now();
  const auto measured = start + std::chrono::milliseconds(200);
  const auto end = measured + std::chrono::milliseconds(setup.milliseconds);
  auto last_news = start;
  std::uint64_t first = 0;
  auto first_time = start;
  for (std::size_t p = 0;; p = (p + 1) % planes.size()) {
    const auto now = SteadyClock::now();
    if (first == 0 && now >= measured) {
      first = totals.packets;
      first_time = now;
    }
    if (now >= end) break;
    const std::uint64_t before = counted;
    inbox.read(planes[p], [&](mrc::Bytes frame) {
      if (frame.size() != kInFront + kCountPacket) return;
      std::uint64_t count;
      std::memcpy(&count, frame.data() + kInFront, sizeof count);
      counted = std::max(counted, count);
    });
    if (counted != before) last_news = now;
    // Frames or counts were lost: stop waiting for them.
    if (now - last_news > std::chrono::milliseconds(5)) {
      counted = sent;
      last_news = now;
    }
    const std::uint64_t room = counted + window > sent ? counted + window - sent : 0;
    if (room < kBatch) continue;
    for (std::size_t i = 0; i < kBatch; ++i) outbox.add(planes[p].head(sent + i), sent + i);
    sent += outbox.flush(planes[p].socket());
  }
  const std::chrono::duration<double> time = SteadyClock::now() - first_time;
  const std::uint64_t packets = totals.packets - first;
  totals.stop = true;
  const double seconds = time.count();
  fmt::print(
      "{{\"gbps\": {:.3f}, \"mpps\": {:.4f}, \"payload\": {}, \"planes\": {}, \"crc\": {}, "
      "\"bad\": {}}}\n",
      static_cast<double>(packets) * setup.payload * 8 / seconds / 1e9,
      static_cast<double>(packets) / seconds / 1e6, setup.payload, planes.size(), setup.crc,
      totals.bad.load());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    fmt::print(stderr, "usage: baseline_packet FABRIC.json PREFIX FROM TO [--NAME N]...\n");
    return 2;
  }
  const baseline::Arguments arguments(argc - 4, argv + 4,
                                      {{"payload", 4096},
                                       {"milliseconds", 2000},
                                       {"buffer-mib", 8},
                                       {"area-mib", 1},
                                       {"crc", 1},
                                       {"ring", 1}});
  try {
    const Setup setup{mrc::fabric::read(argv[1]), arguments["payload"],  arguments["milliseconds"],
                      arguments["buffer-mib"],    arguments["area-mib"], arguments["crc"] != 0,
                      arguments["ring"] != 0};
    const std::string prefix = argv[2], from = argv[3], to = argv[4];
    for (const auto& host : {from, to})
      if (setup.fabric.find_host(host) == nullptr) baseline::fail("no host " + host);
    auto& totals = baseline::shared<Totals>();
    const auto run = [&](const std::string& host, auto&& work) {
      enter(setup, prefix, host);
      try {
        work();
      } catch (const std::exception& error) {
        baseline::fail(error.what());
      }
    };
    baseline::run_two([&] { run(to, [&] { receive_all(setup, from, to, totals); }); },
                      [&] { run(from, [&] { send_all(setup, from, to, totals); }); },
                      setup.milliseconds / 1000 + 20);
  } catch (const std::exception& error) {
    baseline::fail(error.what());
  }
}
