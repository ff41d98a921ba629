// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/verbs/verbs_queues.hpp"

#include <arpa/inet.h>
#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/net/interface.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

VerbsQueues::VerbsQueues(const VerbsPortOptions& options, VerbsDevice device, std::uint32_t qkey)
    : device_(std::move(device)),
      qkey_(qkey),
      placement_(options.placement),
      lanes_(options.paths) {
  const auto at_most = [](std::uint64_t wanted, int limit) {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(wanted, static_cast<std::uint64_t>(std::max(limit, 0))));
  };
  const ibv_device_attr& limits = device_.limits;
  send_depth_ =
      at_most(options.send_depth, std::min(limits.max_qp_wr, limits.max_cqe / options.paths));
  receive_depth_ =
      at_most(std::clamp<std::uint64_t>(options.receive_buffer / kUdMaxMessage, 64, 65'536),
              std::min(limits.max_srq_wr, limits.max_cqe));
  pieces_ = std::min<std::size_t>(kMaxPieces, at_most(kMaxPieces, limits.max_sge));
  if (send_depth_ < 16 || receive_depth_ < 64 || pieces_ < 3)
    throw Error(Errc::unsupported,
                "RDMA device " + device_.name + " is too small for " +
                    std::to_string(options.paths) + " paths: it has queues of " +
                    std::to_string(limits.max_qp_wr) + ", shared receive queues of " +
                    std::to_string(limits.max_srq_wr) + ", completion queues of " +
                    std::to_string(limits.max_cqe) + " and " + std::to_string(limits.max_sge) +
                    " SGEs; fewer `paths` may help");
  open_memory();
  open_queues();
}

VerbsQueues::~VerbsQueues() = default;

void VerbsQueues::open_memory() {
  const VerbsLibrary& v = VerbsLibrary::get();
  errno = 0;
  pd_.reset(v.alloc_pd(device_.context.get()));
  if (!pd_) throw_verbs(device_, "allocate a protection domain");
  const auto make = [this](std::size_t bytes, VerbsHandle<ibv_mr>& mr) {
    auto memory = std::make_unique<std::uint8_t[]>(bytes);  // zeros: the pads of the slots
    mr = register_verbs_memory(device_, pd_.get(), memory.get(), bytes, IBV_ACCESS_LOCAL_WRITE);
    return memory;
  };
  receive_memory_ = make(receive_depth_ * kReceiveBytes, receive_mr_);
  slots_ = make(lanes_.size() * send_depth_ * kSlotBytes, slots_mr_);
  bounces_ = make(kBounces * kUdMaxMessage, bounces_mr_);
  for (std::uint16_t i = 0; i < kBounces; ++i) free_bounces_.push_back(i);
}

void VerbsQueues::open_queues() {
  const VerbsLibrary& v = VerbsLibrary::get();
  ibv_context* context = device_.context.get();
  errno = 0;
  channel_.reset(v.create_comp_channel(context));
  if (!channel_) throw_verbs(device_, "create a completion channel");
  (void)::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  (void)::fcntl(context->async_fd, F_SETFL, ::fcntl(context->async_fd, F_GETFL) | O_NONBLOCK);
  const auto paths = static_cast<std::uint32_t>(lanes_.size());
  const auto cq_of = [&](std::uint32_t entries) {
    errno = 0;
    VerbsHandle<ibv_cq> cq(
        v.create_cq(context, static_cast<int>(entries), nullptr, channel_.get(), 0));
    if (!cq) throw_verbs(device_, "create a completion queue of " + std::to_string(entries));
    return cq;
  };
  sent_ = cq_of(paths * send_depth_);
  arrived_ = cq_of(receive_depth_);
  ibv_srq_init_attr srq{};
  srq.attr = {receive_depth_, 1, 0};
  errno = 0;
  buffers_.reset(v.create_srq(pd_.get(), &srq));
  if (!buffers_)
    throw_verbs(device_, "create a shared receive queue of " + std::to_string(receive_depth_));
  for (std::uint32_t i = 0; i < receive_depth_; ++i) idle_.push_back(i);
  refill();
  for (Lane& lane : lanes_) {
    lane.records.resize(send_depth_);
    lane.qp = make_qp();
    qpns_.push_back(lane.qp->qp_num);
    if (const int e = start(lane.qp.get(), 0); e != 0) {
      errno = e;
      throw_verbs(device_, "start a UD queue pair");
    }
  }
}

VerbsHandle<ibv_qp> VerbsQueues::make_qp() {
  ibv_qp_init_attr attributes{};
  attributes.send_cq = sent_.get();
  attributes.recv_cq = arrived_.get();
  attributes.srq = buffers_.get();
  attributes.qp_type = IBV_QPT_UD;
  attributes.cap.max_send_wr = send_depth_;
  attributes.cap.max_send_sge = static_cast<std::uint32_t>(pieces_);
  attributes.cap.max_inline_data = 64;
  errno = 0;
  VerbsHandle<ibv_qp> qp(VerbsLibrary::get().create_qp(pd_.get(), &attributes));
  if (!qp) {  // some devices send nothing inline
    attributes.cap.max_inline_data = 0;
    qp.reset(VerbsLibrary::get().create_qp(pd_.get(), &attributes));
  }
  if (!qp)
    throw_verbs(device_, "create UD queue pair " + std::to_string(qpns_.size() + 1) + " of " +
                             std::to_string(lanes_.size()) + ", one per path");
  inline_max_ = attributes.cap.max_inline_data;
  return qp;
}

/// RESET to RTS. Returns an errno value.
int VerbsQueues::start(ibv_qp* qp, std::uint32_t psn) const noexcept {
  const VerbsLibrary& v = VerbsLibrary::get();
  ibv_qp_attr a{};
  a.qp_state = IBV_QPS_INIT;
  a.port_num = device_.port;
  a.qkey = qkey_;
  if (const int e =
          v.modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
      e != 0)
    return e;
  a.qp_state = IBV_QPS_RTR;
  if (const int e = v.modify_qp(qp, &a, IBV_QP_STATE); e != 0) return e;
  a.qp_state = IBV_QPS_RTS;
  a.sq_psn = psn;
  return v.modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

void VerbsQueues::stop(std::vector<wire::CopyId>& released) noexcept {
  for (Lane& lane : lanes_) {
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_RESET;
    if (VerbsLibrary::get().modify_qp(lane.qp.get(), &a, IBV_QP_STATE) != 0) lane.qp.reset();
  }
  std::array<ibv_wc, 64> done;
  while (ibv_poll_cq(sent_.get(), static_cast<int>(done.size()), done.data()) > 0) {
  }
  // Receive buffers belong to the shared queue: it keeps those that no message has used.
  for (std::size_t n = 1; n > 0;) {
    n = arrivals_.poll(arrived_.get(), done);
    for (std::size_t i = 0; i < n; ++i) give_back(static_cast<std::uint32_t>(done[i].wr_id));
  }
  released.insert(released.end(), early_released_.begin(), early_released_.end());
  early_released_.clear();
  for (Lane& lane : lanes_) {
    release(lane, lane.posted, released);
    lane.posted = lane.done = 0;
  }
}

bool VerbsQueues::restart() noexcept {
  for (Lane& lane : lanes_)
    if (!lane.qp || start(lane.qp.get(), 0) != 0) return false;
  failed_ = false;
  refill();
  return !failed_;
}

namespace detail {

/// Whether a device may place payload in a region by itself.
[[nodiscard]] constexpr bool placeable(const MemorySpan& span) noexcept {
  return has(span.access, Access::remote_write | Access::relaxed_ordering);
}

}  // namespace detail

void VerbsQueues::add_region(const MemorySpan& span) {
  if (span.length == 0) return;
  const bool placed = placement_ && detail::placeable(span);
  constexpr int kPlaced =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  regions_[span.key] = {
      register_verbs_memory(device_, pd_.get(), span.address, span.length, placed ? kPlaced : 0),
      placed};
}

std::optional<std::uint32_t> VerbsQueues::remote_key(std::uint32_t key) const noexcept {
  const auto at = regions_.find(key);
  if (at == regions_.end() || !at->second.placed) return std::nullopt;
  return at->second.mr->rkey;
}

std::vector<std::uint32_t> VerbsQueues::regions() const {
  std::vector<std::uint32_t> keys;
  for (const auto& region : regions_) keys.push_back(region.first);
  return keys;
}

// --- Sending ------------------------------------------------------------------------------------

std::size_t VerbsQueues::locate(std::span<const wire::TxSge> payload,
                                std::span<ibv_sge> out) noexcept {
  if (payload.size() > out.size()) return 0;
  std::size_t n = 0;
  for (const wire::TxSge& sge : payload) {
    if (sge.region == 0) return 0;
    if (sge.region != last_region_ || last_lkey_ == 0) {
      const auto at = regions_.find(sge.region);
      if (at == regions_.end()) return 0;
      last_region_ = sge.region;
      last_lkey_ = at->second.mr->lkey;
    }
    out[n++] = {reinterpret_cast<std::uintptr_t>(sge.data), sge.length, last_lkey_};
  }
  return n;
}

bool VerbsQueues::copy_payload(std::span<const wire::TxSge> payload, std::uint32_t length,
                               std::uint8_t* slot, ibv_sge& out, Record& record) noexcept {
  std::uint8_t* at = slot + kHeadBytes;
  std::uint32_t lkey = slots_mr_->lkey;
  if (length > kSlotBytes - kHeadBytes) {
    if (free_bounces_.empty() || length > kUdMaxMessage) return false;
    record.bounce = free_bounces_.back();
    free_bounces_.pop_back();
    at = bounces_.get() + record.bounce * kUdMaxMessage;
    lkey = bounces_mr_->lkey;
  }
  out = {reinterpret_cast<std::uintptr_t>(at), length, lkey};
  for (const wire::TxSge& sge : payload) {
    std::memcpy(at, sge.data, sge.length);
    at += sge.length;
  }
  ++bounced_;
  return true;
}

bool VerbsQueues::build(const wire::TxBurst& burst, const wire::TxPacket& packet,
                        std::uint16_t path, std::uint32_t index,
                        const VerbsTarget& target) noexcept {
  Lane& lane = lanes_[path];
  const std::uint32_t number = lane.posted + index;
  std::uint8_t* slot = slot_of(path, number);
  Record& record = lane.records[number % send_depth_];
  record = {packet.copy, kNoBounce};
  const wire::Be32 check =
      wire::crc32(0, {packet.header.data(), packet.header_length}) + packet.check_seed;
  const std::size_t prefix = target.prefix.size();
  if (prefix > 0) std::memcpy(slot, target.prefix.data(), prefix);
  std::memcpy(slot + prefix, &check, kUdCheckSize);
  std::memcpy(slot + prefix + kUdCheckSize, packet.header.data(), packet.header_length);

  ibv_sge* sges = sges_[index].data();
  sges[0] = {reinterpret_cast<std::uintptr_t>(slot),
             static_cast<std::uint32_t>(prefix + kUdCheckSize + packet.header_length),
             slots_mr_->lkey};
  std::size_t count = 1;
  if (packet.payload_length > 0) {
    const auto payload = burst.sges(packet);
    count += locate(payload, {sges + 1, pieces_ - 2});
    if (count == 1 && !copy_payload(payload, packet.payload_length, slot, sges[count++], record))
      return false;
  }
  if (packet.pad > 0)
    sges[count++] = {reinterpret_cast<std::uintptr_t>(slot + kPadAt), packet.pad, slots_mr_->lkey};
  set_request(index, number, path, static_cast<int>(count), packet.header_length, target);
  return true;
}

void VerbsQueues::set_request(std::uint32_t index, std::uint32_t number, std::uint16_t path,
                              int sges, std::uint8_t header_length,
                              const VerbsTarget& target) noexcept {
  ibv_send_wr& wr = requests_[index];
  wr = {};
  wr.wr_id = std::uint64_t{path} << 32 | (number + 1);
  wr.sg_list = sges_[index].data();
  wr.num_sge = sges;
  wr.opcode = IBV_WR_SEND_WITH_IMM;
  const UdImmediate immediate{target.kind, header_length, path};
  wr.imm_data = htonl(immediate.bits());
  if (sges == 1 && wr.sg_list->length <= inline_max_) wr.send_flags = IBV_SEND_INLINE;
  wr.wr.ud = {target.address, target.qpn, target.qkey};
}

bool VerbsQueues::send_bytes(Bytes message, std::uint16_t path,
                             const VerbsTarget& target) noexcept {
  Lane& lane = lanes_[path];
  std::uint8_t* slot = slot_of(path, lane.posted);
  lane.records[lane.posted % send_depth_] = {};
  std::memcpy(slot, message.data(), message.size());
  sges_[0][0] = {reinterpret_cast<std::uintptr_t>(slot), static_cast<std::uint32_t>(message.size()),
                 slots_mr_->lkey};
  set_request(0, lane.posted, path, 1, 0, target);
  return post(path, 1) == 1;
}

std::uint32_t VerbsQueues::post(std::uint16_t path, std::uint32_t count) noexcept {
  if (count == 0) return 0;
  Lane& lane = lanes_[path];
  for (std::uint32_t i = 0; i < count; ++i)
    requests_[i].next = i + 1 < count ? &requests_[i + 1] : nullptr;
  requests_[count - 1].send_flags |= IBV_SEND_SIGNALED;  // tells of those before it, too
  ibv_send_wr* bad = nullptr;
  ++doorbells_;
  std::uint32_t posted = count;
  if (ibv_post_send(lane.qp.get(), requests_.data(), &bad) != 0) {
    failed_ = true;
    posted = bad == nullptr ? 0 : static_cast<std::uint32_t>(bad - requests_.data());
    for (std::uint32_t i = posted; i < count; ++i) {
      Record& record = lane.records[(lane.posted + i) % send_depth_];
      if (record.bounce != kNoBounce) free_bounces_.push_back(record.bounce);
      record = {};
    }
  }
  lane.posted += posted;
  return posted;
}

void VerbsQueues::release(Lane& lane, std::uint32_t up_to,
                          std::vector<wire::CopyId>& released) noexcept {
  for (; lane.done != up_to; ++lane.done) {
    Record& record = lane.records[lane.done % send_depth_];
    if (record.copy != wire::CopyId::none) released.push_back(record.copy);
    if (record.bounce != kNoBounce) free_bounces_.push_back(record.bounce);
    record = {};
  }
}

void VerbsQueues::take_sent(std::vector<wire::CopyId>& released) noexcept {
  released.insert(released.end(), early_released_.begin(), early_released_.end());
  early_released_.clear();
  poll_sent(released);
}

void VerbsQueues::poll_sent(std::vector<wire::CopyId>& released) noexcept {
  std::array<ibv_wc, 32> done;
  for (int n = 1; n > 0;) {
    n = ibv_poll_cq(sent_.get(), static_cast<int>(done.size()), done.data());
    for (const ibv_wc& wc : std::span(done).first(static_cast<std::size_t>(std::max(n, 0)))) {
      // A failed queue pair gives its requests back in stop(), when it no longer reads.
      if (wc.status != IBV_WC_SUCCESS) {
        failed_ = true;
        continue;
      }
      Lane& lane = lanes_[wc.wr_id >> 32];
      const auto number = static_cast<std::uint32_t>(wc.wr_id);
      if (number - lane.done <= lane.posted - lane.done) release(lane, number, released);
    }
    if (n < static_cast<int>(done.size())) break;
  }
}

// --- Receiving ----------------------------------------------------------------------------------

std::size_t VerbsQueues::take_arrived(std::span<VerbsArrival> out) noexcept {
  std::array<ibv_wc, VerbsArrivals::kBatch> polled;
  const std::span<ibv_wc> room(polled.data(), std::min(polled.size(), out.size()));
  const auto done = room.first(arrivals_.poll(arrived_.get(), room));
  std::size_t count = 0;
  for (const ibv_wc& wc : done) {
    const auto buffer = static_cast<std::uint32_t>(wc.wr_id);
    if (wc.status != IBV_WC_SUCCESS) failed_ = true;
    if (wc.status != IBV_WC_SUCCESS || (wc.wc_flags & IBV_WC_WITH_IMM) == 0) {
      give_back(buffer);
      continue;
    }
    std::uint8_t* memory = receive_memory_.get() + buffer * kReceiveBytes;
    out[count++] = {buffer, ntohl(wc.imm_data), wc.src_qp, {memory, wc.byte_len}};
  }
  return count;
}

void VerbsQueues::refill() noexcept {
  std::array<ibv_recv_wr, kChain> requests;
  std::array<ibv_sge, kChain> sges;
  while (!idle_.empty()) {
    const std::size_t count = std::min<std::size_t>(idle_.size(), kChain);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t buffer = idle_[idle_.size() - 1 - i];
      sges[i] = {reinterpret_cast<std::uintptr_t>(receive_memory_.get() + buffer * kReceiveBytes),
                 static_cast<std::uint32_t>(wire::kGrhSize + kUdMaxMessage), receive_mr_->lkey};
      requests[i] = {buffer, i + 1 < count ? &requests[i + 1] : nullptr, &sges[i], 1};
    }
    ibv_recv_wr* bad = nullptr;
    const bool good = ibv_post_srq_recv(buffers_.get(), requests.data(), &bad) == 0;
    const std::size_t posted = good             ? count
                               : bad == nullptr ? 0
                                                : static_cast<std::size_t>(bad - requests.data());
    // Posted in the order of `requests`: from the end of `idle_`.
    idle_.resize(idle_.size() - posted);
    if (!good) {
      failed_ = true;
      return;
    }
  }
}

bool VerbsQueues::arm() noexcept {
  drain_events(channel_.get());
  if (ibv_req_notify_cq(sent_.get(), 0) != 0) failed_ = true;
  poll_sent(early_released_);
  return arrivals_.arm(arrived_.get(), failed_) && early_released_.empty() && !failed_;
}

namespace detail {

/// Flow label of a path: never 0, which some devices take for "none", and different in the bits
/// that they make a source port of (the low 14, mixed with the upper 6).
[[nodiscard]] constexpr std::uint32_t label_of(std::uint16_t path) noexcept {
  return (path + 1u) & 0x3FFFu;
}

/// Makes the kernel look for the link address of `ip`, and waits a moment. A device that has to
/// look for it itself takes a second.
inline void find_neighbour(const IpAddress& own, const IpAddress& ip) {
  const Socket socket = make_udp_socket({own, {}});
  const Interface interface = find_interface(socket, {own, {}});
  (void)::setsockopt(socket.fd(), SOL_SOCKET, SO_BINDTODEVICE, interface.name.c_str(),
                     static_cast<socklen_t>(interface.name.size()));
  constexpr std::uint16_t kDiscard = 9;
  const SocketAddress to(ip, kDiscard, interface.index);
  (void)::sendto(socket.fd(), nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, &to.any, to.length);
  std::this_thread::sleep_for(std::chrono::milliseconds(8));
}

}  // namespace detail

ibv_ah_attr verbs_address_of(const VerbsDevice& device, const IpAddress& ip, std::uint16_t path,
                             std::uint8_t traffic_class) noexcept {
  ibv_ah_attr a{};
  a.is_global = 1;
  a.port_num = device.port;
  a.grh.sgid_index = static_cast<std::uint8_t>(device.gid_index);
  a.grh.hop_limit = 64;
  a.grh.flow_label = detail::label_of(path);
  a.grh.traffic_class = traffic_class;
  std::memcpy(a.grh.dgid.raw, ip.data(), ip.size());
  return a;
}

VerbsAddresses::VerbsAddresses(std::uint16_t paths, const wire::DscpMap& dscp,
                               std::function<void()> on_ready)
    : paths_(paths), dscp_(dscp), on_ready_(std::move(on_ready)), thread_([this] { run(); }) {}

VerbsAddresses::~VerbsAddresses() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void VerbsAddresses::use(const VerbsQueues* queues) {
  std::unique_lock lock(mutex_);
  queues_ = nullptr;
  changed_.wait(lock, [this] { return !busy_; });
  for (auto& [ip, entry] : entries_) {
    entry.address.reset();
    entry.retry = Time::min();
  }
  queues_ = queues;
  changed_.notify_all();
}

void VerbsAddresses::want(const IpAddress& ip) {
  const std::lock_guard lock(mutex_);
  ++entries_[ip].wanted;
  changed_.notify_all();
}

void VerbsAddresses::forget(const IpAddress& ip) noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(ip);
  if (at != entries_.end() && --at->second.wanted == 0) entries_.erase(at);
}

std::shared_ptr<const VerbsAddress> VerbsAddresses::find(const IpAddress& ip) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto at = entries_.find(ip);
  return at == entries_.end() ? nullptr : at->second.address;
}

std::string VerbsAddresses::wait(const IpAddress& ip, Duration patience) {
  want(ip);
  std::string failure;
  {
    std::unique_lock lock(mutex_);
    const auto known = [&] {
      const Entry& entry = entries_[ip];
      return entry.address != nullptr || !entry.failure.empty();
    };
    if (!changed_.wait_for(lock, patience, known))
      failure = "its link address is not known yet";
    else if (!entries_[ip].address)
      failure = entries_[ip].failure;
  }
  forget(ip);
  return failure;
}

void VerbsAddresses::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const Time now = monotonic_now();
    const auto due = [&](const auto& item) {
      return item.second.address == nullptr && item.second.retry <= now;
    };
    const auto next = std::find_if(entries_.begin(), entries_.end(), due);
    if (queues_ == nullptr || next == entries_.end()) {
      changed_.wait_for(lock, kRetry / 4);
      continue;
    }
    const IpAddress ip = next->first;
    const VerbsQueues& queues = *queues_;
    busy_ = true;
    lock.unlock();
    std::string failure;
    std::shared_ptr<const VerbsAddress> address;
    try {
      detail::find_neighbour(queues.device().address, ip);
      address = make(queues, ip, failure);
    } catch (const std::exception& error) {
      failure = error.what();
    }
    lock.lock();
    busy_ = false;
    const auto entry = entries_.find(ip);
    const bool good = address != nullptr;
    if (entry != entries_.end() && queues_ == &queues) {
      entry->second.address = std::move(address);
      entry->second.failure = failure;
      entry->second.retry = monotonic_now() + kRetry;
    }
    address.reset();  // while use() still waits
    changed_.notify_all();
    if (!good) continue;
    lock.unlock();
    on_ready_();
    lock.lock();
  }
}

std::shared_ptr<const VerbsAddress> VerbsAddresses::make(const VerbsQueues& queues,
                                                         const IpAddress& ip,
                                                         std::string& failure) const {
  const VerbsDevice& device = queues.device();
  auto address = std::make_shared<VerbsAddress>();
  for (std::uint16_t path = 0; path < paths_; ++path) {
    for (const bool control : {false, true}) {
      const std::uint8_t dscp = control ? dscp_.control : dscp_.no_trim;
      ibv_ah_attr attributes = verbs_address_of(
          device, ip, path, wire::make_tos(dscp, control ? Ecn::not_ect : Ecn::ect0));
      errno = 0;
      address->handles.emplace_back(VerbsLibrary::get().create_ah(queues.pd(), &attributes));
      if (address->handles.back()) continue;
      const int error = errno != 0 ? errno : EINVAL;
      failure = "RDMA device " + device.name + " cannot address " + format_ip(ip) + ": " +
                std::generic_category().message(error) +
                (error == ETIMEDOUT ? " (nobody has this address on its network)" : "");
      return nullptr;
    }
  }
  return address;
}

}  // namespace mrc::inline v0_1::port
