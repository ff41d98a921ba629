// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/verbs/uc.hpp"

#include <arpa/inet.h>

#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "mrc/core/error.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// The path MTU of a UC queue pair.
[[nodiscard]] inline ibv_mtu mtu_of(std::uint32_t bytes) noexcept {
  unsigned code = IBV_MTU_256;
  while (code < IBV_MTU_4096 && (256u << (code - IBV_MTU_256 + 1)) <= bytes) ++code;
  return static_cast<ibv_mtu>(code);
}

/// RESET to RTR, and to RTS if it sends. Throws mrc::Error.
inline void connect_uc(const VerbsQueues& queues, ibv_qp* qp, const ibv_ah_attr& address,
                       std::uint32_t qpn, bool sends) {
  const VerbsLibrary& v = VerbsLibrary::get();
  const VerbsDevice& device = queues.device();
  const auto step = [&](ibv_qp_attr& a, int mask, const char* what) {
    if (const int e = v.modify_qp(qp, &a, mask); e != 0)
      throw_errno("RDMA device " + device.name + ": cannot bring a UC queue pair to " + what, e);
  };
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = device.port;
  a.qp_access_flags = sends ? 0 : IBV_ACCESS_REMOTE_WRITE;
  step(a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
  a.qp_state = IBV_QPS_RTR;
  a.ah_attr = address;
  a.path_mtu = mtu_of(device.path_mtu);
  a.dest_qp_num = qpn;
  step(a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN, "RTR");
  if (!sends) return;
  a.qp_state = IBV_QPS_RTS;
  step(a, IBV_QP_STATE | IBV_QP_SQ_PSN, "RTS");
}

}  // namespace detail

// --- Receiving ----------------------------------------------------------------------------------

VerbsUcReceive::VerbsUcReceive(const VerbsQueues& queues) : queues_(queues) {
  const VerbsLibrary& v = VerbsLibrary::get();
  const VerbsDevice& device = queues.device();
  const int depth = std::min({4096, device.limits.max_srq_wr, device.limits.max_cqe});
  arrived_.reset(v.create_cq(device.context.get(), depth, nullptr, queues.channel(), 0));
  if (!arrived_) throw_errno("RDMA device " + device.name + ": cannot create a completion queue");
  ibv_srq_init_attr srq{};
  srq.attr = {static_cast<std::uint32_t>(depth), 1, 0};
  requests_.reset(v.create_srq(queues.pd(), &srq));
  if (!requests_)
    throw_errno("RDMA device " + device.name + ": cannot create a shared receive queue");
  refill(static_cast<std::size_t>(depth));
}

VerbsHandle<ibv_qp> VerbsUcReceive::make_receiver(ibv_ah_attr address) const {
  ibv_qp_init_attr a{};
  a.qp_type = IBV_QPT_UC;
  a.send_cq = a.recv_cq = arrived_.get();
  a.srq = requests_.get();
  a.cap.max_send_wr = a.cap.max_send_sge = 1;  // it sends nothing
  errno = 0;
  VerbsHandle<ibv_qp> qp(VerbsLibrary::get().create_qp(queues_.pd(), &a));
  if (!qp)
    throw_errno("RDMA device " + queues_.device().name + ": cannot create a UC queue pair",
                errno != 0 ? errno : ENOMEM);
  // The sender's number is not known yet; packets of a UC do not carry it.
  detail::connect_uc(queues_, qp.get(), address, qp->qp_num, false);
  return qp;
}

std::size_t VerbsUcReceive::take_arrived(std::span<VerbsUcArrival> out) noexcept {
  std::array<ibv_wc, VerbsArrivals::kBatch> polled;
  const std::size_t count =
      arrivals_.poll(arrived_.get(), std::span(polled).first(std::min(out.size(), polled.size())));
  std::size_t good = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_wc& wc = polled[i];
    if (wc.status == IBV_WC_SUCCESS && (wc.wc_flags & IBV_WC_WITH_IMM) != 0)
      out[good++] = {wc.qp_num, ntohl(wc.imm_data), wc.byte_len};
  }
  if (count > 0) refill(count);
  return good;
}

void VerbsUcReceive::refill(std::size_t count) noexcept {
  std::array<ibv_recv_wr, 32> requests{};
  while (count > 0 && !failed_) {
    const std::size_t n = std::min(count, requests.size());
    for (std::size_t i = 0; i < n; ++i) requests[i].next = i + 1 < n ? &requests[i + 1] : nullptr;
    ibv_recv_wr* bad = nullptr;
    failed_ = ibv_post_srq_recv(requests_.get(), requests.data(), &bad) != 0;
    count -= n;
  }
}

bool VerbsUcReceive::arm() noexcept {
  return arrivals_.arm(arrived_.get(), failed_);
}

// --- Sending ------------------------------------------------------------------------------------

VerbsUcSend::VerbsUcSend(const VerbsQueues& queues, std::uint16_t paths)
    : queues_(queues), lanes_(paths) {
  const VerbsDevice& device = queues.device();
  errno = 0;
  // Twice, since completions of queue pairs that were exchanged may still be there.
  sent_.reset(VerbsLibrary::get().create_cq(
      device.context.get(),
      std::min<int>(static_cast<int>(2 * paths * kDepth), device.limits.max_cqe), nullptr,
      queues.channel(), 0));
  if (!sent_)
    throw_errno("RDMA device " + device.name + ": cannot create a completion queue",
                errno != 0 ? errno : ENOMEM);
}

VerbsHandle<ibv_qp> VerbsUcSend::make_sender(ibv_ah_attr address, std::uint32_t qpn) const {
  ibv_qp_init_attr a{};
  a.qp_type = IBV_QPT_UC;
  a.send_cq = a.recv_cq = sent_.get();
  a.cap.max_send_wr = kDepth;
  a.cap.max_send_sge = static_cast<std::uint32_t>(
      std::min<int>(static_cast<int>(kMaxPieces), queues_.device().limits.max_sge));
  a.cap.max_recv_wr = a.cap.max_recv_sge = 1;  // it receives nothing
  errno = 0;
  VerbsHandle<ibv_qp> qp(VerbsLibrary::get().create_qp(queues_.pd(), &a));
  if (!qp)
    throw_errno("RDMA device " + queues_.device().name + ": cannot create a UC queue pair",
                errno != 0 ? errno : ENOMEM);
  detail::connect_uc(queues_, qp.get(), address, qpn, true);
  return qp;
}

VerbsHandle<ibv_qp> VerbsUcSend::exchange(std::uint16_t path, VerbsHandle<ibv_qp> qp,
                                          std::vector<wire::CopyId>& copies) noexcept {
  Lane& lane = lanes_[path];
  take_sent(copies);  // so that those of this queue pair are the last of a former one in the queue
  outstanding_ -= lane.posted - lane.done;
  lane.posted += std::exchange(lane.waiting, 0);
  release(lane, lane.posted, copies);
  lane.posted = lane.done = 0;
  ++lane.life;
  std::swap(lane.qp, qp);
  return qp;
}

void VerbsUcSend::give_up(std::vector<wire::CopyId>& copies) noexcept {
  for (Lane& lane : lanes_) {
    lane.posted += std::exchange(lane.waiting, 0);
    release(lane, lane.posted, copies);
  }
  outstanding_ = 0;
}

void VerbsUcSend::add(std::uint16_t path, std::span<const ibv_sge> payload, std::uint64_t remote,
                      std::uint32_t rkey, std::uint32_t seq, wire::CopyId copy) noexcept {
  Lane& lane = lanes_[path];
  const std::uint32_t index = (lane.posted + lane.waiting++) % kDepth;
  lane.copies[index] = copy;
  std::copy(payload.begin(), payload.end(), lane.sges[index].begin());
  ibv_send_wr& wr = lane.requests[index];
  wr = {};
  // Number after it, its path, and which queue pair of the path.
  wr.wr_id =
      std::uint64_t{lane.life} << 48 | std::uint64_t{path} << 32 | (lane.posted + lane.waiting);
  wr.sg_list = lane.sges[index].data();
  wr.num_sge = static_cast<int>(payload.size());
  wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  wr.imm_data = htonl(seq);
  wr.wr.rdma = {remote, rkey};
}

bool VerbsUcSend::post(std::uint16_t path) noexcept {
  Lane& lane = lanes_[path];
  const std::uint32_t count = std::exchange(lane.waiting, 0);
  if (count == 0) return true;
  for (std::uint32_t i = 0; i < count; ++i) {
    ibv_send_wr& wr = lane.requests[(lane.posted + i) % kDepth];
    wr.next = i + 1 < count ? &lane.requests[(lane.posted + i + 1) % kDepth] : nullptr;
    if (i + 1 == count) wr.send_flags = IBV_SEND_SIGNALED;  // tells of those before it, too
  }
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(lane.qp.get(), &lane.requests[lane.posted % kDepth], &bad) != 0) failed_ = true;
  // What a failed queue pair did not take is released when it is exchanged.
  lane.posted += count;
  outstanding_ += count;
  return !failed_;
}

void VerbsUcSend::release(Lane& lane, std::uint32_t up_to,
                          std::vector<wire::CopyId>& released) noexcept {
  for (; lane.done != up_to; ++lane.done) {
    wire::CopyId& copy = lane.copies[lane.done % kDepth];
    if (copy != wire::CopyId::none) released.push_back(std::exchange(copy, wire::CopyId::none));
  }
}

void VerbsUcSend::take_sent(std::vector<wire::CopyId>& released) noexcept {
  std::array<ibv_wc, 32> done;
  for (int n = static_cast<int>(done.size()); n == static_cast<int>(done.size());) {
    n = ibv_poll_cq(sent_.get(), static_cast<int>(done.size()), done.data());
    for (const ibv_wc& wc : std::span(done).first(static_cast<std::size_t>(std::max(n, 0)))) {
      const std::uint64_t id = wc.wr_id;
      Lane& lane = lanes_[id >> 32 & 0xFFFF];
      if ((lane.life & 0xFFFF) != id >> 48) continue;
      if (wc.status != IBV_WC_SUCCESS) {
        failed_ = true;
        continue;
      }
      const auto number = static_cast<std::uint32_t>(id);
      if (number - lane.done > lane.posted - lane.done) continue;
      outstanding_ -= number - lane.done;
      release(lane, number, released);
    }
  }
}

namespace detail {

/// Whether writers may write it and readers return it.
[[nodiscard]] inline bool valid_uc_header(const UcHeader& h, std::size_t header_length) noexcept {
  return h.name.path < kMaxUcPaths && h.payload_length >= 1 && h.payload_length <= kMaxUcPayload &&
         h.pad <= 3 && header_length >= kMinUcHeader && header_length <= wire::kMaxTransportHeader;
}

}  // namespace detail

bool UcHeadersWriter::append(const UcHeader& h) noexcept {
  const std::size_t length = h.header.size();
  if (!detail::valid_uc_header(h, length) ||
      buffer_.size() - size_ < sizeof(detail::UcHeaderEntry) + length)
    return false;
  detail::UcHeaderEntry entry;
  entry.path = h.name.path;
  entry.epoch = h.name.epoch;
  entry.header_length = static_cast<std::uint8_t>(length);
  entry.seq = h.name.seq;
  entry.payload_length = h.payload_length;
  entry.pad = h.pad;
  entry.check = h.check;
  std::memcpy(buffer_.data() + size_, &entry, sizeof entry);
  std::memcpy(buffer_.data() + size_ + sizeof entry, h.header.data(), length);
  size_ += sizeof entry + length;
  return true;
}

bool UcHeadersReader::next(UcHeader& h) noexcept {
  if (rest_.empty() || malformed_) return false;
  malformed_ = true;
  detail::UcHeaderEntry entry;
  if (rest_.size() < sizeof entry) return false;
  std::memcpy(&entry, rest_.data(), sizeof entry);
  const std::size_t length = entry.header_length;
  UcHeader read;
  read.name = {entry.path, entry.epoch, entry.seq};
  read.payload_length = entry.payload_length;
  read.pad = entry.pad;
  read.check = entry.check;
  if (!detail::valid_uc_header(read, length) || rest_.size() - sizeof entry < length) return false;
  read.header = rest_.subspan(sizeof entry, length);
  h = read;
  rest_ = rest_.subspan(sizeof entry + length);
  malformed_ = false;
  return true;
}

namespace detail {

/// At most one of each path, in their order.
[[nodiscard]] inline bool valid_uc_origins(std::span<const UcName> origins) noexcept {
  int last = -1;
  for (const UcName& name : origins) {
    if (name.path <= last || name.path >= kMaxUcPaths || name.seq == kNoUcSeq) return false;
    last = name.path;
  }
  return !origins.empty();
}

}  // namespace detail

std::size_t write_uc_origins(MutableBytes buffer, std::span<const UcName> origins) noexcept {
  if (!detail::valid_uc_origins(origins)) return 0;
  const std::size_t paths = origins.back().path + std::size_t{1};
  const std::size_t by_name = 1 + origins.size() * sizeof(detail::UcOriginEntry);
  const std::size_t by_path = 1 + paths * sizeof(detail::UcPathOrigin);
  if (buffer.size() < std::min(by_name, by_path)) return 0;
  std::uint8_t* out = buffer.data();
  if (by_name <= by_path) {
    *out++ = static_cast<std::uint8_t>(origins.size());
    for (const UcName& name : origins) {
      detail::UcOriginEntry entry;
      entry.path = name.path;
      entry.epoch = name.epoch;
      entry.seq = name.seq;
      std::memcpy(out, &entry, sizeof entry);
      out += sizeof entry;
    }
    return by_name;
  }
  *out++ = static_cast<std::uint8_t>(detail::kUcAllPaths | paths);
  for (std::size_t path = 0; path < paths; ++path) {
    detail::UcPathOrigin entry;
    entry.seq = kNoUcSeq;
    if (origins.front().path == path) {
      entry.epoch = origins.front().epoch;
      entry.seq = origins.front().seq;
      origins = origins.subspan(1);
    }
    std::memcpy(out, &entry, sizeof entry);
    out += sizeof entry;
  }
  return by_path;
}

std::size_t read_uc_origins(Bytes message, UcOrigins& origins) noexcept {
  origins.count = 0;
  if (message.empty()) return 0;
  const bool by_path = (message[0] & detail::kUcAllPaths) != 0;
  const std::size_t count = message[0] & (detail::kUcAllPaths - 1u);
  const std::size_t each = by_path ? sizeof(detail::UcPathOrigin) : sizeof(detail::UcOriginEntry);
  const std::size_t size = 1 + count * each;
  if (count > kMaxUcPaths || message.size() < size) return 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* in = message.data() + 1 + i * each;
    if (by_path) {
      detail::UcPathOrigin entry;
      std::memcpy(&entry, in, sizeof entry);
      if (entry.seq != kNoUcSeq)
        origins.add({static_cast<std::uint16_t>(i), entry.epoch, entry.seq});
    } else {
      detail::UcOriginEntry entry;
      std::memcpy(&entry, in, sizeof entry);
      origins.add({entry.path, entry.epoch, entry.seq});
    }
  }
  if (detail::valid_uc_origins(origins.all())) return size;
  origins.count = 0;
  return 0;
}

namespace detail {

/// The options, or an Error.
[[nodiscard]] inline const UcReceiverOptions& checked(const UcReceiverOptions& o) {
  if (o.paths < 1 || o.paths > kMaxUcPaths || o.ring < 2 || o.ring > 65536 || o.waits < 1 ||
      o.waits > 1u << 20 || o.reset_after <= Duration{})
    throw Error(Errc::invalid_argument, "UC receiver: options are out of range");
  return o;
}

}  // namespace detail

UcReceiver::UcReceiver(const UcReceiverOptions& o)
    : reset_after_(detail::checked(o).reset_after),
      ring_mask_(std::bit_ceil(o.ring) - 1),
      paths_(o.paths),
      slots_(std::size_t{o.paths} * std::bit_ceil(o.ring)),
      waits_(o.paths, o.waits) {
  for (std::uint16_t path = 0; path < o.paths; ++path) empty_ring(path);
}

void UcReceiver::vacate(Slot& s) noexcept {
  if (s.has == Has::header) ++stats_.unmatched_headers;
  if (s.has == Has::payload) ++stats_.unmatched_arrivals;
  s.has = Has::nothing;
}

void UcReceiver::empty_ring(std::uint16_t path) noexcept {
  for (std::uint32_t i = 0; i <= ring_mask_; ++i) {
    Slot& s = slot(path, i);
    vacate(s);
    s.arrived = i + 1;  // belongs to another slot: none
  }
}

const UcJoined* UcReceiver::join(const UcHeader& h, std::uint32_t length) noexcept {
  if (h.payload_length != length) {
    ++stats_.length_mismatches;
    return nullptr;
  }
  ++stats_.joined;
  joined_ = {.header = h.header,
             .payload_length = h.payload_length,
             .path = h.name.path,
             .pad = h.pad,
             .check = h.check};
  return &joined_;
}

void UcReceiver::promise_broken(std::uint16_t path, std::uint32_t seq, std::uint32_t length,
                                Time now) noexcept {
  Path& p = paths_[path];
  if (slot(path, seq).arrived == seq)
    ++stats_.duplicates;
  else
    ++stats_.overtaken;
  if (length > 0) ++stats_.late_writes;
  slot(path, seq).arrived = seq;
  broken_ = true;
  if (p.broken) return;
  p.broken = true;
  p.deadline = now;
}

const UcJoined* UcReceiver::arrived(std::uint16_t path, std::uint8_t epoch, std::uint32_t seq,
                                    std::uint32_t length, Time now) noexcept {
  if (path >= paths_.size()) return nullptr;
  Path& p = paths_[path];
  if (epoch != p.epoch) {
    ++stats_.stale_epochs;
    return nullptr;
  }
  if (length == 0) ++stats_.markers;
  if (uc_steps(p.highest, seq) <= 0) {
    promise_broken(path, seq, length, now);
    return nullptr;
  }
  p.highest = seq;
  Slot& s = slot(path, seq);
  s.arrived = seq;
  if (p.broken) {
    if (length > 0) ++stats_.unmatched_arrivals;
    return nullptr;
  }
  if (p.deadline != kNever) {
    waits_.reach(path, seq);
    p.deadline = waits_.waits_for(path) ? now + reset_after_ : kNever;
  }
  if (length == 0) return nullptr;

  if (s.has == Has::header && s.seq == seq) {
    s.has = Has::both;
    UcHeader h;
    h.name = {path, epoch, seq};
    h.payload_length = s.length;
    h.pad = s.pad;
    h.check = s.check;
    h.header = {s.header.data(), s.header_length};
    return join(h, length);
  }
  if (s.has != Has::nothing && uc_steps(seq, s.seq) > 0) {  // a later packet's header is here
    ++stats_.unmatched_arrivals;
    return nullptr;
  }
  vacate(s);
  s.seq = seq;
  s.length = static_cast<std::uint16_t>(std::min(length, 0xFFFFu));
  s.has = Has::payload;
  return nullptr;
}

const UcJoined* UcReceiver::header(const UcHeader& h) noexcept {
  const UcName& name = h.name;
  if (name.path >= paths_.size() || h.header.size() > wire::kMaxTransportHeader) {
    ++stats_.malformed;
    return nullptr;
  }
  const Path& p = paths_[name.path];
  if (name.epoch != p.epoch) {
    ++stats_.stale_epochs;
    return nullptr;
  }
  Slot& s = slot(name.path, name.seq);
  const bool here = s.has != Has::nothing && s.seq == name.seq;
  if (here && s.has != Has::payload) return nullptr;  // the same message twice
  if (here && !p.broken) {
    s.has = Has::both;
    return join(h, s.length);
  }
  // The packet has been lost, or is so far ahead that it will be; or its place is taken by a later
  // one.
  const std::int32_t ahead = uc_steps(p.highest, name.seq);
  if (p.broken || ahead <= 0 || static_cast<std::uint32_t>(ahead) > ring_mask_ + 1 ||
      (s.has != Has::nothing && uc_steps(name.seq, s.seq) > 0)) {
    ++stats_.unmatched_headers;
    return nullptr;
  }
  vacate(s);
  s.seq = name.seq;
  s.length = h.payload_length;
  s.pad = h.pad;
  s.check = h.check;
  s.header_length = static_cast<std::uint8_t>(h.header.size());
  std::memcpy(s.header.data(), h.header.data(), h.header.size());
  s.has = Has::header;
  return nullptr;
}

UcVerdict UcReceiver::retransmitted(std::span<const UcName> origins, const wire::PacketName& packet,
                                    Time now) noexcept {
  UcOrigins open;
  bool good = !origins.empty() && origins.size() <= kMaxUcPaths;
  for (std::size_t i = 0; good && i < origins.size(); ++i) {
    const UcName& origin = origins[i];
    if (origin.path >= paths_.size()) {
      good = false;
      break;
    }
    const Path& p = paths_[origin.path];
    const std::int32_t steps = uc_epoch_steps(p.epoch, origin.epoch);
    good = steps <= 0;  // it is this end that makes epochs
    if (steps == 0 && (p.broken || uc_steps(p.highest, origin.seq) > 0)) open.add(origin);
  }
  if (!good) {
    ++stats_.malformed;
    return UcVerdict::drop;
  }
  if (open.count == 0)  // nor may what an earlier retransmission has named be forgotten
    return waits_.contains(packet) ? UcVerdict::unsettled : UcVerdict::settled;
  if (!waits_.add(packet, open.all())) {
    ++stats_.no_room;
    return UcVerdict::drop;
  }
  for (const UcName& origin : open.all()) {
    Path& p = paths_[origin.path];
    if (p.deadline == kNever) p.deadline = now + reset_after_;
  }
  return UcVerdict::unsettled;
}

bool UcReceiver::reset(std::uint16_t path, std::uint8_t epoch) noexcept {
  if (path >= paths_.size() || uc_epoch_steps(paths_[path].epoch, epoch) <= 0) return false;
  empty_ring(path);
  waits_.reach_all(path);
  paths_[path] = {};
  paths_[path].epoch = epoch;
  ++stats_.resets;
  return true;
}

std::uint64_t UcReceiver::wants_reset(Time now) noexcept {
  std::uint64_t wanted = 0;
  if (idle()) return wanted;
  for (std::size_t path = 0; path < paths_.size(); ++path) {
    if (paths_[path].deadline > now) continue;
    wanted |= std::uint64_t{1} << path;
    paths_[path].deadline = now + reset_after_;
  }
  return wanted;
}

Time UcReceiver::next_deadline() const noexcept {
  Time next = kNever;
  if (idle()) return next;
  for (const Path& p : paths_) next = std::min(next, p.deadline);
  return next;
}

UcSender::UcSender(const UcSenderOptions& o)
    : path_count_(o.paths), believe_(ticks(o.believe)), protect_(ticks(o.protect)), mask_(0) {
  constexpr Duration kMost = std::chrono::hours{24};
  if (o.paths < 1 || o.paths > kMaxUcPaths)
    throw Error(Errc::invalid_argument, "UC paths: " + std::to_string(o.paths) + ", not 1 to " +
                                            std::to_string(kMaxUcPaths));
  if (o.capacity < 1 || o.capacity > 1u << 24)
    throw Error(Errc::invalid_argument, "UC origins: " + std::to_string(o.capacity) +
                                            ", not 1 to " + std::to_string(1u << 24));
  if (o.protect < Duration{} || o.believe < o.protect || o.believe > kMost)
    throw Error(Errc::invalid_argument,
                "UC origins: times must be 0 <= protect <= believe <= 24 hours");
  entries_.resize(std::bit_ceil(o.capacity));
  mask_ = static_cast<std::uint32_t>(entries_.size()) - 1;
}

void UcSender::add_peer(PeerId id, Time now) {
  Peer& peer = peers_.claim(id);
  peer.paths.resize(path_count_);
  peer.since = tick(now);
}

void UcSender::forget(PeerId id) noexcept {
  peers_.remove(id);
}

bool UcSender::knows(PeerId id) const noexcept {
  const Peer* peer = peers_.find(id);
  return peer != nullptr && !peer->paths.empty();
}

UcName UcSender::assign(PeerId id, std::uint16_t path) noexcept {
  Path& p = peers_.find(id)->paths[path];
  p.used = true;
  if (p.next == kNoUcSeq) p.next = 0;
  return {path, p.epoch, p.next++};
}

void UcSender::take_back(PeerId id, const UcName& name) noexcept {
  Peer* peer = peers_.find(id);
  if (peer == nullptr || name.path >= peer->paths.size()) return;
  Path& p = peer->paths[name.path];
  if (p.epoch == name.epoch && p.next == name.seq + 1) p.next = name.seq;
}

bool UcSender::restart(PeerId id, std::uint16_t path, std::uint8_t epoch) noexcept {
  Peer* peer = peers_.find(id);
  if (peer == nullptr || path >= peer->paths.size()) return false;
  Path& p = peer->paths[path];
  if (uc_epoch_steps(p.epoch, epoch) <= 0) return false;
  p = {.next = 0, .used = false, .epoch = epoch};
  return true;
}

bool UcSender::taken(const Entry& e, Qpn owner, Psn psn, std::uint32_t now_tick) const noexcept {
  const std::uint32_t holder = e.owner_path >> 8;
  if (holder == kNoOwner || protect_ == 0 || now_tick - e.tick > protect_) return false;
  if (holder != value(owner)) return true;
  // The same number again is another packet, or one that was not sent. What is further away than a
  // window has been acknowledged.
  const std::int32_t steps = psn - Psn{e.psn_epoch >> 8};
  return steps != 0 && std::abs(steps) <= kMaxWindow;
}

bool UcSender::remember(Qpn owner, Psn psn, const UcName* name, Time now) noexcept {
  Entry& e = entry_of(owner, psn);
  const std::uint32_t now_tick = tick(now);
  if (taken(e, owner, psn, now_tick)) {
    ++stats_.refused;
    return false;
  }
  e.owner_path = value(owner) << 8 | (name != nullptr ? name->path : kByUd);
  e.psn_epoch = psn.value() << 8 | (name != nullptr ? name->epoch : 0u);
  e.seq = name != nullptr ? name->seq : 0;
  e.tick = now_tick;
  return true;
}

UcOriginKind UcSender::origin(Qpn owner, Psn psn, PeerId id, Time now, UcName& name) noexcept {
  const Entry& e = entry_of(owner, psn);
  const Peer* peer = peers_.find(id);
  const bool ours = peer != nullptr && e.owner_path >> 8 == value(owner) &&
                    e.psn_epoch >> 8 == psn.value() && tick(now) - e.tick < believe_ &&
                    static_cast<std::int32_t>(e.tick - peer->since) >= 0;
  const std::uint32_t path = e.owner_path & 0xFF;
  if (ours && path == kByUd) return UcOriginKind::none;
  if (ours && path < peer->paths.size()) {
    const Path& p = peer->paths[path];
    if (p.epoch != (e.psn_epoch & 0xFF)) return UcOriginKind::none;  // reset since
    if (uc_steps(e.seq, p.next) > 0) {  // else the path never had it: another peer's
      name = {static_cast<std::uint16_t>(path), p.epoch, e.seq};
      return UcOriginKind::name;
    }
  }
  ++stats_.forgotten;
  return UcOriginKind::unknown;
}

void UcSender::barrier(PeerId id, UcOrigins& origins) const noexcept {
  origins.count = 0;
  const Peer* peer = peers_.find(id);
  if (peer == nullptr) return;
  for (std::uint16_t path = 0; path < peer->paths.size(); ++path) {
    const Path& p = peer->paths[path];
    const std::uint32_t newest = p.next != 0 ? p.next - 1 : kNoUcSeq - 1;
    if (p.used) origins.add({path, p.epoch, newest});
  }
}

UcWaits::UcWaits(std::size_t paths, std::size_t waits)
    : waits_(waits), packets_(waits), buckets_(std::bit_ceil(waits), kNone), lists_(paths) {
  settled_.reserve(waits);
  given_.reserve(waits);
  for (std::size_t i = waits; i-- > 0;) {
    const auto index = static_cast<Index>(i);
    waits_[i].sibling = free_wait_;
    packets_[i].chain = free_packet_;
    free_wait_ = free_packet_ = index;
  }
}

UcWaits::Index& UcWaits::bucket(const wire::PacketName& name) noexcept {
  const std::uint32_t hash = (value(name.qpn) * 0x9E3779B1u + name.psn.value()) * 0x85EBCA6Bu;
  return buckets_[(hash ^ hash >> 16) & (buckets_.size() - 1)];
}

UcWaits::Index UcWaits::find(const wire::PacketName& name) noexcept {
  Index packet = bucket(name);
  while (packet != kNone && !(packets_[packet].name == name)) packet = packets_[packet].chain;
  return packet;
}

UcWaits::Index UcWaits::new_packet(const wire::PacketName& name) noexcept {
  const auto settled = std::find(settled_.begin(), settled_.end(), name);
  if (settled != settled_.end()) {  // not any more
    *settled = settled_.back();
    settled_.pop_back();
  } else if (packet_count_ + settled_.size() >= packets_.size()) {
    return kNone;  // so that settled_ never grows
  }
  const Index packet = free_packet_;
  Packet& p = packets_[packet];
  free_packet_ = p.chain;
  Index& head = bucket(name);
  p = {.name = name, .first = kNone, .chain = head};
  head = packet;
  ++packet_count_;
  return packet;
}

bool UcWaits::add(const wire::PacketName& name, std::span<const UcName> origins) noexcept {
  if (origins.empty() || waits_.size() - wait_count_ < origins.size()) return false;
  Index packet = find(name);
  if (packet == kNone) packet = new_packet(name);
  if (packet == kNone) return false;
  for (const UcName& origin : origins) {
    Index wait = packets_[packet].first;
    while (wait != kNone && waits_[wait].path != origin.path) wait = waits_[wait].sibling;
    if (wait != kNone) {
      if (uc_steps(waits_[wait].seq, origin.seq) <= 0) continue;
      unlink(wait);
    } else {
      wait = free_wait_;
      free_wait_ = waits_[wait].sibling;
      ++wait_count_;
      waits_[wait].packet = packet;
      waits_[wait].path = origin.path;
      waits_[wait].sibling = packets_[packet].first;
      packets_[packet].first = wait;
    }
    waits_[wait].seq = origin.seq;
    link(wait);
  }
  return true;
}

void UcWaits::link(Index wait) noexcept {
  Wait& w = waits_[wait];
  List& list = lists_[w.path];
  Index before = list.last;  // most come in their order
  while (before != kNone && uc_steps(w.seq, waits_[before].seq) > 0) before = waits_[before].before;
  w.before = before;
  w.after = before == kNone ? list.first : waits_[before].after;
  (before == kNone ? list.first : waits_[before].after) = wait;
  (w.after == kNone ? list.last : waits_[w.after].before) = wait;
}

void UcWaits::unlink(Index wait) noexcept {
  const Wait& w = waits_[wait];
  List& list = lists_[w.path];
  (w.before == kNone ? list.first : waits_[w.before].after) = w.after;
  (w.after == kNone ? list.last : waits_[w.after].before) = w.before;
}

void UcWaits::finish(Index wait) noexcept {
  unlink(wait);
  const Index packet = waits_[wait].packet;
  Packet& p = packets_[packet];
  Index* from = &p.first;
  while (*from != wait) from = &waits_[*from].sibling;
  *from = waits_[wait].sibling;
  waits_[wait].sibling = free_wait_;
  free_wait_ = wait;
  --wait_count_;
  if (p.first != kNone) return;

  settled_.push_back(p.name);
  Index* chain = &bucket(p.name);
  while (*chain != packet) chain = &packets_[*chain].chain;
  *chain = p.chain;
  p.chain = free_packet_;
  free_packet_ = packet;
  --packet_count_;
}

void UcWaits::reach(std::uint16_t path, std::uint32_t seq) noexcept {
  const List& list = lists_[path];
  while (list.first != kNone && uc_steps(waits_[list.first].seq, seq) >= 0) finish(list.first);
}

void UcWaits::reach_all(std::uint16_t path) noexcept {
  while (lists_[path].first != kNone) finish(lists_[path].first);
}

std::span<const wire::PacketName> UcWaits::take_settled() noexcept {
  given_.clear();
  given_.swap(settled_);
  return given_;
}

}  // namespace mrc::inline v0_1::port
