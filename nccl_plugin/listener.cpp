// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/listener.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "mrc/port/socket_interface.hpp"
#include "nccl_plugin/receiver.hpp"
#include "nccl_plugin/result.hpp"

namespace mrc_nccl {

namespace {

// Strangers may hold this many places, for this long.
constexpr std::size_t kMostGuests = 256;
constexpr mrc::Duration kPatience = std::chrono::seconds(30);

// A handle has room for a few: those of planes spread over all of them, so that one that is down
// does not matter, and the one that reaches the Internet.
std::vector<mrc::port::IpAddress> contact_addresses(const Nic& nic) {
  std::vector<mrc::port::IpAddress> chosen;
  const auto add = [&](const mrc::port::IpAddress& ip) {
    if (chosen.size() < Handle::kMostAddresses &&
        std::find(chosen.begin(), chosen.end(), ip) == chosen.end())
      chosen.push_back(ip);
  };
  const auto& all = nic.addresses();
  constexpr std::size_t planes = Handle::kMostAddresses - 1;
  for (std::size_t i = 0; i < std::min(planes, all.size()); ++i)
    add(all[all.size() <= planes ? i : i * all.size() / planes]);
  const auto ours = [](const mrc::port::IpAddress& ip) { return mrc::port::is_loopback(ip); };
  // A loopback address of this host means another host elsewhere.
  if (!std::any_of(chosen.begin(), chosen.end(), ours)) {
    try {
      if (const auto ip = mrc::port::default_route_address(); !ours(ip)) add(ip);
    } catch (const mrc::Error&) {  // the planes' addresses have to do
    }
  }
  return chosen;
}

std::uint64_t random_cookie() {
  std::uint64_t cookie = 0;
  if (::getrandom(&cookie, sizeof cookie, 0) != static_cast<ssize_t>(sizeof cookie))
    throw mrc::Error(std::error_code(errno, std::system_category()), "cannot get random numbers");
  return cookie;
}

}  // namespace

Listener::Listener(std::shared_ptr<Nic> nic, std::shared_ptr<Context> context)
    : nic_(std::move(nic)),
      context_(std::move(context)),
      socket_(listen_anywhere(port_)),
      cookie_(random_cookie()) {}

Handle Listener::handle() const {
  Handle handle;
  handle.port = port_;
  handle.cookie = cookie_;
  for (const auto& ip : contact_addresses(*nic_)) handle.ip[handle.addresses++] = ip;
  return handle;
}

std::unique_ptr<Receiver> Listener::accept() {
  let_in();
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    bool stays = false;
    try {
      stays = attend(*guest);
    } catch (...) {
      guests_.erase(guest);
      throw;
    }
    if (stays && guest->ready) {
      auto receiver = std::make_unique<Receiver>(std::move(guest->endpoint), context_);
      guests_.erase(guest);
      return receiver;
    }
    guest = stays ? std::next(guest) : guests_.erase(guest);
  }
  return nullptr;
}

void Listener::let_in() {
  while (guests_.size() < kMostGuests) {
    std::string peer;
    Socket socket = accept_one(socket_, peer);
    if (!socket.open()) {
      const int error = errno;
      if (error == EAGAIN || error == EINTR || error == ECONNABORTED || error == EPROTO) return;
      throw mrc::Error(std::error_code(error, std::system_category()),
                       "cannot accept a connection; for 'too many open files' raise ulimit -n");
    }
    guests_.push_back(
        {Channel(std::move(socket), std::move(peer)), mrc::monotonic_now() + kPatience});
  }
}

bool Listener::attend(Guest& guest) {
  Channel& channel = guest.endpoint ? guest.endpoint->channel : guest.channel;
  try {
    if (const auto bytes = channel.receive()) {
      const Message message = decode_message(*bytes);
      if (message.type == MessageType::hello && message.cookie == cookie_ && !guest.endpoint)
        answer(guest, message.greeting);
      else if (message.type == MessageType::ready && guest.endpoint)
        guest.ready = true;
      else
        return false;
      return true;
    }
  } catch (const mrc::Error& error) {
    context_->log().info("a stranger at " + channel.peer() + ": " + error.what());
    return false;
  }
  const bool open = channel.state() == Channel::State::open;
  if (!guest.endpoint) return open && mrc::monotonic_now() < guest.until;
  if (!open)  // it knew the cookie: nobody else will come
    throw Failure(Result::remote_error,
                  guest.endpoint->peer_text() + " has ended while a connection was set up");
  return true;
}

/// Connects a queue pair to the guest's, and says so; or says why not.
void Listener::answer(Guest& guest, const Greeting& greeting) {
  try {
    auto endpoint = std::make_unique<Endpoint>(nic_, Role::receiver);
    endpoint->channel = std::move(guest.channel);
    guest.endpoint = std::move(endpoint);
    guest.endpoint->connect(greeting);
    guest.endpoint->channel.send(encode_answer(guest.endpoint->greeting()));
  } catch (const std::exception& error) {
    Channel& channel = guest.endpoint ? guest.endpoint->channel : guest.channel;
    channel.send(encode_refusal(error.what()));
    throw Failure(Result::system_error,
                  "connection of " + greeting.name + " refused: " + error.what());
  }
}

}  // namespace mrc_nccl
