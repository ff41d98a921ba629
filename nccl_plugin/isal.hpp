// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace mrc_nccl {

/// Opens ISA-L, which computes the iCRC, if this machine has it: the plugin is one file that must
/// load without it. False if there is none; then the portable code is used, which is several times
/// slower. Any thread.
bool load_isal() noexcept;

}  // namespace mrc_nccl
