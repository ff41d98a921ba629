// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/plane.hpp"
#include "mrc/verbs/verbs_device.hpp"
#include "mrc/wire/burst.hpp"

namespace mrc::inline v0_1::port {

/// Takes the events of a completion channel that does not wait, which have served their purpose.
inline void drain_events(ibv_comp_channel* channel) noexcept {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (VerbsLibrary::get().get_cq_event(channel, &cq, &context) == 0)
    VerbsLibrary::get().ack_cq_events(cq, 1);
}

/// Polls a completion queue, and arms it: what comes in between is kept for the next poll. One
/// thread at a time.
class VerbsArrivals {
 public:
  static constexpr std::size_t kBatch = 64;  ///< completions that are kept

  /// Up to `out.size()` completions; returns how many. What arm() has found comes first.
  [[nodiscard]] std::size_t poll(ibv_cq* cq, std::span<ibv_wc> out) noexcept {
    if (count_ == 0) return poll_queue(cq, out);
    const std::size_t n = std::min(count_, out.size());
    std::copy_n(early_.begin(), n, out.begin());
    std::copy(early_.begin() + static_cast<std::ptrdiff_t>(n),
              early_.begin() + static_cast<std::ptrdiff_t>(count_), early_.begin());
    count_ -= n;
    return n;
  }
  /// Completions from now on tell the queue's channel. False: there are some already. `failed` is
  /// set if the queue can't do that.
  [[nodiscard]] bool arm(ibv_cq* cq, bool& failed) noexcept {
    if (ibv_req_notify_cq(cq, 0) != 0) failed = true;
    if (count_ == 0) count_ = poll_queue(cq, early_);
    return count_ == 0;
  }

 private:
  [[nodiscard]] static std::size_t poll_queue(ibv_cq* cq, std::span<ibv_wc> out) noexcept {
    return static_cast<std::size_t>(
        std::max(0, ibv_poll_cq(cq, static_cast<int>(out.size()), out.data())));
  }

  std::array<ibv_wc, kBatch> early_{};
  std::size_t count_ = 0;
};

/// UD messages between verbs ports. Behind the 40 bytes that a device puts in front (GRH): a check,
/// then the transport packet from BTH to its pad. The immediate says what the message is, how long
/// the packet's header is and which path it has taken. The check is that of the transport header
/// alone (CRC-32), plus the check seed of the connection: the device's own iCRC covers the payload,
/// which the CPU need not touch.

/// What a UD message holds; top 8 bits of its immediate.
enum class UdKind : std::uint8_t {
  packet = 0,          ///< check, packet
  headers = 1,         ///< headers of packets whose payload the device places (uc.hpp)
  retransmission = 2,  ///< origins (uc.hpp), check, packet
};

/// The immediate of a UD message.
struct UdImmediate {
  UdKind kind = UdKind::packet;    ///< what the message holds
  std::uint8_t header_length = 0;  ///< bytes of the transport header that the check covers
  std::uint16_t path = 0;          ///< number of the sender's path, its EV

  /// As it is sent, in host byte order.
  [[nodiscard]] constexpr std::uint32_t bits() const noexcept {
    return static_cast<std::uint32_t>(kind) << 24 | std::uint32_t{header_length} << 16 | path;
  }
  /// From what was received; any bits are safe, `kind` can be a value without a name.
  [[nodiscard]] static constexpr UdImmediate of(std::uint32_t bits) noexcept {
    return {static_cast<UdKind>(bits >> 24), static_cast<std::uint8_t>(bits >> 16),
            static_cast<std::uint16_t>(bits)};
  }
};

inline constexpr std::size_t kUdCheckSize = 4;      ///< bytes of the check, big endian
inline constexpr std::size_t kUdMaxMessage = 4096;  ///< largest UD message of any device, bytes

/// Where a UD message goes, and what stands in front of its packet.
struct VerbsTarget {
  ibv_ah* address = nullptr;     ///< of the path and the traffic class
  std::uint32_t qpn = 0;         ///< the peer's UD queue pair
  std::uint32_t qkey = 0;        ///< that the peer expects
  UdKind kind = UdKind::packet;  ///< of the message
  Bytes prefix{};  ///< in front of the check; read before send() goes on to the next packet
};

/// A UD message that has arrived.
struct VerbsArrival {
  std::uint32_t buffer = 0;     ///< to be given back by VerbsQueues::give_back()
  std::uint32_t immediate = 0;  ///< host byte order
  std::uint32_t source = 0;     ///< number of the sending queue pair
  MutableBytes message;         ///< GRH and what was sent
};

/// Everything of libibverbs that a verbs port uses on one open device: one UD queue pair per path,
/// a ring of receive buffers that all of them share, a ring of header slots for sending, completion
/// queues, registered memory. It is replaced as a whole when the device goes away and comes back.
///
/// No completion queue can overrun: each has room for all requests of its queues.
///
/// Set-up calls (constructor, restart(), regions) throw mrc::Error and may allocate. The rest is
/// data path. One thread at a time.
class VerbsQueues {
 public:
  /// `qkey`: random, what senders must know.
  VerbsQueues(const VerbsPortOptions& options, VerbsDevice device, std::uint32_t qkey);
  VerbsQueues(const VerbsQueues&) = delete;
  VerbsQueues& operator=(const VerbsQueues&) = delete;
  ~VerbsQueues();

  /// The device that it was made on.
  [[nodiscard]] const VerbsDevice& device() const noexcept { return device_; }
  /// The protection domain of everything on it.
  [[nodiscard]] ibv_pd* pd() const noexcept { return pd_.get(); }
  /// Where completions are told of.
  [[nodiscard]] ibv_comp_channel* channel() const noexcept { return channel_.get(); }
  /// Of the queue pairs, by path.
  [[nodiscard]] const std::vector<std::uint32_t>& qpns() const noexcept { return qpns_; }
  /// Keeps the memory that arrivals point into: views of them stay valid as long as it is held.
  [[nodiscard]] const std::shared_ptr<std::uint8_t[]>& receive_memory() const noexcept {
    return receive_memory_;
  }
  /// Receive buffers.
  [[nodiscard]] std::uint32_t receive_depth() const noexcept { return receive_depth_; }
  /// Readable when a completion has come since arm().
  [[nodiscard]] int event_fd() const noexcept { return channel_->fd; }

  /// Stops all queue pairs: neither are packets sent nor received from now on. Appends the copies
  /// that the device might still have read.
  void stop(std::vector<wire::CopyId>& released) noexcept;
  /// Starts them again after stop(); they keep their numbers. False: the device does not allow it,
  /// and a new object is needed.
  [[nodiscard]] bool restart() noexcept;

  /// Registers memory to send from and, with option placement, for peers' devices to write to if
  /// its rights allow any order. Throws mrc::Error that names the remedy.
  void add_region(const MemorySpan& span);
  /// Undoes add_region(); unknown keys are ignored.
  void remove_region(std::uint32_t key) noexcept {
    if (key == last_region_) last_lkey_ = 0;
    regions_.erase(key);
  }
  /// Whether memory is registered under a key.
  [[nodiscard]] bool has_region(std::uint32_t key) const noexcept { return regions_.contains(key); }
  /// Keys of all regions.
  [[nodiscard]] std::vector<std::uint32_t> regions() const;

  /// Packets that path can take now.
  [[nodiscard]] std::uint32_t room(std::uint16_t path) const noexcept {
    const Lane& lane = lanes_[path];
    return send_depth_ - (lane.posted - lane.done);
  }
  /// Sends packets on a path, at most room(), with one doorbell per kChain. `target_of(packet)` is
  /// where each goes. Returns how many were taken. Fewer than all: the device failed (see
  /// failed()), or there is no memory to copy payload to that is not registered.
  template <class TargetOf>
  [[nodiscard]] std::uint32_t send(const wire::TxBurst& burst,
                                   std::span<const wire::TxPacket> packets, std::uint16_t path,
                                   const TargetOf& target_of) noexcept {
    std::uint32_t sent = 0;
    while (sent < packets.size()) {
      const auto chain =
          packets.subspan(sent, std::min<std::size_t>(kChain, packets.size() - sent));
      std::uint32_t built = 0;
      for (const wire::TxPacket& packet : chain) {
        if (!build(burst, packet, path, built, target_of(packet))) break;
        ++built;
      }
      const std::uint32_t posted = post(path, built);
      sent += posted;
      if (posted < chain.size()) break;
    }
    return sent;
  }

  /// Sends `message`, at most kMaxBytes, as it is. Needs room().
  bool send_bytes(Bytes message, std::uint16_t path, const VerbsTarget& target) noexcept;
  /// Names payload for the device in at most `out.size()` pieces. Returns how many; 0: part of it
  /// is not registered, or it is in too many pieces.
  [[nodiscard]] std::size_t locate(std::span<const wire::TxSge> payload,
                                   std::span<ibv_sge> out) noexcept;
  /// The remote key of a region that the device may place payload in; nothing if it may not.
  [[nodiscard]] std::optional<std::uint32_t> remote_key(std::uint32_t key) const noexcept;

  /// Takes send completions in, and appends the copies that the device no longer reads.
  void take_sent(std::vector<wire::CopyId>& released) noexcept;
  /// Takes up to `out.size()` arrivals in. Returns how many.
  [[nodiscard]] std::size_t take_arrived(std::span<VerbsArrival> out) noexcept;
  /// The buffer of an arrival can be used again.
  void give_back(std::uint32_t buffer) noexcept { idle_.push_back(buffer); }
  /// Posts the buffers that were given back.
  void refill() noexcept;
  /// Completions from now on make event_fd() readable. False: there are some already.
  [[nodiscard]] bool arm() noexcept;

  /// A queue pair has failed: stop() and restart(), or a new object, is needed.
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  /// System calls, or their like, that sent.
  [[nodiscard]] std::uint64_t doorbells() const noexcept { return doorbells_; }
  /// Packets whose payload was copied since it was not registered or in too many pieces.
  [[nodiscard]] std::uint64_t bounced() const noexcept { return bounced_; }

  /// Packets that one doorbell rings for, at most.
  static constexpr std::uint32_t kChain = 32;
  /// Longest message of send_bytes().
  static constexpr std::size_t kMaxBytes = 1084;

 private:
  static constexpr std::size_t kHeadBytes = 1088;        ///< prefix, check and header, or a message
  static constexpr std::size_t kPadAt = kHeadBytes - 4;  ///< zeros for pads
  /// Each packet has a slot: its head, and payload that the engine keeps itself.
  static constexpr std::size_t kSlotBytes = kHeadBytes + 1024;
  static constexpr std::uint32_t kBounces = 64;  ///< buffers for payload in odd memory
  static constexpr std::uint16_t kNoBounce = 0xFFFF;
  static constexpr std::size_t kMaxPieces = 16;  ///< SGEs of a request
  static constexpr std::size_t kReceiveBytes = 64 + kUdMaxMessage;

  /// Registered memory.
  struct Region {
    VerbsHandle<ibv_mr> mr;
    bool placed = false;  ///< peers' devices may write to it
  };
  /// A posted packet.
  struct Record {
    wire::CopyId copy = wire::CopyId::none;
    std::uint16_t bounce = kNoBounce;
  };
  /// The sending side of a path. Numbers count packets and wrap.
  struct Lane {
    VerbsHandle<ibv_qp> qp;
    std::uint32_t posted = 0;
    std::uint32_t done = 0;
    std::vector<Record> records;  ///< [number % send_depth_]
  };

  void open_memory();
  void open_queues();
  [[nodiscard]] VerbsHandle<ibv_qp> make_qp();
  void set_request(std::uint32_t index, std::uint32_t number, std::uint16_t path, int sges,
                   std::uint8_t header_length, const VerbsTarget& target) noexcept;
  [[nodiscard]] int start(ibv_qp* qp, std::uint32_t psn) const noexcept;
  /// Lays out request `index` of a chain. False: nothing to copy its payload to.
  [[nodiscard]] bool build(const wire::TxBurst& burst, const wire::TxPacket& packet,
                           std::uint16_t path, std::uint32_t index,
                           const VerbsTarget& target) noexcept;
  [[nodiscard]] bool copy_payload(std::span<const wire::TxSge> payload, std::uint32_t length,
                                  std::uint8_t* slot, ibv_sge& out, Record& record) noexcept;
  [[nodiscard]] std::uint32_t post(std::uint16_t path, std::uint32_t count) noexcept;
  void poll_sent(std::vector<wire::CopyId>& released) noexcept;
  void release(Lane& lane, std::uint32_t up_to, std::vector<wire::CopyId>& released) noexcept;
  [[nodiscard]] std::uint8_t* slot_of(std::uint16_t path, std::uint32_t number) noexcept {
    return slots_.get() + (std::size_t{path} * send_depth_ + number % send_depth_) * kSlotBytes;
  }

  VerbsDevice device_;
  std::uint32_t qkey_;
  bool placement_;
  std::uint32_t send_depth_;
  std::uint32_t receive_depth_ = 0;
  std::size_t pieces_ = 0;  ///< SGEs that a request can have
  std::uint32_t inline_max_ = 0;
  VerbsHandle<ibv_pd> pd_;
  std::shared_ptr<std::uint8_t[]> receive_memory_;
  std::unique_ptr<std::uint8_t[]> slots_;
  std::unique_ptr<std::uint8_t[]> bounces_;
  VerbsHandle<ibv_mr> receive_mr_, slots_mr_, bounces_mr_;
  std::unordered_map<std::uint32_t, Region> regions_;
  std::uint32_t last_region_ = 0;  ///< key of the region found last, and its
  std::uint32_t last_lkey_ = 0;    ///< local key; 0: none
  VerbsHandle<ibv_comp_channel> channel_;
  VerbsHandle<ibv_cq> sent_, arrived_;
  VerbsHandle<ibv_srq> buffers_;
  std::vector<Lane> lanes_;
  std::vector<std::uint32_t> qpns_;
  std::vector<std::uint16_t> free_bounces_;
  std::vector<std::uint32_t> idle_;           ///< receive buffers that are not posted
  std::vector<wire::CopyId> early_released_;  ///< copies that arm() has found released
  std::array<ibv_send_wr, kChain> requests_{};
  std::array<std::array<ibv_sge, kMaxPieces>, kChain> sges_{};
  VerbsArrivals arrivals_;  ///< of arrived_
  bool failed_ = false;
  std::uint64_t doorbells_ = 0;
  std::uint64_t bounced_ = 0;
};

/// The address handles of one peer address: one per path, with a flow label of its own, and traffic
/// class. Devices derive a packet's UDP source port, by which networks tell paths apart, from the
/// flow label or from the queue pair; here both differ.
struct VerbsAddress {
  /// Of [2 * path] data and [2 * path + 1] control packets.
  std::vector<VerbsHandle<ibv_ah>> handles;

  /// The handle for packets of that path.
  [[nodiscard]] ibv_ah* of(std::uint16_t path, bool control) const noexcept {
    return handles[2 * std::size_t{path} + (control ? 1 : 0)].get();
  }
};

/// How packets of a path to that address leave the device.
[[nodiscard]] ibv_ah_attr verbs_address_of(const VerbsDevice& device, const IpAddress& ip,
                                           std::uint16_t path, std::uint8_t traffic_class) noexcept;

/// Makes address handles, in a thread of its own: a device waits for the neighbour's link address,
/// about a second when nobody answers. What failed is tried again every kRetry.
///
/// Any thread, except where stated.
class VerbsAddresses {
 public:
  static constexpr Duration kRetry = std::chrono::seconds(1);  ///< see above

  /// `on_ready` is called by its thread whenever an address has become known.
  VerbsAddresses(std::uint16_t paths, const wire::DscpMap& dscp, std::function<void()> on_ready);
  VerbsAddresses(const VerbsAddresses&) = delete;
  VerbsAddresses& operator=(const VerbsAddresses&) = delete;
  /// Ends the thread.
  ~VerbsAddresses();

  /// Makes handles on that device from now on, for all addresses that were asked for; null: on
  /// none. Waits until the thread no longer uses the former device (up to about a second). Handles
  /// that find() returned must be given up before the device is closed.
  void use(const VerbsQueues* queues);
  /// Keeps handles of `ip` from now on: counts how often it is asked for.
  void want(const IpAddress& ip);
  /// The inverse of want().
  void forget(const IpAddress& ip) noexcept;
  /// The handles, or null while there are none.
  [[nodiscard]] std::shared_ptr<const VerbsAddress> find(const IpAddress& ip) const noexcept;
  /// Waits up to `patience` for the handles of an address, which is wanted meanwhile. Why there are
  /// none, or an empty text.
  [[nodiscard]] std::string wait(const IpAddress& ip, Duration patience);

 private:
  struct Entry {
    unsigned wanted = 0;
    std::shared_ptr<const VerbsAddress> address;
    std::string failure;
    Time retry = Time::min();
  };

  void run();
  [[nodiscard]] std::shared_ptr<const VerbsAddress> make(const VerbsQueues& queues,
                                                         const IpAddress& ip,
                                                         std::string& failure) const;

  const std::uint16_t paths_;
  const wire::DscpMap dscp_;
  const std::function<void()> on_ready_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<IpAddress, Entry> entries_;
  const VerbsQueues* queues_ = nullptr;
  bool busy_ = false;  ///< the thread uses `queues_` without the lock
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mrc::inline v0_1::port
