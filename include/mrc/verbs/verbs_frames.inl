// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/fabric/packet_link.hpp"
#include "mrc/verbs/verbs_device.hpp"
#include "mrc/verbs/verbs_queues.hpp"
#include "mrc/wire/headers.hpp"
#include "mrc/wire/ip.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Destroys a rule with its own function.
struct VerbsFlowDeleter {
  void operator()(ibv_flow* flow) const noexcept { (void)ibv_destroy_flow(flow); }
};
using VerbsFlow = std::unique_ptr<ibv_flow, VerbsFlowDeleter>;

/// A rule by which a NIC finds frames, in the layout that ibv_create_flow() wants: specifications
/// follow the attributes without gaps.
struct FrameRule {
  ibv_flow_attr attributes{};
  ibv_flow_spec_eth ethernet{};
  ibv_flow_spec_ipv6 ip{};
  ibv_flow_spec_tcp_udp udp{};

  /// IPv6 to that Ethernet address, with this next header.
  FrameRule(std::uint8_t port, const wire::MacAddress& to, std::uint8_t next_header) noexcept {
    attributes.type = IBV_FLOW_ATTR_NORMAL;
    attributes.size = offsetof(FrameRule, udp);
    attributes.num_of_specs = 2;
    attributes.port = port;
    ethernet.type = IBV_FLOW_SPEC_ETH;
    ethernet.size = sizeof ethernet;
    std::copy(to.begin(), to.end(), ethernet.val.dst_mac);
    std::fill(std::begin(ethernet.mask.dst_mac), std::end(ethernet.mask.dst_mac), 0xFF);
    ethernet.val.ether_type = htons(0x86DD);
    ethernet.mask.ether_type = 0xFFFF;
    ip.type = IBV_FLOW_SPEC_IPV6;
    ip.size = sizeof ip;
    ip.val.next_hdr = next_header;
    ip.mask.next_hdr = 0xFF;
  }
  /// And that UDP port.
  void require_udp(std::uint16_t to) noexcept {
    udp.type = IBV_FLOW_SPEC_UDP;
    udp.size = sizeof udp;
    udp.val.dst_port = htons(to);
    udp.mask.dst_port = 0xFFFF;
    attributes.size = sizeof(FrameRule);
    ++attributes.num_of_specs;
  }
};

static_assert(offsetof(FrameRule, ethernet) == sizeof(ibv_flow_attr) &&
              offsetof(FrameRule, ip) == sizeof(ibv_flow_attr) + sizeof(ibv_flow_spec_eth) &&
              offsetof(FrameRule, udp) == offsetof(FrameRule, ip) + sizeof(ibv_flow_spec_ipv6));

/// Everything that VerbsFrames has on an open device. Set-up calls throw mrc::Error.
struct VerbsFrameQueue {
  static constexpr std::uint32_t kChain = 32;  ///< frames that one doorbell rings for

  VerbsFrameQueue(const VerbsFramesOptions& options, const InterfaceState& interface,
                  VerbsDevice opened);

  /// Sends up to as many frames as there is room for. Returns how many.
  [[nodiscard]] std::size_t send(std::span<mmsghdr> frames, PortStats& stats) noexcept;
  void take_sent() noexcept;
  /// Posts receive buffers.
  void post(std::span<const std::uint32_t> buffers) noexcept;
  [[nodiscard]] MutableBytes buffer(std::uint64_t number) noexcept {
    return {received.get() + number * frame_bytes, frame_bytes};
  }
  VerbsDevice device;
  std::uint32_t frame_bytes, send_depth, receive_depth;
  VerbsHandle<ibv_pd> pd;
  std::unique_ptr<std::uint8_t[]> sending;
  std::shared_ptr<std::uint8_t[]> received;  ///< whoever has views of it keeps it
  VerbsHandle<ibv_mr> sending_mr, received_mr;
  VerbsHandle<ibv_comp_channel> channel;
  VerbsHandle<ibv_cq> sent_cq, arrived_cq;
  VerbsHandle<ibv_qp> qp;
  std::vector<VerbsFlow> rules;
  std::uint32_t posted = 0, done = 0;  ///< frames sent; wrap
  std::array<ibv_send_wr, kChain> requests{};
  std::array<ibv_sge, kChain> pieces{};
  bool failed = false;
};

VerbsFrameQueue::VerbsFrameQueue(const VerbsFramesOptions& o, const InterfaceState& interface,
                                 VerbsDevice opened)
    : device(std::move(opened)),
      frame_bytes((interface.mtu + static_cast<std::uint32_t>(wire::kEthernetHeader) + 63u) & ~63u),
      send_depth(std::clamp(o.send_depth, 2 * kChain,
                            static_cast<std::uint32_t>(std::max(device.limits.max_qp_wr, 64)))),
      receive_depth(std::clamp(o.receive_bytes / frame_bytes, 64u,
                               static_cast<std::uint32_t>(std::max(device.limits.max_qp_wr, 64)))) {
  const VerbsLibrary& v = VerbsLibrary::get();
  ibv_context* context = device.context.get();
  errno = 0;
  pd.reset(v.alloc_pd(context));
  if (!pd) throw_verbs(device, "allocate a protection domain");
  const auto bytes = [this](std::uint32_t frames) { return std::size_t{frames} * frame_bytes; };
  sending = std::make_unique<std::uint8_t[]>(bytes(send_depth));
  received = std::make_unique<std::uint8_t[]>(bytes(receive_depth));
  sending_mr = register_verbs_memory(device, pd.get(), sending.get(), bytes(send_depth), 0);
  received_mr = register_verbs_memory(device, pd.get(), received.get(), bytes(receive_depth),
                                      IBV_ACCESS_LOCAL_WRITE);
  channel.reset(v.create_comp_channel(context));
  if (!channel) throw_verbs(device, "create a completion channel");
  (void)::fcntl(channel->fd, F_SETFL, ::fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  sent_cq.reset(v.create_cq(context, static_cast<int>(send_depth), nullptr, nullptr, 0));
  arrived_cq.reset(
      v.create_cq(context, static_cast<int>(receive_depth), nullptr, channel.get(), 0));
  if (!sent_cq || !arrived_cq) throw_verbs(device, "create a completion queue");
  ibv_qp_init_attr a{};
  a.qp_type = IBV_QPT_RAW_PACKET;
  a.send_cq = sent_cq.get();
  a.recv_cq = arrived_cq.get();
  a.cap.max_send_wr = send_depth;
  a.cap.max_recv_wr = receive_depth;
  a.cap.max_send_sge = a.cap.max_recv_sge = 1;
  errno = 0;
  qp.reset(v.create_qp(pd.get(), &a));
  if (!qp && (errno == EOPNOTSUPP || errno == EINVAL || errno == ENOSYS))
    throw Error(Errc::unsupported, "RDMA device " + device.name +
                                       " has no raw-packet queue pairs (Soft-RoCE has none); unset "
                                       "option verbs to use packet sockets");
  if (!qp && (errno == EPERM || errno == EACCES))
    throw_verbs(device,
                "create a raw-packet queue pair: run as root, or `setcap cap_net_raw+ep PROGRAM`");
  if (!qp) throw_verbs(device, "create a raw-packet queue pair");
  ibv_qp_attr s{};
  s.qp_state = IBV_QPS_INIT;
  s.port_num = device.port;
  errno = v.modify_qp(qp.get(), &s, IBV_QP_STATE | IBV_QP_PORT);
  for (const auto state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (errno != 0) throw_verbs(device, "start a raw-packet queue pair");
    s.qp_state = state;
    errno = v.modify_qp(qp.get(), &s, IBV_QP_STATE);
  }
  if (errno != 0) throw_verbs(device, "start a raw-packet queue pair");
  std::vector<std::uint32_t> all(receive_depth);
  for (std::uint32_t i = 0; i < receive_depth; ++i) all[i] = i;
  post(all);
  const auto add_rule = [&](FrameRule rule) {
    errno = 0;
    rules.emplace_back(ibv_create_flow(qp.get(), &rule.attributes));
    if (!rules.back())
      throw_verbs(device, "direct MRC packets to a queue pair (a rule for its flow)");
  };
  if (o.encapsulated) {
    for (const std::uint8_t next : {wire::kNextIpv6, wire::kNextRouting})
      add_rule(FrameRule(device.port, interface.mac, next));
  } else {
    FrameRule rule(device.port, interface.mac, wire::kNextUdp);
    rule.require_udp(o.udp_port);
    add_rule(rule);
  }
  if (failed) throw_verbs(device, "post receive buffers");
}

void VerbsFrameQueue::take_sent() noexcept {
  std::array<ibv_wc, 16> completions;
  for (int n = static_cast<int>(completions.size()); n == static_cast<int>(completions.size());) {
    n = ibv_poll_cq(sent_cq.get(), n, completions.data());
    for (int i = 0; i < n; ++i) {
      failed = failed || completions[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS;
      done = static_cast<std::uint32_t>(completions[static_cast<std::size_t>(i)].wr_id);
    }
  }
}

std::size_t VerbsFrameQueue::send(std::span<mmsghdr> frames, PortStats& stats) noexcept {
  if (send_depth - (posted - done) < frames.size()) take_sent();
  frames = frames.first(std::min<std::size_t>(frames.size(), send_depth - (posted - done)));
  std::size_t taken = 0;
  while (taken < frames.size() && !failed) {
    const std::size_t count = std::min<std::size_t>(kChain, frames.size() - taken);
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = posted + static_cast<std::uint32_t>(i);
      std::uint8_t* const slot = sending.get() + std::size_t{number % send_depth} * frame_bytes;
      std::size_t length = 0;
      const msghdr& frame = frames[taken + i].msg_hdr;
      for (const iovec& part : std::span(frame.msg_iov, frame.msg_iovlen)) {
        if (part.iov_len > frame_bytes - length) break;  // never: the port knows the MTU
        std::memcpy(slot + length, part.iov_base, part.iov_len);
        length += part.iov_len;
      }
      pieces[i] = {reinterpret_cast<std::uintptr_t>(slot), static_cast<std::uint32_t>(length),
                   sending_mr->lkey};
      requests[i] = {};
      requests[i].wr_id = number + 1;
      requests[i].sg_list = &pieces[i];
      requests[i].num_sge = 1;
      requests[i].opcode = IBV_WR_SEND;
      requests[i].next = i + 1 < count ? &requests[i + 1] : nullptr;
    }
    requests[count - 1].send_flags = IBV_SEND_SIGNALED;  // tells of those before it, too
    ibv_send_wr* bad = nullptr;
    ++stats.tx_calls;
    failed = ibv_post_send(qp.get(), requests.data(), &bad) != 0;
    const std::size_t good = !failed          ? count
                             : bad == nullptr ? 0
                                              : static_cast<std::size_t>(bad - requests.data());
    posted += static_cast<std::uint32_t>(good);
    taken += good;
  }
  return taken;
}

void VerbsFrameQueue::post(std::span<const std::uint32_t> buffers) noexcept {
  std::array<ibv_recv_wr, kChain> receives{};
  std::array<ibv_sge, kChain> places;
  while (!buffers.empty() && !failed) {
    const std::size_t count = std::min<std::size_t>(kChain, buffers.size());
    for (std::size_t i = 0; i < count; ++i) {
      const MutableBytes memory = buffer(buffers[i]);
      places[i] = {reinterpret_cast<std::uintptr_t>(memory.data()), frame_bytes, received_mr->lkey};
      receives[i] = {buffers[i], i + 1 < count ? &receives[i + 1] : nullptr, &places[i], 1};
    }
    ibv_recv_wr* bad = nullptr;
    failed = ibv_post_recv(qp.get(), receives.data(), &bad) != 0;
    buffers = buffers.subspan(count);
  }
}

/// See open_verbs_frames().
class VerbsFrames final : public FrameChannel {
 public:
  static constexpr std::size_t kBatch = VerbsArrivals::kBatch;             ///< frames at a time
  static constexpr Duration kLookList = std::chrono::milliseconds(500);    ///< for devices removed
  static constexpr Duration kLookFailed = std::chrono::milliseconds(100);  ///< until one is back

  explicit VerbsFrames(const VerbsFramesOptions& options)
      : options_(options), events_(::epoll_create1(EPOLL_CLOEXEC)) {
    if (!events_.open()) throw_errno("cannot open an event descriptor");
    // Tells now what attach() could not: that the device can do it at all.
    InterfaceState none;
    none.mtu = 1500;
    VerbsFrameQueue(options_, none, open_verbs_port(options_.device));
  }

  [[nodiscard]] bool attach(const InterfaceState& interface) noexcept override {
    close();
    const Time now = monotonic_now();
    if (interface.index == 0 || now < next_open_) return false;
    next_open_ = now + kLookFailed;  // a device that always fails is not opened all the time
    try {
      queue_.emplace(options_, interface, open_verbs_port(options_.device));
      epoll_event event{};
      event.events = EPOLLIN;
      if (::epoll_ctl(events_.fd(), EPOLL_CTL_ADD, queue_->channel->fd, &event) == 0) return true;
    } catch (const std::exception&) {  // not there (yet), or out of something: tried again
    }
    close();
    return false;
  }

  [[nodiscard]] bool usable(Time now) noexcept override {
    if (!queue_ || queue_->failed) {
      next_look_ = now + kLookFailed;
      return false;
    }
    if (now < next_look_) return true;
    next_look_ = now + kLookList;
    return verbs_device_listed(queue_->device);
  }
  [[nodiscard]] Time next_look() const noexcept override { return next_look_; }

  [[nodiscard]] std::size_t send(std::span<mmsghdr> frames, PortStats& stats) noexcept override {
    const std::size_t taken = queue_ ? queue_->send(frames, stats) : 0;
    errno = queue_ && !queue_->failed ? EAGAIN : ENODEV;
    return taken;
  }

  [[nodiscard]] std::span<const MutableBytes> receive(std::size_t most) noexcept override {
    frames_count_ = 0;
    backlogged_ = false;
    if (!queue_) return {};
    viewed_ = queue_->received;
    queue_->post(std::span(handed_out_).first(std::exchange(handed_count_, 0)));
    const std::size_t wanted = std::min(most, kBatch);
    std::array<ibv_wc, kBatch> polled;
    const std::size_t count =
        arrivals_.poll(queue_->arrived_cq.get(), std::span(polled).first(wanted));
    for (const ibv_wc& wc : std::span(polled).first(count)) {
      handed_out_[handed_count_++] = static_cast<std::uint32_t>(wc.wr_id);
      if (wc.status == IBV_WC_SUCCESS)
        frames_[frames_count_++] = queue_->buffer(wc.wr_id).first(wc.byte_len);
      else if (wc.status == IBV_WC_LOC_LEN_ERR)
        frames_[frames_count_++] = {};
      else
        queue_->failed = true;
    }
    backlogged_ = count == wanted;
    return std::span(frames_).first(frames_count_);
  }

  [[nodiscard]] bool backlogged() const noexcept override { return backlogged_; }
  /// Not known: the engine is told of losses by the packets that are missing.
  [[nodiscard]] std::uint32_t fill() const noexcept override { return 0; }
  [[nodiscard]] std::uint64_t buffer() const noexcept override {
    return std::max<std::uint64_t>(options_.receive_bytes, 64u * 2048u);
  }
  [[nodiscard]] std::uint64_t overrun() const noexcept override { return 0; }
  [[nodiscard]] int poll_fd() const noexcept override { return events_.fd(); }

  [[nodiscard]] bool arm() noexcept override {
    if (!queue_) return true;
    drain_events(queue_->channel.get());
    return arrivals_.arm(queue_->arrived_cq.get(), queue_->failed);
  }

 private:
  void close() noexcept {
    queue_.reset();
    arrivals_ = {};
    handed_count_ = frames_count_ = 0;
  }

  VerbsFramesOptions options_;
  UniqueFd events_;  ///< epoll: the channel of the queue, which may be replaced
  std::optional<VerbsFrameQueue> queue_;
  std::shared_ptr<std::uint8_t[]> viewed_;  ///< what `frames_` point into, also of a former queue
  Time next_look_ = Time::min();
  Time next_open_ = Time::min();
  std::array<MutableBytes, kBatch> frames_{};
  std::array<std::uint32_t, kBatch> handed_out_{};  ///< buffers of `frames_`
  VerbsArrivals arrivals_;
  std::size_t frames_count_ = 0, handed_count_ = 0;
  bool backlogged_ = false;
};

}  // namespace detail

std::unique_ptr<FrameChannel> open_verbs_frames(const VerbsFramesOptions& options) {
  return std::make_unique<detail::VerbsFrames>(options);
}

}  // namespace mrc::inline v0_1::port
