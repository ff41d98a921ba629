// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/libmrc/controller.hpp"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/nsfs.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mrc/control/host_store.hpp"
#include "mrc/control/profiles.hpp"
#include "mrc/core/system.hpp"
#include "mrc/core/unique_fd.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/libmrc/host_devices.hpp"

namespace mrc_verbs {

namespace {

using mrc::detail::HostState;
using mrc::detail::ProfileRegistry;
using mrc::detail::ProfileSet;

/// The device of this process.
class ProcessController final : public Controller {
 public:
  explicit ProcessController(mrc::Device& device) : device_(device) {}

  mrc::FormatProfileInfo format(mrc::ProfileId id) override {
    return device_.query_format_profile(id);
  }
  mrc::EvProfileInfo evs(mrc::ProfileId id) override { return device_.query_ev_profile(id); }
  mrc::CcProfileInfo cc(mrc::ProfileId id) override { return device_.query_cc_profile(id); }
  void change(mrc::ProfileId id, const mrc::FormatProfileChange& change) override {
    device_.modify_format_profile(id, change);
  }
  void change(mrc::ProfileId id, const mrc::EvProfileChange& change) override {
    device_.modify_ev_profile(id, change);
  }
  void change(mrc::ProfileId id, const mrc::CcProfileChange& change) override {
    device_.modify_cc_profile(id, change);
  }
  void set_plane_enabled(unsigned plane, bool enabled) override {
    device_.set_plane_enabled(plane, enabled);
  }
  mrc::ProfileLimits limits() override { return device_.profile_limits(); }

 private:
  mrc::Device& device_;
};

/// Whether this thread is in a user namespace below the one that its network belongs to: then its
/// capabilities don't count there.
bool is_guest_of_its_network() {
  const mrc::UniqueFd network(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  if (!network.open()) return false;
  const mrc::UniqueFd owner(::ioctl(network.fd(), NS_GET_USERNS));
  return !owner.open() && errno == EPERM;
}

/// Throws mrc::Error (EPERM) if this thread may not control the network of its namespace.
void require_net_admin() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) == 0 &&
      (data[CAP_NET_ADMIN / 32].effective >> CAP_NET_ADMIN % 32 & 1) != 0 &&
      !is_guest_of_its_network())
    return;
  fail(EPERM,
       "it changes what holds for all devices of this host, which needs CAP_NET_ADMIN; "
       "MRC_VERBS_CONTROLLER=process makes it act on this process alone");
}

/// All devices of the host.
class HostController final : public Controller {
 public:
  explicit HostController(mrc::Device& device)
      : device_(device), folder_(mrc::detail::store_folder(device.config().control)) {
    (void)device_.profile_limits();  // fails in a forked child, whose device it is not
  }

  mrc::FormatProfileInfo format(mrc::ProfileId id) override {
    const ProfileSet::Format is = find(profiles()->formats, id);
    return {is.state, is.mode, is.fields.value_or(std::vector<mrc::path::FormatField>())};
  }
  mrc::EvProfileInfo evs(mrc::ProfileId id) override {
    const ProfileSet::Evs is = find(profiles()->evs, id);
    mrc::EvProfileInfo info{is.state,      is.mode,       is.format, is.ev_count.value_or(0),
                            is.min_active, is.event_mask, is.fields, {},
                            kPerhaps};
    for (const ProfileSet::Entry& entry : is.entries)
      info.entries.push_back(
          {entry.ev, entry.denied ? mrc::EvState::denied : mrc::EvState::good, 0, 0});
    const mrc::BlockedSignals blocked;  // they would end waits for other processes
    if (!info.entries.empty()) mrc::detail::merge_states(id, info, host_search(device_));
    return info;
  }
  mrc::CcProfileInfo cc(mrc::ProfileId id) override {
    const ProfileSet::Cc is = find(profiles()->ccs, id);
    return {is.state, is.algorithm, is.config, kPerhaps};
  }
  void change(mrc::ProfileId id, const mrc::FormatProfileChange& change) override {
    change_profile(&ProfileSet::formats, id,
                   [&](ProfileRegistry& profiles) { profiles.change_format(id, change); });
  }
  void change(mrc::ProfileId id, const mrc::EvProfileChange& change) override {
    std::exception_ptr error;  // operations before the one that failed are done
    change_profile(&ProfileSet::evs, id, [&](ProfileRegistry& profiles) {
      error = profiles.change_evs(id, change).error;
    });
    if (error) std::rethrow_exception(error);
  }
  void change(mrc::ProfileId id, const mrc::CcProfileChange& change) override {
    change_profile(&ProfileSet::ccs, id,
                   [&](ProfileRegistry& profiles) { profiles.change_cc(id, change); });
  }
  void set_plane_enabled(unsigned plane, bool enabled) override {
    const mrc::PlaneMask bit = mrc::plane_bit(static_cast<mrc::Plane>(plane));
    change_state(
        [&](HostState& state) {
          mrc::PlaneMask& down = state.steering.planes_down;
          down = enabled ? down & ~bit : down | bit;
        },
        [&](mrc::control::RemoteDevice& device) {  // whatever was said to it alone
          if (enabled && device.hello().value("planes", 0u) > plane)
            (void)device.request({{"request", "plane"}, {"plane", plane}, {"enabled", true}},
                                 kDevicePatience);
        });
  }
  mrc::ProfileLimits limits() override {
    mrc::ProfileLimits limits = device_.profile_limits();
    limits.free_evs = limits.max_evs;
    const auto known = profiles();
    for (const auto& [id, evs] : known->evs)
      limits.free_evs -=
          static_cast<std::uint32_t>(std::min<std::size_t>(limits.free_evs, evs.entries.size()));
    return limits;
  }

 private:
  /// Queue pairs that use a profile, as far as this process knows: each device knows its own.
  static constexpr std::uint32_t kPerhaps = 1;

  [[nodiscard]] std::shared_ptr<const ProfileSet> profiles() const {
    return mrc::detail::read_host_state(folder_).profiles;
  }
  /// What is known of a profile; one in INIT if it is not there.
  template <class Profile>
  [[nodiscard]] static Profile find(const std::map<mrc::ProfileId, Profile>& all,
                                    mrc::ProfileId id) {
    const auto at = all.find(id);
    return at == all.end() ? Profile{} : at->second;
  }
  /// Does `change` to a copy of the host's profiles as this device sees them, and takes that one
  /// profile from it.
  template <class Profile>
  void change_profile(std::map<mrc::ProfileId, Profile> ProfileSet::*kind, mrc::ProfileId id,
                      const std::function<void(ProfileRegistry&)>& change) const {
    change_state([&](HostState& state) {
      mrc::detail::ProfileSurroundings around;
      around.planes = device_.plane_count();
      around.formats = device_.profile_limits().formats;
      // Whether ports can send an EV, the devices say.
      around.check_ev = [](mrc::path::EvMode, const mrc::detail::ExpandedEv&) {};
      ProfileRegistry all(std::move(around));
      ProfileSet set = *state.profiles;
      all.follow(set, [](const ProfileRegistry::Failure&) {});
      if ((set.*kind).contains(id) && !(all.set().*kind).contains(id))
        fail(EOPNOTSUPP, "the host's profile " + std::to_string(id) +
                             " is for devices with other planes than this process has");
      change(all);
      const ProfileSet changed = all.set();
      (set.*kind).erase(id);
      if (const auto at = (changed.*kind).find(id); at != (changed.*kind).end())
        (set.*kind).insert(*at);
      state.profiles = std::make_shared<const ProfileSet>(std::move(set));
    });
  }
  /// All or nothing over the live devices. Throws mrc::Error: that of a device that can't do it;
  /// EIO if one does not answer, which then reads the rules once it runs.
  void change_state(const std::function<void(HostState&)>& change,
                    const std::function<void(mrc::control::RemoteDevice&)>& confirmed = {}) const {
    require_net_admin();
    const mrc::BlockedSignals blocked;  // they would end waits for other processes
    std::vector<std::string> unconfirmed;
    bool asking = false;
    try {
      mrc::detail::HostStoreWriter store(folder_, kDevicePatience);
      HostState wanted = store.rules();
      change(wanted);
      asking = true;
      mrc::detail::HostChange done = mrc::detail::change_host(store, wanted, host_search(device_));
      unconfirmed = std::move(done.unconfirmed);
      const auto thrown = mrc::control::all_at_once(done.confirmed.size(), [&](std::size_t i) {
        if (confirmed) confirmed(*done.confirmed[i].first);
      });
      for (std::size_t i = 0; i < thrown.size(); ++i) {
        const mrc::control::RemoteDevice& device = *done.confirmed[i].first;
        if (thrown[i] && mrc::control::is_trusted_user(device.user()))
          unconfirmed.push_back(mrc::control::problem_with(device, thrown[i]));
      }
    } catch (const mrc::Error& error) {
      using mrc::Errc;
      const auto is = [&error](Errc code) { return error.code() == mrc::make_error_code(code); };
      if (is(Errc::access_denied) && !asking) fail(EPERM, mrc::detail::words_of(error));
      if (is(Errc::timed_out) || is(Errc::bad_message) || (is(Errc::access_denied) && asking))
        fail(EIO, mrc::detail::words_of(error));
      throw;
    }
    if (unconfirmed.empty()) return;
    std::string who;
    for (const std::string& why : unconfirmed) who += (who.empty() ? "" : "; ") + why;
    fail(EIO, "it is done, but not confirmed by all: " + who +
                  "; who has not reads the rules once it runs");
  }

  mrc::Device& device_;
  const std::string folder_;
};

}  // namespace

bool controls_host(const Host& host) {
  return !host.settings().controls_process && host.device().config().control != "off";
}

std::unique_ptr<Controller> controller_of(Host& host) {
  if (controls_host(host)) return std::make_unique<HostController>(host.device());
  return std::make_unique<ProcessController>(host.device());
}

}  // namespace mrc_verbs
