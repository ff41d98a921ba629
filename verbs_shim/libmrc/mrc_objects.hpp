// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "verbs_shim/errors.hpp"
#include "verbs_shim/libmrc/lasting.hpp"
#include "verbs_shim/libmrc/mrc_transport.hpp"
#include "verbs_shim/libmrc/provider.hpp"
#include "verbs_shim/objects/channel.hpp"
#include "verbs_shim/objects/completion_queue.hpp"
#include "verbs_shim/objects/context.hpp"
#include "verbs_shim/objects/queue_pair.hpp"

// The objects of mrc.h. Queue pairs, completion queues and channels are those of verbs; they belong
// to a verbs context that no program sees, so their events come through mrc_get_async_event()
// alone. Any thread.

namespace mrc_verbs {

/// Threads that wait for events of an object, which goes when they have left. Any thread.
class Waiters {
 public:
  void enter() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void leave() noexcept {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }
  void await_none() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  unsigned count_ = 0;
};

}  // namespace mrc_verbs

/// MRC on an open device. Keeps the device open, also if the program closes its verbs context.
struct mrc_context : mrc_verbs::Lasting<mrc_context> {
  mrc_context(std::shared_ptr<mrc_verbs::Host> host, std::uint32_t version)
      : owner(std::move(host), mrc_verbs::Ports::planes), api_version(version) {}

  void end_waits() noexcept { owner.events().end_waits(); }

  mrc_verbs::Context owner;   ///< of all objects
  std::uint32_t api_version;  ///< that the program was compiled against
  mrc_verbs::Waiters waiters;
};

struct mrc_comp_channel final : mrc_verbs::Channel, mrc_verbs::Lasting<mrc_comp_channel> {
  explicit mrc_comp_channel(mrc_context& mrc) : Channel(mrc.owner), parent(mrc) {}
  mrc_context& parent;
  mrc_verbs::Waiters waiters;
};

/// For completions or, if it has a stream, for EV events.
struct mrc_cq final : mrc_verbs::Cq, mrc_verbs::Lasting<mrc_cq> {
  mrc_cq(mrc_context& mrc, const ibv_cq_init_attr_ex& wanted)
      : Cq(mrc.owner, wanted), parent(mrc) {}
  ~mrc_cq();
  mrc_context& parent;
  std::optional<mrc::EvEventStream> ev_events;
};

/// A hint, and the queue pairs that have it.
struct mrc_qp_hint : mrc_verbs::Lasting<mrc_qp_hint> {
  mrc_qp_hint(mrc_context& mrc, const mrc_qp_hint_attr& wanted)
      : parent(mrc), attributes_(wanted) {}

  void give(mrc_verbs::MrcTransport& transport);
  void take_back(mrc_verbs::MrcTransport& transport);
  /// Changes it, and what the queue pairs have.
  void change(const mrc_qp_hint_attr& wanted);
  [[nodiscard]] mrc_qp_hint_attr query();
  [[nodiscard]] bool in_use();

  mrc_context& parent;

 private:
  std::mutex mutex_;
  mrc_qp_hint_attr attributes_;
  std::set<mrc_verbs::MrcTransport*> users_;
};

struct mrc_qp final : mrc_verbs::Qp, mrc_verbs::Lasting<mrc_qp> {
  /// Throws mrc::Error. Writes to `wanted` what was granted.
  mrc_qp(mrc_context& mrc, mrc_verbs::Pd& pd, ibv_qp_init_attr_ex& wanted);
  ~mrc_qp();

  /// As mrc_modify_qp(), whose pointers are not null where their mask is not 0. Throws mrc::Error.
  void modify(const ibv_qp_attr& verbs, int verbs_mask, const mrc_qp_attr& own, int own_mask);
  /// As mrc_query_qp(), the part that is MRC's.
  void query_mrc(mrc_qp_attr& out);

  mrc_context& parent;

 private:
  [[nodiscard]] mrc_verbs::MrcTransport& mrc_transport() noexcept {
    return static_cast<mrc_verbs::MrcTransport&>(own_transport());
  }
  [[nodiscard]] ibv_qp_attr adapted(const ibv_qp_attr& given, int mask);
  void set_hint(mrc_qp_hint* wanted);

  mrc_qp_hint* hint_ = nullptr;  ///< under modify_lock()
  std::uint32_t cap_ = 0;        ///< as given; the same
};

namespace mrc_verbs {

/// Which objects of MRC exist, so that calls with another pointer, of an object that was destroyed
/// with its context, say, are refused. Calls on the data path do not look here: Lasting tells them.
class MrcObjects {
 public:
  static MrcObjects& all();

  template <class Object>
  Object* add(std::unique_ptr<Object> made, mrc_context* parent) {
    const std::lock_guard lock(mutex_);
    (set<Object>())[made.get()] = parent;
    return made.release();
  }
  /// Throws mrc::Error (EINVAL, or EIO in a child of fork()) if there is none.
  template <class Object>
  Object& at(Object* object) {
    const std::lock_guard lock(mutex_);
    return find(object);
  }
  /// Takes it out, so that nobody else finds it, and ends what waits for events of it; the caller
  /// destroys it.
  template <class Object>
  std::unique_ptr<Object> remove(Object& object) {
    {
      const std::lock_guard lock(mutex_);
      set<Object>().erase(&object);
    }
    if constexpr (requires { object.waiters; }) {
      end_wait();
      object.end_waits();
      object.waiters.await_none();
    }
    return std::unique_ptr<Object>(&object);
  }
  /// This thread is about to wait for events of the object: remove() does not return before
  /// end_wait(). Throws as at(). Neither is inlined in what waits (Doorbell::wait()).
  template <class Object>
  [[gnu::noinline]] Object& begin_wait(Object* object) {
    const std::lock_guard lock(mutex_);
    Object& there = find(object);
    end_wait();
    there.waiters.enter();
    place().waiters = &there.waiters;
    return there;
  }
  /// Nothing if it waits for nothing. One that was cancelled in its wait, and goes on to destroy
  /// objects or to wait in its clean-up, ends that wait first.
  [[gnu::noinline]] static void end_wait() noexcept {
    if (Waiters* const waiters = std::exchange(place().waiters, nullptr)) waiters->leave();
  }
  template <class Object>
  [[nodiscard]] std::vector<Object*> of(const mrc_context& parent) {
    const std::lock_guard lock(mutex_);
    std::vector<Object*> found;
    for (const auto& [object, owner] : set<Object>())
      if (owner == &parent) found.push_back(object);
    return found;
  }
  template <class Object>
  [[nodiscard]] std::size_t count() {
    const std::lock_guard lock(mutex_);
    return set<Object>().size();
  }

 private:
  MrcObjects();
  /// Where a thread waits. One that is cancelled there leaves when it ends: its stack is unwound by
  /// the system's runtime, with which destructors compiled for this library's own do not work.
  struct Place {
    ~Place() { end_wait(); }
    Waiters* waiters = nullptr;
  };
  [[nodiscard]] static Place& place() noexcept {
    thread_local Place mine;
    return mine;
  }
  /// Under the lock.
  template <class Object>
  Object& find(Object* object) {
    if (!set<Object>().contains(object)) fail(EINVAL, kNoObject);
    if (const Trouble trouble = trouble_with(object)) fail(trouble.error, trouble.why);
    return *object;
  }
  template <class Object>
  using Set = std::map<Object*, mrc_context*>;
  template <class Object>
  Set<Object>& set() {
    return std::get<Set<Object>>(sets_);
  }

  std::mutex mutex_;
  std::tuple<Set<mrc_context>, Set<mrc_comp_channel>, Set<mrc_cq>, Set<mrc_qp_hint>, Set<mrc_qp>>
      sets_;
};

/// Of a call that takes no lock: 0; or an errno value, which is reported and set, if the object is
/// NULL, was destroyed, or is the parent's.
template <class Object>
[[nodiscard]] int unusable(const char* call, const Object* object) noexcept {
  const Trouble trouble = object == nullptr ? Trouble{EINVAL, "NULL"} : trouble_with(object);
  return trouble ? refuse(trouble.error, call, trouble.why) : 0;
}

/// For calls that return 0, or -1 with errno set: `act` returns nothing, and throws what went
/// wrong. Not inlined: some of them go on to wait (Doorbell::wait()).
template <class Act>
[[gnu::noinline]] int minus_one_of(const char* call, Act&& act) noexcept {
  return status_of(call, [&] { return act(), 0; }) == 0 ? 0 : -1;
}

/// For those that return 0 or an errno value, the same.
template <class Act>
int error_of(const char* call, Act&& act) noexcept {
  return status_of(call, [&] { return act(), 0; });
}

/// The most writes with immediate that a queue pair has open, either way.
inline constexpr std::uint16_t kMaxWimm = 32768;

[[nodiscard]] bool all_zeros(std::span<const std::uint8_t> bytes);
/// Throws mrc::Error (ENOTSUP) if a byte is not 0.
void check_vendor_cfg(std::span<const std::uint8_t> bytes);

/// What a pointer that may not be null points to. Throws mrc::Error (EINVAL) that names it.
template <class T>
T& given(T* pointer, const char* name) {
  if (pointer == nullptr) fail(EINVAL, std::string(name) + " is NULL");
  return *pointer;
}

/// An object of that context, which others go with. Throws mrc::Error (EINVAL).
template <class Object>
Object& known_in(const mrc_context& context, Object* object, const char* name) {
  Object& there = MrcObjects::all().at(&given(object, name));
  if (&there.parent != &context) fail(EINVAL, std::string(name) + " belongs to another context");
  return there;
}

}  // namespace mrc_verbs
