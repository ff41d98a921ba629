// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <termios.h>

#include <string>

#include "common/interrupt.hpp"
#include "mrc/core/types.hpp"

namespace mrc::ctl_tool {

/// Keys that are no character.
enum Key : int { kNoKey = 0, kUp = 256, kDown, kEnter, kEscape };

/// A terminal whose keys are read one by one, on a screen of its own. Elsewhere texts are printed
/// one below the other, and there are no keys.
class Screen {
 public:
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  /// Somebody can press keys.
  [[nodiscard]] bool has_keys() const { return terminal_; }
  /// Shows as much of the text as there are lines.
  void show(const std::string& text) const;
  /// Lines that show() has room for.
  [[nodiscard]] std::size_t lines() const;
  /// Waits that long, or for a key, or a signal: a character, a Key, or kNoKey.
  [[nodiscard]] int wait(const tools::HeldSignals& signals, Duration time);

 private:
  const bool terminal_;
  termios before_{};
  std::string typed_;  ///< read, and not taken yet
};

}  // namespace mrc::ctl_tool
