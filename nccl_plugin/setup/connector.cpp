// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/connector.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "mrc/config.hpp"
#include "mrc/net/interface.hpp"
#include "nccl_plugin/data/sender.hpp"
#include "nccl_plugin/result.hpp"

namespace mrc_nccl {

namespace {

// A listener exists before its handle travels, so a port that refuses belongs to a process that is
// gone; once more, since the host may be short of resources.
constexpr mrc::Duration kRefused = std::chrono::seconds(1);
// No answer at all, of the host or of the process: the kernel's own patience is two minutes.
constexpr mrc::Duration kSilent = std::chrono::seconds(20);
constexpr mrc::Duration kAgain = std::chrono::milliseconds(100);

}  // namespace

Connector::Connector(std::shared_ptr<Nic> nic, std::shared_ptr<Context> context,
                     const Handle& handle)
    : nic_(std::move(nic)),
      context_(std::move(context)),
      handle_(handle),
      asked_(mrc::monotonic_now()),
      began_(asked_),
      refused_(mrc::kNever),
      greeted_(mrc::kNever) {
  begin();
}

std::string Connector::where() const {
  std::string text;
  for (unsigned i = 0; i < handle_.addresses; ++i)
    text += (i == 0 ? "" : ", ") + mrc::port::format_address({handle_.ip[i], handle_.port});
  return text;
}

void Connector::begin() {
  tries_.clear();
  began_ = mrc::monotonic_now();
  const mrc::AllowedPeers allowed(nic_->device().config().peers_allowed);
  for (unsigned i = 0; i < handle_.addresses; ++i) {
    if (!allowed.contains(handle_.ip[i])) {
      last_error_ = "option peers_allowed leaves " + mrc::port::format_ip(handle_.ip[i]) + " out";
      continue;
    }
    Socket socket = begin_connect(handle_.ip[i], handle_.port);
    if (socket.open())
      tries_.push_back({handle_.ip[i], std::move(socket)});
    else
      last_error_ = std::system_category().message(errno);
  }
}

/// Looks at the addresses that are being tried.
void Connector::look() {
  for (auto attempt = tries_.begin(); attempt != tries_.end();) {
    const auto result = mrc::port::connect_result(attempt->socket.owned());
    if (result == 0) {
      greet(*attempt);
      tries_.erase(attempt);
      return;
    }
    if (!result) {
      ++attempt;
      continue;
    }
    last_error_ = std::system_category().message(*result);
    attempt = tries_.erase(attempt);
  }
  const mrc::Time now = mrc::monotonic_now();
  if (!tries_.empty()) {
    if (now - began_ > kSilent)
      throw Failure(Result::remote_error, "no answer from a listener at " + where());
    return;
  }
  if (refused_ == mrc::kNever) refused_ = now;
  if (now - refused_ > kRefused)
    throw Failure(Result::remote_error, "cannot connect to a listener at " + where() + ": " +
                                            last_error_ + "; has its process ended?");
  if (now - began_ > kAgain) begin();
}

void Connector::greet(Try& connected) {
  refused_ = mrc::kNever;
  greeted_ = std::min(greeted_, mrc::monotonic_now());
  endpoint_ = std::make_unique<Endpoint>(nic_, Role::sender);
  endpoint_->channel =
      Channel(std::move(connected.socket), mrc::port::format_address({connected.ip, handle_.port}),
              handle_.secret, Channel::Side::connects);
  endpoint_->channel.send(encode_hello(endpoint_->greeting()));
}

/// There is no answer yet to the greeting.
void Connector::wait_on() {
  const std::string peer = endpoint_->channel.peer();
  const bool closed = endpoint_->channel.state() != Channel::State::open;
  if (mrc::monotonic_now() - greeted_ > kSilent)
    throw Failure(Result::remote_error,
                  "the listener at " + peer +
                      (closed ? " closes every connection" : " has taken the connection") +
                      " and has not answered for 20 s; is its process stopped, or busy elsewhere?");
  if (!closed) return;
  // Flooded, ended, or an address that other hosts have, too: then a port that refuses, or another
  // address, will tell.
  last_error_ = "the connection was closed";
  endpoint_.reset();
}

std::unique_ptr<Sender> Connector::proceed() {
  asked_ = mrc::monotonic_now();
  if (!endpoint_) look();
  if (!endpoint_) return nullptr;
  Channel& channel = endpoint_->channel;
  const auto bytes = channel.receive();
  if (!bytes) {
    wait_on();
    return nullptr;
  }
  const Message message = decode_message(*bytes);
  if (message.type == MessageType::refusal)
    throw Failure(Result::system_error,
                  "the listener at " + channel.peer() + " refuses: " + message.text);
  if (message.type != MessageType::answer)
    throw Failure(Result::remote_error, "unexpected message from " + channel.peer());
  tries_.clear();
  endpoint_->connect(message.greeting, context_->log());
  channel.send(encode_ready());
  return std::make_unique<Sender>(std::move(endpoint_), context_);
}

}  // namespace mrc_nccl
