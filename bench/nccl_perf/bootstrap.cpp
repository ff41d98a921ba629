// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/bootstrap.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "common/interrupt.hpp"
#include "mrc/core/error.hpp"
#include "nccl_perf/failure.hpp"

namespace mrc::nccl_perf {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 20;

}  // namespace

SocketPair make_socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    throw_errno("can't make a pair of sockets");
  SocketPair pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
  const int room = 4 * static_cast<int>(kLargest);
  for (const int end : ends)  // without CAP_NET_ADMIN as much as is allowed
    if (setsockopt(end, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room) != 0)
      (void)setsockopt(end, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
  return pair;
}

bool send_message(int socket, Message kind, const std::string& text) {
  const std::string message = static_cast<char>(kind) + text;
  ssize_t sent = 0;
  do sent = send(socket, message.data(), message.size(), MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0 && errno == EMSGSIZE)
    throw Failure(
        fmt::format("bootstrap: a message of {} bytes is too large for a socket of this "
                    "machine: take fewer channels",
                    message.size()));
  return sent >= 0;
}

std::optional<Received> receive_message(int socket, bool wait) {
  const ssize_t size = recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC | (wait ? 0 : MSG_DONTWAIT));
  if (size <= 0) return std::nullopt;
  std::string message(static_cast<std::size_t>(size), '\0');
  if (recv(socket, message.data(), message.size(), 0) != size) return std::nullopt;
  return Received{static_cast<Message>(message[0]), message.substr(1)};
}

std::string join(const std::vector<std::string>& texts) {
  std::string joined;
  for (const std::string& text : texts) {
    const auto size = static_cast<std::uint32_t>(text.size());
    joined.append(reinterpret_cast<const char*>(&size), sizeof size);
    joined += text;
  }
  return joined;
}

std::vector<std::string> divide(const std::string& joined) {
  std::vector<std::string> texts;
  for (std::size_t at = 0; at + sizeof(std::uint32_t) <= joined.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, &joined[at], sizeof size);
    texts.push_back(joined.substr(at + sizeof size, size));
    at += sizeof size + size;
  }
  return texts;
}

void Bootstrap::look() const {
  if (tools::g_interrupted) throw Interrupted();
  const auto message = receive_message(socket_.fd(), false);
  if (message && message->kind == Message::gone)
    throw Failure(fmt::format("bootstrap: rank {} is gone", message->text));
}

std::vector<std::string> Bootstrap::exchange(const std::string& own) {
  const tools::HeldSignals held;
  send_message(socket_.fd(), Message::exchange, own);
  pollfd answer{socket_.fd(), POLLIN, 0};
  while (!tools::g_interrupted) {
    answer.revents = 0;
    held.sleep({&answer, 1}, nullptr);
    if (answer.revents == 0) continue;
    const auto message = receive_message(socket_.fd(), true);
    if (!message) throw Failure("bootstrap: the launcher is gone");
    if (message->kind == Message::gone)
      throw Failure(fmt::format("bootstrap: rank {} is gone", message->text));
    return divide(message->text);
  }
  throw Interrupted();
}

}  // namespace mrc::nccl_perf
