// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <semaphore>
#include <set>
#include <string>
#include <string_view>

#include "mrc_ctl/serve/host_watch.hpp"
#include "mrc_ctl/serve/http.hpp"
#include "mrc_ctl/serve/peer_watch.hpp"

namespace mrc::ctl_tool {

/// Names by which requests may call the server (header Host). A page of somebody else's whose name
/// was made to lead here (DNS rebinding) calls it by that name.
class AllowedHosts {
 public:
  /// Loopback's names, the address that is listened at, this host's name, and `further`. A server
  /// that listens at all addresses may be called by any of them: rebinding takes a name.
  AllowedHosts(const HostPort& listened, const std::string& own_name,
               const std::vector<std::string>& further);

  /// `header`: with or without a port.
  [[nodiscard]] bool allow(const std::string& header) const;

 private:
  std::set<std::string> names_;  ///< in lower case
  bool any_address_;
};

/// Whether the texts are equal, in a time that does not tell where they differ.
[[nodiscard]] bool same_secret(std::string_view a, std::string_view b);

/// What the server answers: pages, JSON, metrics, and changes for those who have the token. Any
/// thread; `host` and `peers` must outlive it.
class Site {
 public:
  /// `token` is empty if nothing may be changed.
  Site(HostWatch& host, PeerWatch& peers, AllowedHosts hosts, bool path_metrics, std::string token)
      : host_(host),
        peers_(peers),
        hosts_(std::move(hosts)),
        path_metrics_(path_metrics),
        token_(std::move(token)) {}

  [[nodiscard]] HttpResponse answer(const HttpRequest& request);

 private:
  /// Answers with data that are made or sent at a time: slow readers hold their memory.
  static constexpr std::ptrdiff_t kMostAnswers = 8;
  using Answers = std::counting_semaphore<kMostAnswers>;

  [[nodiscard]] HttpResponse get(const HttpRequest& request);
  [[nodiscard]] HttpResponse get_data(const HttpRequest& request);
  [[nodiscard]] HttpResponse get_hosts();
  [[nodiscard]] HttpResponse change_plane(const HttpRequest& request);

  HostWatch& host_;
  PeerWatch& peers_;
  const AllowedHosts hosts_;
  const bool path_metrics_;
  const std::string token_;
  Answers answers_{kMostAnswers};
};

}  // namespace mrc::ctl_tool
