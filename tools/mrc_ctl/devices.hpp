// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "mrc/control/client.hpp"
#include "mrc/control/host_store.hpp"
#include "mrc_ctl/options.hpp"

namespace mrc::ctl_tool {

using Json = nlohmann::json;

using control::count_in;
using control::flag_in;
using control::Found;
using control::kPatience;
using control::list_in;
using control::object_in;
using control::object_of;
using control::RemoteDevice;
using control::text_in;

/// Now, in seconds since 1970.
[[nodiscard]] double seconds_now();

/// Whether the options select the device, which has greeted.
[[nodiscard]] bool selects(const Options& o, const RemoteDevice& device);
/// The same, as far as the name of its socket tells.
[[nodiscard]] bool may_select(const Options& o, const control::SocketName& name);
/// Where the options say that there are sockets.
[[nodiscard]] std::vector<std::string> folders_of(const Options& o);
/// Those that the options select, but for those with the names of `without`. Sockets that nobody
/// listens on any more are removed. Devices of other users that are not named have at most
/// `for_others` to say who they are.
[[nodiscard]] Found find_devices(const Options& o,
                                 const std::vector<control::SocketName>& without = {},
                                 Duration for_others = detail::kAnswerPatience);
/// The exit status, as far as silent sockets decide it. Those of other users do not, unless one is
/// named: anybody can make some.
[[nodiscard]] int status_of(const Options& o, const Found& found);

/// Whether --pid, --name or --device say which devices are meant.
[[nodiscard]] bool names_devices(const Options& o);
/// Whether a device of that user counts for the exit status: this user's, root's, or a named one.
[[nodiscard]] bool counts(const Options& o, ::uid_t user);
/// How long a device has for an answer.
[[nodiscard]] Duration answer_patience(const Options& o);
/// Calls ask(device, its place) for all devices at once, each from a thread of its own. Each has
/// answer_patience() and `longer` for an answer. Those of other users have kAnswerPatience and
/// `longer` for all that they say, or five times the former if they are named. Returns what has
/// gone wrong with each; empty: nothing. Ctrl-C ends it.
[[nodiscard]] std::vector<std::string> ask_all(
    const Options& o, const Found& found,
    const std::function<void(RemoteDevice&, std::size_t)>& ask, Duration longer = Duration(0));
/// Prints that. Returns the exit status, as far as it decides it.
[[nodiscard]] int print_problems(const Options& o, const Found& found,
                                 const std::vector<std::string>& problems);

}  // namespace mrc::ctl_tool
