// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "mrc/api/device_config.hpp"
#include "mrc/core/linkage.hpp"
#include "mrc/plane/plane_kind.hpp"
#include "mrc/plane/verbs/verbs_frames.hpp"

#ifndef MRC_SEPARATE_COMPILATION
#include <atomic>
#endif

namespace mrc::inline v0_1::detail {

/// The opener for a configuration: of a fabric's planes if option fabric is set, of RDMA devices if
/// only option verbs is, else of UDP sockets. Throws mrc::Error; `unsupported` if the program lacks
/// that kind of planes.
[[nodiscard]] std::unique_ptr<PlaneOpener> make_opener(const Config& config);

/// port::open_verbs_frames(), for options fabric and verbs together. Throws mrc::Error;
/// `unsupported` if the program lacks planes on RDMA devices.
[[nodiscard]] std::unique_ptr<port::FrameChannel> open_frames(
    const port::VerbsFramesOptions& options, const Config& config);

#ifndef MRC_SEPARATE_COMPILATION
/// Makes the opener of a fabric's planes; null in a program none of whose units includes
/// mrc/fabric.hpp, which sets it before main(). A pointer, since most header-only programs need no
/// fabric and are spared its parser and ports. (The compiled library has all openers.)
inline constinit std::atomic<std::unique_ptr<PlaneOpener> (*)(const Config&)> fabric_opener{
    nullptr};
/// The same for planes on RDMA devices, and mrc/verbs.hpp.
inline constinit std::atomic<std::unique_ptr<PlaneOpener> (*)(const Config&)> verbs_opener{nullptr};
/// port::open_verbs_frames(), likewise.
inline constinit std::atomic<std::unique_ptr<port::FrameChannel> (*)(
    const port::VerbsFramesOptions&)>
    frames_opener{nullptr};
#endif

}  // namespace mrc::inline v0_1::detail

#ifndef MRC_SEPARATE_COMPILATION
#include "mrc/host/impl/plane_kinds.ipp"
#endif
