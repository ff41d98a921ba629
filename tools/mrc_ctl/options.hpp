// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mrc/core/types.hpp"

namespace mrc::ctl_tool {

/// What is to be done.
enum class Command {
  list,
  show,
  planes,
  queue_pairs,
  peers,
  paths,
  events,
  config,
  dump,
  top,
  serve,
  plane,
  deny,
  allow,
  denied,
  profiles,
  log,
  faults,
  probe,
  check,
};

/// Of `profiles`.
enum class ProfilesCommand { list, get, put, diff };

/// Where `serve` listens, and expects others to.
inline constexpr std::uint16_t kServePort = 9794;

/// Of `serve`.
struct ServeOptions {
  std::string listen = "127.0.0.1";  ///< ADDRESS or ADDRESS:PORT, checked
  std::vector<std::string> peers;    ///< HOST or HOST:PORT of other hosts' `serve`, checked
  std::string fabric;                ///< file that describes the fabric; empty: none
  std::vector<std::string> hosts;    ///< further names that requests may call the server by
  std::string token_file;            ///< empty: a token is made
  bool paths = false;                ///< metrics of each path
  bool steer = false;                ///< planes may be taken out of use
};

/// Where `check --listen` listens, and is expected.
inline constexpr std::uint16_t kCheckPort = 9795;

/// Of `check`.
struct CheckOptions {
  bool listen = false;
  std::string at;                    ///< ADDRESS or ADDRESS:PORT to listen at, checked; empty: any
  std::vector<std::string> hosts;    ///< HOST or HOST:PORT, checked
  std::vector<std::string> options;  ///< NAME=VALUE, as the job will have them
  std::uint16_t udp_port = 0;        ///< at which probes arrive here; 0: option udp_port
  unsigned paths = 16;               ///< source ports that are tried per plane, most
  Duration patience = std::chrono::seconds(5);  ///< for each answer of a host
};

/// The command line.
struct Options {
  Command command = Command::list;
  // Which devices
  std::optional<int> pid;
  std::string name;                             ///< of the program; empty: any
  std::string device;                           ///< the first digits of its id; empty: any
  std::string folder;                           ///< where its socket is; empty: the usual ones
  Duration patience = std::chrono::seconds(1);  ///< how long a device has to say who it is
  bool all = false;  ///< of those, not just the only one: for commands that change something
  // Output
  bool json = false;
  bool idle = false;               ///< paths that carried nothing, and peers, too
  bool bad = false;                ///< of paths: only those that are bad or denied
  bool follow = false;             ///< events as they come
  std::vector<std::string> kinds;  ///< of events, as is_event_kind() takes them; empty: all
  std::optional<Duration> since;   ///< of events: none that are older
  Duration watch_for{};            ///< of paths: rates in that time; 0: counters as they are
  std::string fabric;  ///< of paths: file that describes the fabric; empty: what devices have
  Duration interval = std::chrono::seconds(1);
  std::optional<unsigned> rounds;  ///< of top; not set: until it is told to end
  // What is to be set
  unsigned plane = 0;
  bool up = false;
  std::vector<std::string> parts;    ///< of deny and allow: a switch, or the two ends of a link
  std::optional<unsigned> in_plane;  ///< of deny and allow; of paths, events and probe: only that
  std::optional<std::uint32_t> ev;   ///< of deny and allow
  bool everything = false;           ///< of allow
  bool drains = false;               ///< the command is drain or undrain
  ProfilesCommand profiles = ProfilesCommand::list;
  bool dry_run = false;  ///< of `profiles put`
  std::string value;     ///< of log and faults; the file of profiles
  std::string peer;      ///< of probe and paths: number or address; empty: all
  Duration probe_time = std::chrono::milliseconds(500);  ///< of probe: for each peer
  ServeOptions serve;
  CheckOptions check;
};

/// Throws tools::Exit after --help and after printing what is wrong with the arguments.
[[nodiscard]] Options parse_options(int argc, char** argv);

}  // namespace mrc::ctl_tool
