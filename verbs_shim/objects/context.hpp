// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/objects/async_events.hpp"
#include "verbs_shim/objects/host.hpp"

namespace mrc_verbs {

/// A device in the list that programs get. What follows ibv_device is where providers keep a
/// pointer to their operations; those of other vendors look there for their own, so it is null.
/// libmrc looks for its provider (libmrc/provider.h) at the beginning.
struct ListedDevice : ibv_device {
  const void* provider_operations = nullptr;
};

/// The only device there is: mrc0. It lives for ever.
[[nodiscard]] ListedDevice& listed_device() noexcept;

/// An open device. Programs hold a pointer to its last member, and find the rest in front of it.
class Context : public verbs_context {
 public:
  /// Throws mrc::Error.
  explicit Context(std::shared_ptr<Host> host, Ports ports = Ports::one);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] static Context& of(ibv_context* verbs) noexcept {
    return *static_cast<Context*>(verbs_get_ctx(verbs));
  }
  [[nodiscard]] Host& host() noexcept { return *host_; }
  [[nodiscard]] const std::shared_ptr<Host>& host_pointer() const noexcept { return host_; }
  [[nodiscard]] mrc::Device& device() noexcept { return host_->device(); }
  [[nodiscard]] AsyncEvents& events() noexcept { return events_; }
  [[nodiscard]] Ports ports() const noexcept { return ports_; }
  /// Waits for the oldest event for the program, and counts it for its object, which can't be
  /// destroyed before the event is acknowledged. False: errno says why there is none. A
  /// cancellation point, where no event is lost.
  bool next_event(ibv_async_event& event);

  /// Queue pairs in SQD that still have to report that they are drained. The device does not tell,
  /// so whoever waits looks now and then.
  std::atomic<int> draining{0};
  void check_drained();

 private:
  [[gnu::noinline]] bool take(ibv_async_event& event) noexcept;  // see Doorbell::wait()

  std::shared_ptr<Host> host_;
  Ports ports_;
  AsyncEvents events_;
};

/// A protection domain of the device, given back with the last that uses it.
class PdHandle {
 public:
  explicit PdHandle(mrc::Device device) : device_(std::move(device)), id_(device_.alloc_pd()) {}
  ~PdHandle() { (void)device_.dealloc_pd(id_); }
  PdHandle(const PdHandle&) = delete;
  PdHandle& operator=(const PdHandle&) = delete;
  [[nodiscard]] mrc::PdId id() const noexcept { return id_; }

 private:
  mrc::Device device_;
  mrc::PdId id_;
};

/// A thread domain: kept, and counted, but without effect.
struct Td : ibv_td {
  std::atomic<int> users{0};  ///< parent domains
};

/// A protection domain of verbs, or a parent domain, which stands for one.
struct Pd : ibv_pd {
  std::shared_ptr<PdHandle> domain;
  /// Memory regions, buffers, queues, queue pairs, address handles, parent domains.
  std::atomic<int> users{0};
  Pd* parent = nullptr;  ///< of a parent domain: what it stands for
  Td* td = nullptr;      ///< of a parent domain, or null

  [[nodiscard]] static Pd& of(ibv_pd* verbs) noexcept { return *static_cast<Pd*>(verbs); }
};

/// A registered memory region.
struct Mr : ibv_mr {
  mrc::MemoryRegion region;
};

/// An address handle: where a datagram goes.
struct Ah : ibv_ah {
  mrc::AddressHandle destination{};

  [[nodiscard]] static const Ah& of(const ibv_ah* verbs) noexcept {
    return *static_cast<const Ah*>(verbs);
  }
};

/// A number for the member `handle` of objects: nobody needs it, but programs print it.
[[nodiscard]] std::uint32_t next_handle() noexcept;

}  // namespace mrc_verbs
