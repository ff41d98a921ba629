// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/libmrc/controller.hpp"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "mrc/host/host_change.hpp"
#include "mrc/host/profile_registry.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/libmrc/host_devices.hpp"
#include "verbs_shim/log.hpp"

namespace mrc_verbs {

namespace {

using mrc::detail::HostState;
using mrc::detail::ProfileRegistry;

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

/// Throws mrc::Error (EPERM) if this thread may not control the network of its namespace.
void require_net_admin() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (::syscall(SYS_capget, &header, data) == 0 &&
      (data[CAP_NET_ADMIN / 32].effective >> CAP_NET_ADMIN % 32 & 1) != 0)
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

  mrc::FormatProfileInfo format(mrc::ProfileId id) override { return registry(state()).format(id); }
  mrc::EvProfileInfo evs(mrc::ProfileId id) override {
    mrc::EvProfileInfo info = registry(state()).evs(id);
    info.queue_pairs = 1;  // of other processes, perhaps: each device knows its own
    if (info.entries.empty()) return info;
    mrc::control::Found found = host_devices(device_);
    mrc::detail::merge_states(id, info, found, kDevicePatience);
    return info;
  }
  mrc::CcProfileInfo cc(mrc::ProfileId id) override {
    mrc::CcProfileInfo info = registry(state()).cc(id);
    info.queue_pairs = 1;  // as above
    return info;
  }
  void change(mrc::ProfileId id, const mrc::FormatProfileChange& change) override {
    change_profiles([&](ProfileRegistry& profiles) { profiles.change_format(id, change); });
  }
  void change(mrc::ProfileId id, const mrc::EvProfileChange& change) override {
    std::exception_ptr error;  // operations before the one that failed are done
    change_profiles(
        [&](ProfileRegistry& profiles) { error = profiles.change_evs(id, change).error; });
    if (error) std::rethrow_exception(error);
  }
  void change(mrc::ProfileId id, const mrc::CcProfileChange& change) override {
    change_profiles([&](ProfileRegistry& profiles) { profiles.change_cc(id, change); });
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
    const mrc::ProfileLimits own = device_.profile_limits();
    mrc::ProfileLimits limits = registry(state()).limits();
    limits.formats = own.formats;
    return limits;
  }

 private:
  [[nodiscard]] HostState state() const { return mrc::detail::read_host_state(folder_); }
  /// The host's profiles, to look at and to change. Whether ports can send an EV, the devices say.
  [[nodiscard]] ProfileRegistry registry(const HostState& state) const {
    mrc::detail::ProfileSurroundings around;
    around.planes = device_.plane_count();
    around.formats = device_.profile_limits().formats;
    around.check_ev = [](mrc::path::EvMode, const mrc::detail::ExpandedEv&) {};
    ProfileRegistry registry(std::move(around));
    registry.follow(*state.profiles, [](const mrc::Error& error) {
      warn(std::string("of the profiles for this host, ") + error.what());
    });
    return registry;
  }
  void change_profiles(const std::function<void(ProfileRegistry&)>& change) const {
    change_state([&](HostState& state) {
      ProfileRegistry profiles = registry(state);
      change(profiles);
      state.profiles = std::make_shared<const mrc::detail::ProfileSet>(profiles.set());
    });
  }
  /// All or nothing over the live devices. Throws mrc::Error: that of a device that can't do it;
  /// EIO if one does not answer, which then reads the rules before it sends.
  void change_state(const std::function<void(HostState&)>& change,
                    const std::function<void(mrc::control::RemoteDevice&)>& confirmed = {}) const {
    require_net_admin();
    mrc::control::Found found = host_devices(device_);
    mrc::detail::HostStoreWriter store(folder_, kDevicePatience);
    HostState wanted = store.rules();
    change(wanted);
    mrc::detail::HostChange done;
    try {
      done = mrc::detail::change_host(store, found, wanted, kDevicePatience);
      for (const auto& [device, answer] : done.confirmed)
        if (confirmed) confirmed(*device);
    } catch (const mrc::Error& error) {
      if (error.code() == mrc::make_error_code(mrc::Errc::timed_out)) fail(EIO, error.what());
      throw;
    }
    if (done.unconfirmed.empty()) return;
    std::string who;
    for (const std::string& why : done.unconfirmed) who += (who.empty() ? "" : "; ") + why;
    fail(EIO, "it is done, but not confirmed by all: " + who +
                  "; who has not reads the rules before it sends");
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
