// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/data/endpoint.hpp"

#include <algorithm>
#include <bit>

#include "mrc/engine/send_window.hpp"
#include "nccl_plugin/result.hpp"

namespace mrc_nccl {

namespace {

// Where the doubling of timeouts ends, 1.024 us x 2^n: 1.07 s. After an outage traffic goes on
// within this time.
constexpr std::uint8_t kLongestTimeout = 20;

mrc::QpOptions options(mrc::Device& device, Role role, const mrc::CompletionQueue& cq) {
  mrc::QpOptions options;
  options.send_cq = &cq;
  // It is the connection that decides how long a peer may be silent, since it has a channel, too.
  options.attributes = device.default_attributes();
  options.attributes->retry_exponential = mrc::reliability::kRetryForever;
  options.attributes->max_timeout = kLongestTimeout;
  // Heartbeats need room besides.
  const unsigned sends = role == Role::sender ? Endpoint::kMostSends : kSlots;
  options.capacity = {.send = sends + 4,
                      .receive = role == Role::receiver ? Endpoint::kMostWrites : 0,
                      .send_sges = 1,
                      .inline_bytes = mrc::kMaxInlineBytes,
                      .receive_sges = 0};
  return options;
}

}  // namespace

Endpoint::Endpoint(std::shared_ptr<Nic> the_nic, Role the_role)
    : nic(std::move(the_nic)),
      role(the_role),
      mailbox(std::make_unique<Mailbox>()),
      mailbox_region(nic->device().register_memory(
          mailbox.get(), sizeof *mailbox, mrc::Access::remote_write | mrc::Access::line_ordering)),
      cq(nic->device().create_cq(2 * kMostSends)),
      qp(nic->device().create_qp(options(nic->device(), role, cq))) {}

Endpoint::~Endpoint() {
  nic->peers().remove(qp);
  channel.close();
}

Greeting Endpoint::greeting() const {
  // Nobody tests receives that are done early, so nobody would copy what came for them.
  const bool takes_eager = role == Role::receiver && !nic->settings().early_receives;
  return {qp.local_info(), mailbox_region.remote(), process_name(), nic->offers(), takes_eager};
}

/// Between these processes, or where `hosts`, between their hosts, as this side sees it.
PlaneMatch Endpoint::match(const Greeting& peer, bool hosts) const {
  const std::string host = peer.name.substr(0, peer.name.rfind(':'));
  return match_planes({hosts ? "here" : "at " + process_name(), nic->offers(), qp.local_info().mtu},
                      {hosts ? host : peer.name, peer.planes, peer.info.mtu});
}

void Endpoint::connect(const Greeting& peer, const Log& log) {
  if (const std::string error = match(peer, false).error; !error.empty())
    throw Failure(Result::invalid_usage, error);
  for (const std::string& warning : match(peer, true).warnings)
    if (const std::string line = nic->facts().name + ": " + warning; nic->is_news(line))
      log.warn(line);
  peer_mailbox = peer.mailbox;
  peer_takes_eager = peer.takes_eager;
  peer_name = peer.name;
  told_at_once =
      std::bit_floor(std::min({mrc::kMaxInlineBytes, qp.local_info().mtu, peer.info.mtu}));
  qp.connect(peer.info);
  peer_number = nic->peers().add(qp, peer.info, peer.name);
  if (role == Role::sender) return;
  for (unsigned i = 0; i < kMostWrites; ++i)
    if (const mrc::Errc e = qp.post_receive(0); e != mrc::Errc::ok)
      throw mrc::Error(e, "posting a receive for " + peer_text());
}

mrc::Errc Endpoint::post(const mrc::SendRequest& request) noexcept {
  const mrc::Errc e = qp.post_send(request);
  posted_ += e == mrc::Errc::ok;
  return e;
}

std::string Endpoint::peer_text() const {
  return peer_name + " (" + channel.peer() + ")";
}

}  // namespace mrc_nccl
