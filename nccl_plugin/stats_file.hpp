// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace mrc_nccl {

/// The file that NCCL_MRC_STATS names: %h and %p stand for host name and process id.
[[nodiscard]] std::string stats_file_name(const std::string& pattern);

/// Opens that file as it will be written at the end, and leaves no trace. Throws SettingsError if
/// it can't be written. An empty pattern names no file.
void require_writable_stats(const std::string& pattern);

/// Writes the text to that file, whatever was there. Returns 0, or an errno value.
[[nodiscard]] int write_stats(const std::string& name, const std::string& text) noexcept;

}  // namespace mrc_nccl
