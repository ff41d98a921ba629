// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/faults/lane_faults.hpp"

#include <memory>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/device.hpp"
#include "mrc/faults/injector.hpp"
#include "mrc/host/device_core.hpp"

namespace mrc::inline v0_1::detail {

/// Throws mrc::Error for faults that a device with these planes, of `paths` paths each, cannot
/// inject.
void check_faults(const OpenedPlanes& planes, std::uint16_t paths,
                  const port::FaultSchedule& schedule, const std::string& source) {
  for (const port::TargetedFault& fault : schedule.all()) {
    const auto fail = [&](Errc code, const std::string& why) {
      throw Error(code, source + "fault '" + port::to_string(fault.target) + "': " + why);
    };
    const auto& [plane, path] = fault.target;
    if (plane && *plane >= planes.count())
      fail(Errc::invalid_argument, "the device has no such plane; the last one is plane=" +
                                       std::to_string(planes.count() - 1) +
                                       " (see option 'planes' or 'fabric')");
    if (path && *path >= paths)
      fail(Errc::invalid_argument,
           "the device has no such path; the last one is path=" + std::to_string(paths - 1) +
               " (see option 'paths' or 'fabric')");
    if (fault.spec.corrupt > 0 && planes.network_namespace != 0)
      fail(Errc::unsupported,
           "the iCRC may leave out the payload of packets from this host, so damage would go "
           "unnoticed; open the device with option icrc=on");
    if (path && !port::works_outbound(fault.spec))
      fail(Errc::unsupported,
           "on a path, which is the sending side's, only loss, blackhole and down work; give the "
           "others to the whole plane");
  }
}

LaneFaults::LaneFaults(Lane& lane, port::FaultSchedule schedule)
    : planes_(lane.planes()),
      seed_(lane.plane_seed()),
      schedule_(std::move(schedule)),
      start_(monotonic_now()) {}

void LaneFaults::begin(Time now) noexcept {
  if (now < next_change_) return;
  const Duration t = now - start_;
  for (unsigned i = 0; i < planes_.count(); ++i) {
    Port& port = *planes_.ports[i];
    port::FaultInjector& faults = port::faults_of(port, seed_ + i);
    faults.clear();
    faults.set(schedule_.port_fault(t, static_cast<Plane>(i)));
    for (const port::PortPath& path : port.paths()) {
      const port::FaultSpec spec = schedule_.path_fault(t, static_cast<Plane>(i), path.port_path);
      if (spec.any()) faults.set_outbound(path.port_path, spec);
    }
  }
  const Duration next = schedule_.next_change(t);
  next_change_ = next == Duration::max() ? kNever : start_ + next;
}

void set_faults(DeviceCore& core, std::string_view text, const std::string& source) {
  const port::FaultSchedule schedule = port::FaultSchedule::parse(text);
  check_faults(core.lanes()[0].planes(), core.config().paths, schedule, source);
  for (const auto& lane : core.lanes())
    lane->start_faults(std::make_unique<LaneFaults>(*lane, schedule));
}

}  // namespace mrc::inline v0_1::detail

namespace mrc::inline v0_1 {

void Device::set_faults(std::string_view schedule) {
  detail::set_faults(detail::core_of(core_), schedule, {});
}

}  // namespace mrc::inline v0_1
