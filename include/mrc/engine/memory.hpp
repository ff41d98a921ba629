// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/types.hpp"
#include "mrc/engine/verbs_types.hpp"
#include "mrc/wire/burst.hpp"
#include "mrc/wire/transport.hpp"

namespace mrc::inline v0_1::engine {

/// A registered range of memory.
struct MemoryEntry {
  std::uint8_t* address = nullptr;  ///< first byte
  std::uint64_t length = 0;         ///< bytes
  std::uint32_t key = 0;            ///< L_Key and R_Key
  PdId pd{};                        ///< protection domain of the region
  Access access = Access::none;     ///< rights (in_force())
  bool live = false;                ///< false: deregistered, the entry is free
  std::uint32_t uses = 0;           ///< SGEs of posted requests in it
  std::uint32_t copies = 0;         ///< copies of its bytes that ports still read

  /// True if the last bytes of a message must not be visible before everything in front of them.
  [[nodiscard]] bool in_message_order() const noexcept {
    return !has(access, Access::relaxed_ordering) && !has(access, Access::line_ordering);
  }
};

/// Why a remote access is refused.
enum class AccessFault : std::uint8_t { none, key, pd, bounds, access };

/// The memory regions of one engine. A key is an index, with as many bits as the limit needs, and
/// random bits, so that a deregistered or guessed key does not open another region.
class MemoryTable {
 public:
  /// Most regions of a table: at least 16 bits of a key are random.
  static constexpr std::uint32_t kMaxRegions = 1u << 16;

  /// `limit`: number of regions that fit, up to kMaxRegions.
  explicit MemoryTable(std::uint32_t limit)
      : limit_(limit), index_bits_(std::max(1u, static_cast<unsigned>(std::bit_width(limit - 1)))) {
    entries_.reserve(limit);
  }

  /// Registers [address, address + length). Errc::no_resources at the limit.
  Result<std::uint32_t> add(void* address, std::uint64_t length, Access access, PdId pd,
                            SecretRandom& random) {
    std::uint32_t index;
    if (!free_.empty()) {
      index = free_.back();
      free_.pop_back();
    } else if (entries_.size() < limit_) {
      index = static_cast<std::uint32_t>(entries_.size());
      entries_.emplace_back();
      free_.reserve(entries_.capacity());
    } else {
      return Errc::no_resources;
    }
    MemoryEntry& e = entries_[index];
    const std::uint32_t tag = 1 + random.below((1u << (32 - index_bits_)) - 1);  // a key is never 0
    const std::uint32_t key = (tag << index_bits_) | index;
    e = {static_cast<std::uint8_t*>(address), length, key, pd, access, true, 0, 0};
    return e.key;
  }

  /// The same under the key that another table has given out; its number must be free in this one.
  Result<std::uint32_t> add_as(std::uint32_t key, void* address, std::uint64_t length,
                               Access access, PdId pd) {
    const std::uint32_t index = index_of(key);
    if (index >= limit_) return Errc::no_resources;
    while (entries_.size() <= index) {
      free_.push_back(static_cast<std::uint32_t>(entries_.size()));
      entries_.emplace_back();
      free_.reserve(entries_.capacity());
    }
    if (std::erase(free_, index) == 0) return Errc::in_use;
    entries_[index] = {static_cast<std::uint8_t*>(address), length, key, pd, access, true, 0, 0};
    return key;
  }

  /// Invalidates a key that no posted request uses. Its number is not given out again while ports
  /// hold copies of its bytes.
  void remove(std::uint32_t key) noexcept {
    if (MemoryEntry* e = find(key)) {
      e->live = false;
      if (e->copies == 0) free_.push_back(index_of(key));
    }
  }

  /// A port holds a copy of bytes of this region; `key` is valid.
  void hold(std::uint32_t key) noexcept { ++entries_[index_of(key)].copies; }
  void release(std::uint32_t key) noexcept {
    MemoryEntry& e = entries_[index_of(key)];
    if (--e.copies == 0 && !e.live) free_.push_back(index_of(key));
  }
  /// Also after remove().
  [[nodiscard]] std::uint32_t copies(std::uint32_t key) const noexcept {
    const std::uint32_t index = index_of(key);
    return index < entries_.size() && entries_[index].key == key ? entries_[index].copies : 0;
  }

  [[nodiscard]] MemoryEntry* find(std::uint32_t key) noexcept {
    const std::uint32_t index = index_of(key);
    if (index >= entries_.size()) return nullptr;
    MemoryEntry& e = entries_[index];
    return e.live && e.key == key ? &e : nullptr;
  }

  /// May a peer of a queue pair in `pd` do what needs `right`? Sets `region` if so.
  [[nodiscard]] AccessFault check_remote(std::uint32_t key, PdId pd, std::uint64_t address,
                                         std::uint64_t length, Access right,
                                         const MemoryEntry** region) noexcept {
    const MemoryEntry* e = find(key);
    if (e == nullptr) return AccessFault::key;
    if (e->pd != pd) return AccessFault::pd;
    if (!has(e->access, right)) return AccessFault::access;
    if (!inside(*e, address, length)) return AccessFault::bounds;
    *region = e;
    return AccessFault::none;
  }

  [[nodiscard]] Errc check_local(const Sge& sge, PdId pd, Access rights) noexcept {
    const MemoryEntry* e = find(sge.lkey);
    if (e == nullptr) return Errc::invalid_lkey;
    if (e->pd != pd) return Errc::wrong_pd;
    if (!has(e->access, rights)) return Errc::access_denied;
    return inside(*e, reinterpret_cast<std::uint64_t>(sge.address), sge.length)
               ? Errc::ok
               : Errc::invalid_lkey;
  }

  [[nodiscard]] static bool inside(const MemoryEntry& e, std::uint64_t address,
                                   std::uint64_t length) noexcept {
    const auto base = reinterpret_cast<std::uint64_t>(e.address);
    return address >= base && address - base <= e.length && length <= e.length - (address - base);
  }

  [[nodiscard]] bool uses_pd(PdId pd) const noexcept {
    return std::ranges::any_of(entries_, [=](auto& e) { return e.live && e.pd == pd; });
  }

 private:
  [[nodiscard]] std::uint32_t index_of(std::uint32_t key) const noexcept {
    return key & ((1u << index_bits_) - 1);
  }

  std::uint32_t limit_;
  unsigned index_bits_;  ///< of a key; the other bits are random
  std::vector<MemoryEntry> entries_;
  std::vector<std::uint32_t> free_;
};

// Copies of payload into the application's memory.

/// Largest word, in bytes, of a store that a program may poll. The thread sanitizer matches atomic
/// stores and loads by address, and which word is polled is unknown here: with it, single bytes.
#if defined(MRC_THREAD_SANITIZER)
inline constexpr std::size_t kPolledWord = 1;
#else
inline constexpr std::size_t kPolledWord = 8;
#endif

/// Stores bytes that a program may poll, in aligned words of up to `kWord` bytes, each by a
/// release.
template <std::size_t kWord = kPolledWord>
inline void store_released(std::uint8_t* to, const std::uint8_t* from, std::size_t n) noexcept {
  const auto store = [&]<class Word>(Word* at) {
    Word word;
    std::memcpy(&word, from, sizeof word);
    __atomic_store_n(at, word, __ATOMIC_RELEASE);
    to += sizeof word;
    from += sizeof word;
    n -= sizeof word;
  };
  const auto fits = [&](std::size_t word) {
    return word <= kWord && n >= word && reinterpret_cast<std::uintptr_t>(to) % word == 0;
  };
  while (n > 0) {  // NOLINT(bugprone-infinite-loop): store() lowers n
    if (fits(8))
      store(reinterpret_cast<std::uint64_t*>(to));
    else if (fits(4))
      store(reinterpret_cast<std::uint32_t*>(to));
    else if (fits(2))
      store(reinterpret_cast<std::uint16_t*>(to));
    else
      store(to);
  }
}

/// Copies in ascending order, the last bytes as release stores: a program that polls the last byte,
/// or an aligned word that ends with it, then finds all others in place. memcpy() has no order.
inline void copy_ascending(std::uint8_t* to, const std::uint8_t* from, std::size_t n) noexcept {
#if defined(__SSE2__)
  for (; n > 64; n -= 64, to += 64, from += 64) {
    const auto* s = reinterpret_cast<const __m128i*>(from);
    const __m128i a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1);
    const __m128i c = _mm_loadu_si128(s + 2), d = _mm_loadu_si128(s + 3);
    auto* t = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(t, a);
    _mm_storeu_si128(t + 1, b);
    _mm_storeu_si128(t + 2, c);
    _mm_storeu_si128(t + 3, d);
    asm volatile("" ::: "memory");  // keeps the compiler from turning the loop into memcpy()
  }
#endif
  for (; n > 8; n -= 8, to += 8, from += 8) {
    std::uint64_t word;
    std::memcpy(&word, from, 8);
    std::memcpy(to, &word, 8);
    asm volatile("" ::: "memory");
  }
  store_released(to, from, n);
}

#if defined(__SSE2__) && !defined(MRC_THREAD_SANITIZER)
/// True if a store of 16 aligned bytes appears as a whole. Intel and AMD promise it for CPUs with
/// AVX (Intel SDM volume 3A, 9.1.1 "Guaranteed Atomic Operations").
[[nodiscard]] inline bool stores_16_whole() noexcept {
#if defined(__AVX__)
  return true;
#else
  return __builtin_cpu_supports("avx") != 0;
#endif
}

/// Stores 16 bytes to an aligned address, after the stores before in the program: x86 keeps the
/// order of a CPU's plain stores, so that only the compiler must not change it.
inline void store_16(std::uint8_t* to, __m128i bytes) noexcept {
  _mm_store_si128(reinterpret_cast<__m128i*>(to), bytes);
  asm volatile("" ::: "memory");
}
#endif

/// Copies as Access::line_ordering promises: in ascending order, in aligned words of 8 bytes that
/// appear whole. The order is that of all bytes, not only of each line: on x86 at no cost.
inline void copy_lines(std::uint8_t* to, const std::uint8_t* from, std::size_t n) noexcept {
#if defined(__SSE2__) && !defined(MRC_THREAD_SANITIZER)
  if (n >= 32 && stores_16_whole()) [[likely]] {
    const std::size_t head = (16 - reinterpret_cast<std::uintptr_t>(to) % 16) % 16;
    if (head != 0) {
      store_released<8>(to, from, head);
      asm volatile("" ::: "memory");  // what follows stays behind it
      to += head, from += head, n -= head;
    }
    for (; n >= 64; n -= 64, to += 64, from += 64) {
      const auto* s = reinterpret_cast<const __m128i*>(from);
      const __m128i a = _mm_loadu_si128(s), b = _mm_loadu_si128(s + 1);
      const __m128i c = _mm_loadu_si128(s + 2), d = _mm_loadu_si128(s + 3);
      store_16(to, a);
      store_16(to + 16, b);
      store_16(to + 32, c);
      store_16(to + 48, d);
    }
    for (; n >= 16; n -= 16, to += 16, from += 16)
      store_16(to, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    if (n == 0) return;
  }
#endif
  store_released<8>(to, from, n);
}

/// Copies payload into a memory region with these rights, in the order that they promise.
inline void copy_payload(Access access, std::uint8_t* to, const std::uint8_t* from,
                         std::size_t n) noexcept {
  if (has(access, Access::relaxed_ordering))
    std::memcpy(to, from, n);
  else if (has(access, Access::line_ordering))
    copy_lines(to, from, n);
  else
    copy_ascending(to, from, n);
}

/// The copies of payload that ports still read after they have taken a packet. The completion of a
/// posted request waits for each, and the deregistration of memory regions.
class CopyTable {
 public:
  /// A posted request, by its place in a send queue.
  struct Request {
    Qpn qpn{};                   ///< queue pair
    std::uint32_t position = 0;  ///< SendQueue position
    bool response = false;       ///< in the queue of responses
  };
  /// Most copies of a table: a request counts its copies in 16 bits.
  static constexpr std::uint32_t kMaxCopies = 0xFFFF;

  /// Room for `limit` copies of one memory region each, up to kMaxCopies.
  explicit CopyTable(std::uint32_t limit) : entries_(limit) {
    free_.reserve(limit);
    for (std::uint32_t i = limit; i > 0; --i) free_.push_back(i - 1);
  }

  /// Memory regions that further copies can name.
  [[nodiscard]] std::size_t room() const noexcept { return free_.size(); }
  [[nodiscard]] bool empty() const noexcept { return free_.size() == entries_.size(); }

  /// A copy of payload from region `key`. Without a request only the region waits.
  [[nodiscard]] wire::CopyId add(std::optional<Request> request, std::uint32_t key) noexcept {
    const std::uint32_t i = take(key);
    entries_[i].request = request;
    entries_[i].first = true;
    return wire::CopyId{i + 1};
  }
  void add_region(wire::CopyId copy, std::uint32_t key) noexcept {
    const std::uint32_t i = take(key);
    Entry& head = entries_[index(copy)];
    entries_[i].next = head.next;
    head.next = i;
  }

  /// Calls region(key) for each region of the copy and returns its request, if there is the copy.
  template <class F>
  std::optional<Request> remove(wire::CopyId copy, F&& region) noexcept {
    const std::uint32_t head = index(copy);
    if (head >= entries_.size() || !entries_[head].first) return std::nullopt;
    const std::optional<Request> request = entries_[head].request;
    for (std::uint32_t i = head; i != kEnd;) {
      region(entries_[i].key);
      const std::uint32_t next = entries_[i].next;
      entries_[i] = {};
      free_.push_back(i);
      i = next;
    }
    return request;
  }

  /// The queue pair's requests are gone: its copies keep only their regions.
  void forget_requests(Qpn qpn) noexcept {
    if (empty()) return;
    for (Entry& e : entries_)
      if (e.request && e.request->qpn == qpn) e.request.reset();
  }

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  struct Entry {
    std::optional<Request> request;
    std::uint32_t key = 0;
    std::uint32_t next = kEnd;  ///< further region of the same copy
    bool first = false;         ///< a CopyId names it
  };

  [[nodiscard]] static std::uint32_t index(wire::CopyId copy) noexcept {
    return static_cast<std::uint32_t>(copy) - 1;  // none: beyond any table
  }
  [[nodiscard]] std::uint32_t take(std::uint32_t key) noexcept {
    const std::uint32_t i = free_.back();
    free_.pop_back();
    entries_[i].key = key;
    return i;
  }

  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
};

/// The last bytes of messages that arrived before packets in front of them, for memory regions in
/// message order: they are stored once those packets have arrived. One pool per engine.
class DeferredStores {
 public:
  using Index = std::uint32_t;               ///< in the pool
  static constexpr Index kNone = ~Index{0};  ///< the end of a list
  /// Bytes deferred per message: the largest word that a program polls. At most as many stores, in
  /// a scatter list of single bytes.
  static constexpr std::uint32_t kBytes = 8;

  /// A deferred store.
  struct Store {
    std::uint64_t address;       ///< destination, virtual address on this host
    std::uint32_t key;           ///< of the memory region, which is looked up before the store
    Psn psn;                     ///< packet that carried the bytes
    Index next;                  ///< next store of the list, or kNone
    std::uint8_t length;         ///< bytes, at most kBytes
    std::uint8_t bytes[kBytes];  ///< data to store
  };
  /// A queue pair's deferred stores, in PSN order.
  struct List {
    Index head = kNone;  ///< lowest PSN
    Index last = kNone;  ///< highest PSN
  };

  explicit DeferredStores(std::size_t capacity) : stores_(capacity) {
    free_.reserve(capacity);
    for (std::size_t i = capacity; i > 0; --i) free_.push_back(static_cast<Index>(i - 1));
  }

  [[nodiscard]] std::size_t free() const noexcept { return free_.size(); }        ///< free stores
  [[nodiscard]] std::size_t capacity() const noexcept { return stores_.size(); }  ///< all stores
  [[nodiscard]] bool full() const noexcept { return free_.empty(); }              ///< no free store

  /// Keeps `length` <= kBytes bytes for `address` until release() reaches `psn`. Several of one PSN
  /// are written in the order of these calls. Needs !full().
  void defer(List& list, Psn psn, std::uint32_t key, std::uint64_t address,
             const std::uint8_t* bytes, std::uint32_t length) noexcept {
    const Index i = free_.back();
    free_.pop_back();
    Store& s = stores_[i];
    s = {address, key, psn, kNone, static_cast<std::uint8_t>(length), {}};
    std::memcpy(s.bytes, bytes, length);
    if (list.head == kNone) {
      list.head = list.last = i;
    } else if (!psn.before(stores_[list.last].psn)) {
      stores_[list.last].next = i;
      list.last = i;
    } else {
      Index* link = &list.head;
      while (!psn.before(stores_[*link].psn)) link = &stores_[*link].next;
      s.next = *link;
      *link = i;
    }
  }

  /// Removes the stores of PSNs up to `cack` and calls write(store) for each, in PSN order.
  template <class F>
  void release(List& list, Psn cack, F&& write) noexcept {
    while (list.head != kNone && !stores_[list.head].psn.after(cack)) {
      const Store& s = stores_[list.head];
      write(s);
      free_.push_back(list.head);
      list.head = s.next;
    }
    if (list.head == kNone) list.last = kNone;
  }
  void drop(List& list) noexcept {
    for (Index i = list.head; i != kNone; i = stores_[i].next) free_.push_back(i);
    list = {};
  }

 private:
  std::vector<Store> stores_;
  std::vector<Index> free_;
};

/// Puts data packets together that arrive in parts (wire/transport.hpp).
///
/// A packet has one place, given by its queue pair and PSN. Parts of two transmissions of it may be
/// mixed. Another packet takes the place from one that is not complete, which is sent again. Parts
/// of another connection, or so old that PSNs may have come round, are not mixed with new ones.
class PartAssembly {
 public:
  /// Room for `places` incomplete packets of up to `payload` bytes; with 0 no part is accepted.
  PartAssembly(std::uint32_t places, std::uint32_t payload)
      : payload_(std::min(payload, kLargestMtu)),
        stride_(static_cast<std::uint32_t>(wire::kMaxWriteHeader + wire::kMaxPad) + payload_),
        places_(places),
        buffers_(std::make_unique_for_overwrite<std::uint8_t[]>(std::size_t{places} * stride_)) {}

  /// Needs a part with the connection's tag that has passed wire::check(). Returns the whole
  /// packet, checked no further, if this was the last one that it lacked; its bytes are valid until
  /// the next call. `malformed` is set if the part fits no packet.
  [[gnu::noinline]] std::optional<wire::RxPacket> add(Time now, const wire::RxPacket& part,
                                                      bool& malformed) noexcept {
    const auto& bth = wire::view_as<wire::Bth>(part.bytes);
    const auto& header = wire::view_as<wire::PartHeader>(part.bytes.subspan(sizeof(wire::Bth)));
    const std::uint32_t length = header.length, offset = header.offset;
    const std::size_t headers =  // of the whole packet
        wire::write_header_size(bth.has_timestamp(), wire::has_immediate(header.opcode()));
    const std::size_t in_front = headers + sizeof(wire::PartHeader) + bth.pad();
    malformed = places_.empty() || !wire::is_data(header.opcode()) || length > payload_ ||
                length <= wire::kPartPayload || offset >= length ||
                offset % wire::kPartPayload != 0 || part.bytes.size() < in_front ||
                part.bytes.size() - in_front != std::min(wire::kPartPayload, length - offset);
    if (malformed) return std::nullopt;

    const std::size_t index = (bth.psn().value() + value(bth.dqp()) * 37) % places_.size();
    Place& place = places_[index];
    if (place.qpn != bth.dqp() || place.psn != bth.psn() || place.length != length ||
        place.opcode != header.op || place.check != part.check || now - place.newest > kLifetime)
      place = {now, part.check, bth.dqp(), bth.psn(), length, 0, header.op, false};
    place.newest = now;
    std::uint8_t* const packet = buffers_.get() + index * stride_;
    const std::uint8_t* const piece = part.bytes.data() + in_front - bth.pad();
    std::memcpy(packet + headers + offset, piece, part.bytes.size() - in_front);
    place.have |= 1u << (offset / wire::kPartPayload);
    place.congested = place.congested || part.ecn == Ecn::ce;
    const std::uint32_t parts = wire::parts_of(length);
    if (place.have != ~std::uint32_t{0} >> (32 - parts)) return std::nullopt;

    const std::size_t pad = (4 - length % 4) % 4;
    wire::Bth whole = bth;
    whole.op = header.op;
    whole.set_pad(static_cast<unsigned>(pad));
    std::memcpy(packet, &whole, sizeof whole);
    std::memcpy(packet + sizeof whole, &header + 1, headers - sizeof whole);
    std::memset(packet + headers + length, 0, pad);
    wire::RxPacket out = part;
    out.bytes = {packet, headers + length + pad};
    out.udp_length = static_cast<std::uint32_t>(sizeof(wire::Udp) + out.bytes.size()) +
                     std::uint32_t{wire::kIcrcSize};
    if (place.congested) out.ecn = Ecn::ce;
    place.length = 0;
    return out;
  }

  /// Within this time PSNs do not come round, at any speed that sockets reach.
  static constexpr Duration kLifetime = std::chrono::seconds(1);

 private:
  struct Place {
    Time newest{};            ///< when the last part arrived
    std::uint32_t check = 0;  ///< RxPacket::check: of one connection only
    Qpn qpn{};
    Psn psn;
    std::uint32_t length = 0;  ///< payload of the packet, bytes; 0: free
    std::uint32_t have = 0;    ///< a bit for each part
    static_assert(kLargestMtu <= 32 * wire::kPartPayload);
    std::uint8_t opcode = 0;
    bool congested = false;  ///< a part was marked CE
  };

  std::uint32_t payload_;  ///< most bytes
  std::uint32_t stride_;   ///< bytes between the buffers of two places
  std::vector<Place> places_;
  std::unique_ptr<std::uint8_t[]> buffers_;
};

}  // namespace mrc::inline v0_1::engine
