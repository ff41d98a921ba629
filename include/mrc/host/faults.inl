// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/host/faults.hpp"
#include "mrc/plane/fault.hpp"

namespace mrc::inline v0_1::detail {

port::FaultSchedule Faults::parse(std::string_view text, const std::string& source) const {
  port::FaultSchedule parsed = port::FaultSchedule::parse(text);
  check(parsed, source);
  return parsed;
}

void Faults::check(const port::FaultSchedule& schedule, const std::string& source) const {
  for (const port::TargetedFault& fault : schedule.all()) {
    const auto fail = [&](Errc code, const std::string& why) {
      throw Error(code, source + "fault '" + port::to_string(fault.target) + "': " + why);
    };
    const auto& [plane, path] = fault.target;
    if (plane && *plane >= planes_.count())
      fail(Errc::invalid_argument, "the device has no such plane; the last one is plane=" +
                                       std::to_string(planes_.count() - 1) +
                                       " (see option 'planes' or 'fabric')");
    if (path && *path >= paths_)
      fail(Errc::invalid_argument,
           "the device has no such path; the last one is path=" + std::to_string(paths_ - 1) +
               " (see option 'paths' or 'fabric')");
    if (fault.spec.corrupt > 0 && planes_.network_namespace != 0)
      fail(Errc::unsupported,
           "the iCRC may leave out the payload of packets from this host, so damage would go "
           "unnoticed; open the device with option icrc=on");
    if (path && !port::works_outbound(fault.spec))
      fail(Errc::unsupported,
           "on a path, which is the sending side's, only loss, blackhole and down work; give the "
           "others to the whole plane");
  }
}

void Faults::start(port::FaultSchedule schedule, Time now) noexcept {
  schedule_ = std::move(schedule);
  start_ = now;
  apply(now);
}

void Faults::apply(Time now) noexcept {
  const Duration t = now - start_;
  for (unsigned i = 0; i < planes_.count(); ++i) {
    Port& port = *planes_.ports[i];
    port.clear_faults();
    port.set_fault(schedule_.port_fault(t, static_cast<Plane>(i)));
    for (const port::PortPath& path : port.paths()) {
      const port::FaultSpec spec = schedule_.path_fault(t, static_cast<Plane>(i), path.port_path);
      if (spec.any()) port.set_path_fault(path.port_path, spec);
    }
  }
  const Duration next = schedule_.next_change(t);
  next_change_ = next == Duration::max() ? kNever : start_ + next;
}

}  // namespace mrc::inline v0_1::detail
