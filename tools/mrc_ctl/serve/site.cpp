// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/site.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <memory>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc_ctl/serve/metrics.hpp"
#include "mrc_ctl/serve/page_files.hpp"
#include "mrc_ctl/views.hpp"

namespace mrc::ctl_tool {
namespace {

constexpr const char* kPlainText = "text/plain; charset=utf-8";
constexpr const char* kJson = "application/json";
constexpr const char* kChangePlane = "/api/plane";
constexpr auto kWaitForReaders = std::chrono::seconds(5);

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

HttpResponse refusal(int status, const std::string& why) {
  return {status, kPlainText, why + "\n", {}};
}

HttpResponse json_response(const Json& json, int status = 200) {
  return {status, kJson, json_text(json, -1) + "\n", {}};
}

bool is_known(const std::string& path) {
  return path == "/metrics" || path == "/api/snapshot" || path == "/api/hosts" ||
         path == "/api/events" || find_page_file(path) != nullptr;
}

/// Nothing from elsewhere, in nobody's frame, and no guessing of types.
void add_security_headers(HttpResponse& response) {
  response.headers.emplace_back(
      "Content-Security-Policy",
      "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
      "object-src 'none'");
  response.headers.emplace_back("X-Content-Type-Options", "nosniff");
  response.headers.emplace_back("X-Frame-Options", "DENY");
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  response.headers.emplace_back("Cache-Control", "no-store");
}

}  // namespace

AllowedHosts::AllowedHosts(const HostPort& listened, const std::string& own_name,
                           const std::vector<std::string>& further)
    : names_{"localhost", "127.0.0.1", "::1", lower(listened.host), lower(own_name)},
      any_address_(listened.host == "0.0.0.0" || listened.host == "::") {
  for (const std::string& name : further) names_.insert(lower(name));
}

bool AllowedHosts::allow(const std::string& header) const {
  const auto at = parse_host_port(header, 0);
  if (!at) return false;
  return names_.contains(lower(at->host)) || (any_address_ && is_address(at->host));
}

bool same_secret(std::string_view a, std::string_view b) {
  unsigned differences = a.size() != b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    differences |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  return differences == 0;
}

HttpResponse Site::answer(const HttpRequest& request) {
  HttpResponse response;
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (!hosts_.allow(request.host)) {
    response = refusal(421,
                       "this server does not go by that name; `mrc_ctl serve --allow-host "
                       "NAME` lets it");
  } else if (request.path == kChangePlane) {
    response = request.method == "POST" ? change_plane(request) : refusal(405, "POST only");
    if (response.status == 405) response.headers.emplace_back("Allow", "POST");
  } else if (!is_known(request.path)) {
    response = refusal(404, "there is no such page; / is the first one");
  } else if (!reads) {
    response = refusal(405, "GET only");
    response.headers.emplace_back("Allow", "GET, HEAD");
  } else {
    response = get(request);
  }
  add_security_headers(response);
  return response;
}

HttpResponse Site::get(const HttpRequest& request) {
  if (const PageFile* file = find_page_file(request.path))
    return {200, file->type, std::string(file->content), {}};
  if (!answers_.try_acquire_for(kWaitForReaders))
    return refusal(503, "too many readers are slow; try again");
  const std::shared_ptr<Answers> held(&answers_, [](Answers* answers) { answers->release(); });
  HttpResponse response = get_data(request);
  response.held = held;
  return response;
}

HttpResponse Site::get_data(const HttpRequest& request) {
  if (request.path == "/metrics")
    return {200,
            "text/plain; version=0.0.4; charset=utf-8",
            metrics_text(*host_.snapshot(), path_metrics_),
            {}};
  if (request.path == "/api/snapshot") return json_response(to_json(*host_.snapshot()));
  if (request.path == "/api/hosts") return get_hosts();
  std::uint64_t since = 0;
  const char* end = request.since.data() + request.since.size();
  const auto [last, error] = std::from_chars(request.since.data(), end, since);
  if (!request.since.empty() && (error != std::errc() || last != end))
    return refusal(400, "since must be the number of an event");
  return json_response(host_.events_since(since));
}

HttpResponse Site::get_hosts() {
  const std::vector<std::string> peers = peers_.snapshots();
  HttpResponse response = json_response({{"hosts", Json::array({to_json(*host_.snapshot())})}});
  response.body.erase(response.body.rfind(']'));
  std::size_t size = response.body.size() + sizeof "]}\n";
  for (const std::string& peer : peers) size += 1 + peer.size();
  response.body.reserve(size);
  for (const std::string& peer : peers) response.body.append(",").append(peer);
  response.body += "]}\n";
  return response;
}

HttpResponse Site::change_plane(const HttpRequest& request) {
  if (token_.empty()) return refusal(403, "this server only reads; `mrc_ctl serve --steer` writes");
  if (!same_secret(request.token, token_))
    return refusal(403, "the header X-OpenMRC-Token must have the token of --steer");
  // Forms of other people's pages can't send this type without being allowed to.
  const std::string type = request.content_type.substr(0, request.content_type.find(';'));
  if (type != kJson) return refusal(415, "the body must be application/json");
  const Json body = object_of(request.body);
  if (text_in(body, "device").empty() ||
      !control::has_field(body, "plane", &Json::is_number_unsigned) || body["plane"] > 31 ||
      !control::has_field(body, "enabled", &Json::is_boolean))
    return refusal(400, "want {\"device\": ID, \"plane\": 0 to 31, \"enabled\": true or false}");
  try {
    host_.set_plane(text_in(body, "device"), body["plane"].get<unsigned>(),
                    body["enabled"].get<bool>());
    return json_response({{"ok", true}});
  } catch (const Error& error) {
    return refusal(error.code() == Errc::not_found ? 404 : 502,
                   printable(mrc::detail::words_of(error)));
  }
}

}  // namespace mrc::ctl_tool
