// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "mrc/plane/packet/frame_channel.hpp"
#include "mrc/plane/packet/verbs_name.hpp"

namespace mrc::inline v0_1::port {

/// What open_verbs_frames() needs to know. A plain value.
struct VerbsFramesOptions {
  VerbsPlaneName device;            ///< and its port, 1 on; `address` is not used
  bool encapsulated = true;         ///< MRC packets come as IPv6 in IPv6, or with an SRH
  std::uint16_t udp_port = 4791;    ///< without encapsulation: of MRC packets
  std::uint32_t send_depth = 256;   ///< frames that wait in the device, 64 on
  std::uint32_t receive_bytes = 0;  ///< receive buffers in all; at least 64 frames are made
};

/// Raw-packet mode: frames through a raw-packet queue pair (IBV_QPT_RAW_PACKET) of the NIC, past
/// the kernel. A frame is copied into a registered ring, since the processor reads all of its
/// payload anyway, for the iCRC. A burst is one doorbell for up to 32 frames, with one completion.
///
/// The NIC is told to send MRC packets to this queue pair, by rules for the interface's Ethernet
/// address: IPv6 that holds IPv6 or a routing header, or, without encapsulation, UDP to the given
/// port. The kernel keeps everything else. So one process per port of a NIC can do this.
///
/// Needs CAP_NET_RAW. A device that is removed, or a queue pair that fails, is opened again by
/// attach().
///
/// Opens the device. Throws mrc::Error that names the device and the remedy; `unsupported` if it
/// has no raw-packet queue pairs, as Soft-RoCE. The unit that defines it needs the headers of
/// libibverbs.
[[nodiscard]] std::unique_ptr<FrameChannel> open_verbs_frames(const VerbsFramesOptions& options);

/// The type of open_verbs_frames().
using OpenVerbsFrames = std::unique_ptr<FrameChannel> (*)(const VerbsFramesOptions&);
/// open_verbs_frames() if the program has planes on RDMA devices (host/modules.inl), else null.
extern std::atomic<OpenVerbsFrames> verbs_frames;

}  // namespace mrc::inline v0_1::port
