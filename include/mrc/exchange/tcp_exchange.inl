// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>

#include "mrc/core/error.hpp"
#include "mrc/core/value_text.hpp"
#include "mrc/exchange/tcp_exchange.hpp"
#include "mrc/exchange/tcp_socket.inl"

namespace mrc::inline v0_1 {

TcpChannel TcpChannel::connect(const std::string& host, std::uint16_t port, Duration timeout,
                               const std::atomic<bool>* cancel) {
  return {detail::tcp_connect(host, port, {timeout, cancel}),
          "'" + host + "' port " + std::to_string(port), cancel};
}

void TcpChannel::send(Bytes message, Duration timeout) {
  if (message.size() > kMaxMessageBytes)
    throw Error(Errc::too_long, "message of " + std::to_string(message.size()) + " bytes to " +
                                    peer_ + "; the limit is 16 MiB");
  const detail::TcpWait wait{timeout, cancel_};
  std::vector<std::uint8_t> frame;
  frame.reserve(kHead + message.size());
  ByteWriter(frame).u32(message.size()).bytes(message);
  try {
    detail::tcp_send(socket_, frame, wait, peer_);
  } catch (...) {
    // A part of the frame may be out, so no other can follow it: tell the peer.
    detail::tcp_end_sending(socket_);
    throw;
  }
}

void TcpChannel::send_text(std::string_view text, Duration timeout) {
  send({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}, timeout);
}

std::vector<std::uint8_t> TcpChannel::receive(Duration timeout) {
  const detail::TcpWait wait{timeout, cancel_};
  std::optional<std::vector<std::uint8_t>> message;
  while (!(message = try_receive()))
    detail::tcp_wait_readable(socket_, wait, "a message from " + peer_);
  return std::move(*message);
}

std::string TcpChannel::receive_text(Duration timeout) {
  const auto bytes = receive(timeout);
  return {bytes.begin(), bytes.end()};
}

std::optional<std::vector<std::uint8_t>> TcpChannel::try_receive() {
  // The inbox grows as bytes arrive: the length field alone allocates nothing.
  std::array<std::uint8_t, kChunk> chunk;
  while (inbox_.size() < wanted()) {
    const std::size_t room = std::min(wanted() - inbox_.size(), kChunk);
    const auto got = detail::tcp_read(socket_, MutableBytes(chunk).first(room), peer_);
    if (got == 0) return std::nullopt;
    inbox_.insert(inbox_.end(), chunk.data(), chunk.data() + got);
  }
  std::vector<std::uint8_t> message(inbox_.begin() + kHead, inbox_.end());
  inbox_.clear();
  return message;
}

bool TcpChannel::peer_closed() const noexcept {
  return inbox_.empty() && detail::tcp_closed(socket_);
}

std::size_t TcpChannel::wanted() const {
  if (inbox_.size() < kHead) return kHead;
  const std::size_t size = ByteReader(inbox_).u32();
  if (size > limit_)
    throw Error(Errc::bad_message, "message of " + std::to_string(size) + " bytes from " + peer_ +
                                       "; the limit is " + std::to_string(limit_) +
                                       ": is it a program of this kind?");
  return kHead + size;
}

TcpListener::TcpListener(std::uint16_t port, const std::string& bind,
                         const std::atomic<bool>* cancel)
    : socket_(detail::tcp_listen(port, bind)),
      port_(detail::tcp_local_port(socket_)),
      cancel_(cancel) {}

TcpChannel TcpListener::accept(Duration timeout) {
  const detail::TcpWait wait{timeout, cancel_};
  std::string peer;
  detail::Socket socket;
  while (!(socket = detail::tcp_accept(socket_, peer)).open())
    detail::tcp_wait_readable(socket_, wait, "a connection on port " + std::to_string(port_));
  return {std::move(socket), std::move(peer), cancel_};
}

ConnectionInfo exchange(TcpChannel& channel, const ConnectionInfo& mine, Duration timeout) {
  channel.send(encode(mine), timeout);
  return decode_connection_info(channel.receive(timeout));
}

}  // namespace mrc::inline v0_1
