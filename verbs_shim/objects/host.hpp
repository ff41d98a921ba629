// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/settings.hpp"

namespace mrc_verbs {

class Context;
class Cq;
class Qp;
class Srq;

/// Which ports the events of a context are about: the one of verbs, or a port for each plane, as
/// MRC counts them.
enum class Ports : std::uint8_t { one, planes };

/// The OpenMRC device of this process, which all contexts share: so the process takes one slot of
/// the host, and queue pairs of two contexts reach each other. Knows the verbs objects by the
/// numbers that the device uses. Any thread.
class Host {
 public:
  /// The device that is open in this process, or a new one. Throws mrc::Error that names what is
  /// missing. After fork() the child gets one of its own.
  static std::shared_ptr<Host> open();
  explicit Host(Settings settings);
  /// The device that is open in this process, or null.
  static std::shared_ptr<Host> current();

  [[nodiscard]] mrc::Device& device() noexcept { return device_; }
  [[nodiscard]] const mrc::Device& device() const noexcept { return device_; }
  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  /// The host's address, as RoCEv2 GID.
  [[nodiscard]] ibv_gid gid() const noexcept;
  /// Made of the address of plane 0, so it is the same in all processes of the host, and differs
  /// elsewhere.
  [[nodiscard]] __be64 guid() const noexcept { return guid_of(first_plane_); }
  [[nodiscard]] static __be64 guid_of(const mrc::port::IpAddress& first_plane) noexcept;
  /// The folder in sysfs of the device that has this address; empty if it can't be found.
  [[nodiscard]] static std::string device_folder(const mrc::port::IpAddress& address);
  /// The address of plane 0, of the open device or of one that would be opened: none is. Throws
  /// mrc::Error.
  [[nodiscard]] static mrc::port::IpAddress first_plane();
  /// Largest MTU of verbs that fits into the device's packets.
  [[nodiscard]] ibv_mtu active_mtu() const noexcept { return active_mtu_; }
  /// Whether a connection that exists has received anything: somebody may wait for its answer.
  [[nodiscard]] bool anything_received();
  /// Whether any plane can be used now.
  [[nodiscard]] bool port_up() const;
  /// Whether this plane can be used now.
  [[nodiscard]] bool plane_up(unsigned plane) const;

  void add(Context& context);
  /// Whether it was the last one.
  bool remove(Context& context);
  void add(Cq& cq, mrc::CqId id);
  void remove(mrc::CqId id);
  void add(Srq& srq, mrc::SrqId id);
  void remove(mrc::SrqId id);
  void add(Qp& qp, mrc::Qpn qpn);
  void remove(mrc::Qpn qpn);

  /// Calls `use` with the object of that number, if it exists, which meanwhile stays.
  template <class Use>
  void with_cq(mrc::CqId id, Use&& use) {
    const std::lock_guard lock(mutex_);
    if (const auto at = cqs_.find(id); at != cqs_.end()) use(*at->second);
  }
  template <class Use>
  void with_qp(std::uint32_t qpn, Use&& use) {
    const std::lock_guard lock(mutex_);
    if (const auto at = qps_.find(qpn); at != qps_.end()) use(*at->second);
  }
  template <class Use>
  void each_qp(Use&& use) {
    const std::lock_guard lock(mutex_);
    for (const auto& [qpn, qp] : qps_) use(*qp);
  }
  /// Keeps objects from being removed while it is held.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  /// Takes the device's events and gives them to the contexts whose objects they are about.
  void dispatch();

 private:
  void dispatch(const mrc::DeviceEvent& event);
  void tell(Ports ports, int port, bool up);

  Settings settings_;
  mrc::Device device_;
  mrc::port::IpAddress first_plane_{};
  ibv_mtu active_mtu_;
  std::mutex mutex_;
  bool was_up_ = true;
  std::vector<Context*> contexts_;
  std::unordered_map<mrc::CqId, Cq*> cqs_;
  std::unordered_map<mrc::SrqId, Srq*> srqs_;
  std::unordered_map<std::uint32_t, Qp*> qps_;
};

}  // namespace mrc_verbs
