// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/setup/listener.hpp"

#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <system_error>

#include "mrc/net/interface.hpp"
#include "nccl_plugin/data/receiver.hpp"
#include "nccl_plugin/result.hpp"
#include "nccl_plugin/setup/contact_addresses.hpp"

namespace mrc_nccl {

namespace {

// How long strangers may be silent if nobody else needs their place.
constexpr mrc::Duration kPatience = std::chrono::seconds(30);
// A peer whose channel breaks during set-up tries again; one that does not has died.
constexpr mrc::Duration kComesAgain = std::chrono::seconds(2);
// Lines about strangers, and about a lack of resources, are not written more often.
constexpr mrc::Duration kBetweenLines = std::chrono::seconds(10);

std::atomic<int> listeners{0};  // of this process

// Places for strangers at each listener. All of a process together hold a quarter of its file
// descriptors at most, unless there are so many listeners that it takes more to have a few each.
std::size_t places() {
  constexpr std::size_t kMost = 256, kFewest = 4, kMostOfProcess = 4096;
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = 1024;
  const std::size_t all = std::min<std::size_t>(files.rlim_cur / 4, kMostOfProcess);
  return std::clamp(all / static_cast<std::size_t>(std::max(1, listeners.load())), kFewest, kMost);
}

// A handle has room for a few: some of the planes', and the one that reaches the Internet.
std::vector<mrc::port::IpAddress> contact_addresses(Nic& nic) {
  std::vector<ContactPlane> planes;
  const mrc::DeviceStats stats = nic.device().stats();
  for (std::size_t i = 0; i < nic.addresses().size(); ++i)
    planes.push_back({nic.addresses()[i], stats.planes[i].up});
  auto chosen = contact_addresses(planes, Handle::kMostAddresses - 1);
  const auto add = [&](const mrc::port::IpAddress& ip) {
    if (std::find(chosen.begin(), chosen.end(), ip) == chosen.end()) chosen.push_back(ip);
  };
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

mrc::SipKey random_secret() {
  mrc::SipKey secret{};
  if (::getrandom(secret.data(), sizeof secret, 0) != static_cast<ssize_t>(sizeof secret))
    throw mrc::Error(std::error_code(errno, std::system_category()), "cannot get random numbers");
  return secret;
}

}  // namespace

Listener::Listener(std::shared_ptr<Nic> nic, std::shared_ptr<Context> context)
    : nic_(std::move(nic)),
      context_(std::move(context)),
      socket_(listen_at(nic_->settings().listen, port_)),
      secret_(random_secret()),
      filter_(*nic_) {
  ++listeners;
}

Listener::~Listener() {
  --listeners;
}

Handle Listener::handle() const {
  Handle handle;
  handle.port = port_;
  handle.secret = secret_;
  const auto& chosen = nic_->settings().listen.ip;
  for (const auto& ip : chosen ? std::vector{*chosen} : contact_addresses(*nic_))
    handle.ip[handle.addresses++] = ip;
  return handle;
}

std::unique_ptr<Receiver> Listener::accept() {
  let_in();
  strangers_.attend([this](Stranger& stranger) { return listen_to(stranger); });
  auto guest = ready_guest();
  return guest ? std::make_unique<Receiver>(std::move(guest), context_) : nullptr;
}

/// Takes in those who wait, but not so many that one would leave again before it was listened to.
void Listener::let_in() {
  const std::size_t most = places();
  for (std::size_t newcomers = 0; newcomers < most / 2; ++newcomers) {
    mrc::port::PeerAddress peer;
    Socket socket = accept_one(socket_, peer);
    if (!socket.open()) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      const bool no_descriptors = error == EMFILE || error == ENFILE;
      if (no_descriptors && strangers_.drop_oldest()) continue;
      if (error != EAGAIN) on_accept_error(error);
      return;
    }
    if (!filter_.admits(peer, context_->log())) continue;
    strangers_.admit(peer.ip,
                     {Channel(std::move(socket), mrc::port::format_address(peer), secret_,
                              Channel::Side::accepts),
                      mrc::monotonic_now() + kPatience},
                     most);
  }
}

/// Only a socket that is broken will never accept again. What else fails may be better with the
/// next call; those who have connected wait in the kernel meanwhile.
void Listener::on_accept_error(int error) {
  const std::string text = std::system_category().message(error);
  if (error == EBADF || error == EINVAL || error == ENOTSOCK || error == EFAULT)
    throw mrc::Error(std::error_code(error, std::system_category()), "cannot accept a connection");
  const mrc::Time now = mrc::monotonic_now();
  if (warned_ != mrc::Time{} && now - warned_ < kBetweenLines) return;
  warned_ = now;
  context_->log().warn("cannot accept connections at the moment, and goes on trying: " + text +
                       (error == EMFILE ? "; raise ulimit -n" : ""));
}

/// False when the stranger has to go, or is a guest now.
bool Listener::listen_to(Stranger& stranger) {
  Channel& channel = stranger.channel;
  try {
    const auto bytes = channel.receive();
    if (!bytes) {
      if (channel.forged())
        send_away(channel.peer() + " does not know the handle of this listener");
      return channel.state() == Channel::State::open && mrc::monotonic_now() < stranger.until;
    }
    const Message message = decode_message(*bytes);
    if (message.type == MessageType::hello)
      answer(stranger, message.greeting);
    else
      send_away(channel.peer() + " did not begin with a greeting");
  } catch (const mrc::Error& error) {
    send_away(channel.peer() + ": " + error.what());
  }
  return false;
}

/// A line for the first, and then from time to time one for many.
void Listener::send_away(const std::string& why) {
  ++sent_away_;
  const mrc::Time now = mrc::monotonic_now();
  if (told_ != mrc::Time{} && now - told_ < kBetweenLines) return;
  context_->log().info(
      "sent away a stranger at " + why +
      (sent_away_ == 1 ? "" : ", and " + std::to_string(sent_away_ - 1) + " before"));
  told_ = now;
  sent_away_ = 0;
}

void Listener::throw_missing() const {
  throw Failure(Result::remote_error, missing_ + " has ended while a connection was set up");
}

/// A guest that is connected, too; null: none yet. Those whose channel has broken come again,
/// unless they have died. Throws Failure where one does not come: nobody else will.
std::unique_ptr<Endpoint> Listener::ready_guest() {
  for (auto guest = guests_.begin(); guest != guests_.end();) {
    Channel& channel = (*guest)->channel;
    if (const auto bytes = channel.receive();
        bytes && decode_message(*bytes).type == MessageType::ready) {
      auto ready = std::move(*guest);
      guests_.erase(guest);
      return ready;
    }
    if (channel.state() == Channel::State::open) {
      ++guest;
      continue;
    }
    missing_ = (*guest)->peer_text();
    missed_ = mrc::monotonic_now();
    const bool gives_up = channel.state() == Channel::State::ended;
    guest = guests_.erase(guest);
    if (gives_up) throw_missing();
  }
  if (!guests_.empty()) missed_ = mrc::kNever;
  if (missed_ != mrc::kNever && mrc::monotonic_now() - missed_ > kComesAgain) throw_missing();
  return nullptr;
}

/// Connects a queue pair to the stranger's, and says so; or says why not.
void Listener::answer(Stranger& stranger, const Greeting& greeting) {
  Channel channel = std::move(stranger.channel);
  try {
    auto endpoint = std::make_unique<Endpoint>(nic_, Role::receiver);
    endpoint->connect(greeting, context_->log());
    channel.send(encode_answer(endpoint->greeting()));
    endpoint->channel = std::move(channel);
    guests_.push_back(std::move(endpoint));
  } catch (const std::exception& error) {
    channel.send(encode_refusal(error.what()));
    throw Failure(Result::system_error,
                  "connection of " + greeting.name + " refused: " + error.what());
  }
}

}  // namespace mrc_nccl
