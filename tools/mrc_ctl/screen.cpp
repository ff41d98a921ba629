// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/screen.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "common/terminal.hpp"

namespace mrc::ctl_tool {

Screen::Screen() : terminal_(::isatty(STDOUT_FILENO) != 0 && ::isatty(STDIN_FILENO) != 0) {
  if (!terminal_ || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  (void)::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  fmt::print("\x1b[?1049h\x1b[?25l");
}

Screen::~Screen() {
  if (!terminal_) return;
  fmt::print("\x1b[?25h\x1b[?1049l");
  std::fflush(stdout);
  (void)::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

std::size_t Screen::lines() const {
  winsize window{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 1;
  return known ? window.ws_row - 1u : 23;
}

void Screen::show(const std::string& text) const {
  if (!terminal_) {
    fmt::print("{}\n", text);
  } else {
    std::string screen = "\x1b[H";
    std::size_t shown = 0;
    for (std::size_t at = 0; at < text.size() && shown < lines(); ++shown) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      screen += text.substr(at, std::min(end - at, tools::output_width())) + "\x1b[K\n";
      at = end + 1;
    }
    fmt::print("{}\x1b[J", screen);
  }
  std::fflush(stdout);
}

int Screen::wait(const tools::HeldSignals& signals, Duration time) {
  if (typed_.empty()) {
    pollfd key{terminal_ ? STDIN_FILENO : -1, POLLIN, 0};
    const timespec limit{time.count() / 1'000'000'000, time.count() % 1'000'000'000};
    signals.sleep({&key, 1}, &limit);
    std::array<char, 64> read;
    const ssize_t n = key.revents != 0 ? ::read(STDIN_FILENO, read.data(), read.size()) : 0;
    if (n <= 0) return key.revents != 0 ? int{'q'} : int{kNoKey};  // the terminal is gone
    typed_.assign(read.data(), static_cast<std::size_t>(n));
  }
  // Keys without a character are sequences, which come as a whole.
  for (const auto& [sequence, key] : {std::pair("\x1b[A", kUp), std::pair("\x1b[B", kDown),
                                      std::pair("\x1bOA", kUp), std::pair("\x1bOB", kDown)})
    if (typed_.starts_with(sequence)) {
      typed_.erase(0, 3);
      return key;
    }
  const char c = typed_.front();
  typed_.erase(0, c == '\x1b' && typed_.size() > 1 ? std::string::npos : 1);
  if (c == '\x1b') return kEscape;
  if (c == '\n' || c == '\r') return kEnter;
  return static_cast<unsigned char>(c);
}

}  // namespace mrc::ctl_tool
