// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/control/host_store.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <exception>
#include <functional>
#include <thread>

#include "mrc/control/dumps.hpp"
#include "mrc/control/run_folder.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/random.hpp"
#include "mrc/net/interface.hpp"

namespace mrc::inline v0_1::detail {

inline constexpr int kStoreVersion = 1;
inline constexpr std::size_t kLargestStore = 16 << 20;

/// Whether a process of this PID namespace is known to be in another network namespace than the
/// calling thread.
[[nodiscard]] inline bool in_other_network(::pid_t pid) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/ns/net", static_cast<int>(pid));
  const std::uint64_t there = port::detail::inode_of(path);
  const std::uint64_t here = port::detail::inode_of("/proc/thread-self/ns/net");
  return there != 0 && here != 0 && there != here;
}

/// Where the store of a folder for control sockets is.
[[nodiscard]] std::string store_in(const std::string& folder) {
  return folder + "/host";
}

/// Whether only root, this user, or the owner of the folder for control sockets can have written
/// what `is` tells of.
[[nodiscard]] bool is_trusted(const struct stat& is, const std::string& folder) {
  struct stat above {};
  const bool known = ::lstat(folder.c_str(), &above) == 0 && S_ISDIR(above.st_mode);
  return (is.st_uid == 0 || is.st_uid == ::geteuid() || (known && is.st_uid == above.st_uid)) &&
         (is.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/// The store is there and trusted. `make`: makes it, if this user may.
[[nodiscard]] bool has_store(const std::string& folder, bool make) {
  const std::string store = store_in(folder);
  struct stat is {};
  if (make && ::lstat(folder.c_str(), &is) == 0 && (is.st_uid == ::geteuid() || ::geteuid() == 0) &&
      ::mkdir(store.c_str(), 0755) == 0)
    (void)!::chmod(store.c_str(), 0755);  // whatever the umask is
  return ::lstat(store.c_str(), &is) == 0 && S_ISDIR(is.st_mode) && is_trusted(is, folder);
}

/// Opens a file of the store; it is made with `flags` O_CREAT. None: errno says why.
[[nodiscard]] UniqueFd open_in_store(const std::string& folder, const std::string& name,
                                     int flags) {
  UniqueFd file(::open((store_in(folder) + "/" + name).c_str(),
                       flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644));
  struct stat is {};
  if (!file.open()) return file;
  if (::fstat(file.fd(), &is) == 0 && S_ISREG(is.st_mode) && is_trusted(is, folder)) {
    if ((flags & O_CREAT) != 0) (void)!::fchmod(file.fd(), 0644);  // whatever the umask is
    return file;
  }
  errno = EPERM;
  return UniqueFd();
}

/// Of the rules in force. Before they are read: if they change meanwhile, they are read again.
[[nodiscard]] StoreMark mark_of(const std::string& folder, const std::string& key) {
  struct stat is {};
  if (!has_store(folder, false) ||
      ::lstat((store_in(folder) + "/" + key + ".json").c_str(), &is) != 0)
    return {};
  return {is.st_ino, is.st_ctim.tv_sec, is.st_ctim.tv_nsec, is.st_size};
}

/// What a file of the store says; nothing if it is not there. Throws mrc::Error.
[[nodiscard]] HostState read_rules(const std::string& folder, const std::string& name) {
  const auto fail = [&](const std::string& why) {
    throw Error(Errc::bad_message,
                "the rules for this host in " + store_in(folder) + "/" + name + ' ' + why);
  };
  if (!has_store(folder, false)) return {};
  const UniqueFd file = open_in_store(folder, name, O_RDONLY);
  if (!file.open() && errno == ENOENT) return {};
  if (!file.open())
    fail(errno == EPERM ? "belong to another user, or others may write them" : "can't be read");
  std::string text;
  std::array<char, 16384> part;
  for (ssize_t n = 0; (n = ::read(file.fd(), part.data(), part.size())) != 0;) {
    if (n < 0 || text.size() > kLargestStore) fail(n < 0 ? "can't be read" : "are too long");
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("version", nlohmann::json()) != kStoreVersion)
    fail("are not of version 1");
  try {
    HostState state{rules_from_json(json)};
    if (const auto profiles = json.find("profiles"); profiles != json.end())
      state.profiles = std::make_shared<const ProfileSet>(profiles_from_json(*profiles));
    if (const auto serial = json.find("serial");
        serial != json.end() && serial->is_number_unsigned())
      state.serial = serial->get<std::uint64_t>();
    return state;
  } catch (const Error& error) {
    fail("are wrong: " + words_of(error));
  }
  return {};
}

std::string host_key() {
  char name[17];
  std::snprintf(name, sizeof name, "%016" PRIx64, port::network_namespace());
  return name;
}

std::string store_folder(std::string_view control_setting) {
  const bool named = control_setting != "auto" && control_setting != "off";
  return std::string(named ? control_setting : control::kRunFolder);
}

HostState read_host_state(const std::string& folder) {
  return read_rules(folder, host_key() + ".json");
}

HostStore::HostStore(std::string folder, const Log& log) : folder_(std::move(folder)), log_(log) {
  (void)look();
}

void HostStore::reread() {
  const StoreMark now = mark_of(folder_, key_);
  set(std::make_shared<const HostState>(read_rules(folder_, key_ + ".json")));
  read_ = now;
}

bool HostStore::look() noexcept try {
  const StoreMark now = mark_of(folder_, key_);
  if (now == read_) return false;
  try {
    reread();
    return true;
  } catch (const Error& error) {
    if (std::exchange(refused_, now) != now) log_.warn(words_of(error));
  }
  return false;
} catch (const std::exception&) {  // out of memory: the next call tries again
  return false;
}

HostState HostStore::proposal() const {
  HostState wanted = read_rules(folder_, key_ + ".json.new");
  if (wanted.serial == 0)
    throw Error(Errc::not_found, "nothing is proposed in " + store_in(folder_) +
                                     ", whose rules this device follows");
  return wanted;
}

HostStoreWriter::HostStoreWriter(const std::string& folder, Duration patience, bool anew)
    : folder_(folder) {
  struct stat is {};
  const bool there = ::stat(folder_.c_str(), &is) == 0;
  if (::geteuid() != 0 && (!there || ::geteuid() != is.st_uid))
    throw Error(Errc::access_denied,
                "rules for all devices of this host are in " + folder_ +
                    ", where root may change them; name devices of your own to steer these alone");
  if (!there) throw_errno("the rules for this host are in " + folder_);
  const std::string store = store_in(folder_);
  // In a folder that all may write to, another user can have taken the name.
  if (!has_store(folder_, true) && ::lstat(store.c_str(), &is) == 0)
    (void)::rename(store.c_str(), (store + "-" + std::to_string(random_seed())).c_str());
  if (!has_store(folder_, true)) throw_errno("cannot make the folder " + store);
  lock_ = open_in_store(folder_, key_ + ".lock", O_RDWR | O_CREAT);
  if (!lock_.open()) throw_errno("cannot lock the rules for this host in " + store);
  const Time end = monotonic_now() + patience;
  while (::flock(lock_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (monotonic_now() >= end)
      throw Error(Errc::timed_out,
                  "another process is changing the rules for this host; `fuser -v " + store + "/" +
                      key_ + ".lock` names it");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  try {
    rules_ = read_rules(folder_, key_ + ".json");
  } catch (const Error&) {
    if (!anew) throw;
  }
}

HostStoreWriter::~HostStoreWriter() {
  if (fork_.forked()) return;
  if (open_) (void)::unlink((store_in(folder_) + "/" + key_ + ".json.new").c_str());
  (void)::flock(lock_.fd(), LOCK_UN);  // children that were forked meanwhile have it, too
}

std::uint64_t HostStoreWriter::propose(HostState wanted) {
  check_size(wanted.steering);
  wanted.serial = std::max<std::uint64_t>(1, random_seed());
  nlohmann::json json = to_json(wanted.steering);
  json["version"] = kStoreVersion;
  json["serial"] = wanted.serial;
  json["profiles"] = to_json(*wanted.profiles);
  const std::string text = json.dump(1) + "\n";
  if (text.size() > kLargestStore)
    throw Error(Errc::no_resources, "the profiles for this host are more than " +
                                        std::to_string(kLargestStore >> 20) + " MiB of text");
  const std::string fresh = store_in(folder_) + "/" + key_ + ".json.new";
  (void)::unlink(fresh.c_str());
  UniqueFd file = open_in_store(folder_, key_ + ".json.new", O_WRONLY | O_CREAT | O_EXCL);
  if (!file.open()) throw_errno("cannot write " + fresh);
  open_ = true;  // is removed, whatever comes
  const ssize_t written = ::write(file.fd(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()))
    throw_errno("cannot write " + fresh, written < 0 ? errno : ENOSPC);
  proposed_ = std::move(wanted);
  return proposed_.serial;
}

void HostStoreWriter::commit() {
  const std::string path = store_in(folder_) + "/" + key_ + ".json";
  if (::rename((path + ".new").c_str(), path.c_str()) != 0) throw_errno("cannot write " + path);
  open_ = false;
  rules_ = proposed_;
}

control::Found devices_of_host(const HostSearch& search, std::vector<control::SocketName>& seen,
                               std::vector<std::string>* elsewhere) {
  control::Found found = control::find_devices(
      search.folders, search.greeting, std::min(search.greeting, kAnswerPatience),
      [&seen](const control::SocketName& name) {
        const bool fresh = std::find(seen.begin(), seen.end(), name) == seen.end();
        if (fresh) seen.push_back(name);
        return fresh;
      });
  const std::string here = host_key();
  std::erase_if(found.devices, [&](const auto& device) {
    if (control::text_in(device->hello(), "network") == here) return false;
    if (elsewhere != nullptr && control::is_trusted_user(device->user()))
      elsewhere->push_back(device->title() + " on " +
                           device->hello()["host"].template get<std::string>());
    return true;
  });
  // Of one that says nothing, the kernel may know where it is.
  const std::uint64_t pids = control::make_socket_name().pid_namespace;
  std::erase_if(found.silent, [pids](const control::Silent& one) {
    return one.name.pid_namespace == pids && in_other_network(one.name.pid);
  });
  return found;
}

namespace host_change {

/// Devices that nobody has confirmed for.
void add_unconfirmed(HostChange& change, ::uid_t user, std::string why) {
  const bool counts = control::is_trusted_user(user);
  (counts ? change.unconfirmed : change.others_unconfirmed).push_back(std::move(why));
}

/// Asks devices something at once, and calls `then` for each, one after the other, with its answer,
/// or null and what it has thrown.
template <class Then>
void ask_all(const std::vector<std::unique_ptr<control::RemoteDevice>>& devices,
             const std::function<nlohmann::json(control::RemoteDevice&)>& ask, Then&& then) {
  std::vector<nlohmann::json> answers(devices.size());
  const auto thrown =
      control::all_at_once(devices.size(), [&](std::size_t i) { answers[i] = ask(*devices[i]); });
  for (std::size_t i = 0; i < devices.size(); ++i)
    then(*devices[i], std::move(answers[i]), thrown[i]);
}

/// Whether that says that the device has gone.
[[nodiscard]] bool is_gone(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& what) {
    return control::RemoteDevice::is_gone(what.code());
  } catch (...) {
    return false;
  }
}

/// What a device's answer has thrown, as mrc::Error.
[[noreturn]] void rethrow(const control::RemoteDevice& device, const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& what) {  // a field is of another kind, say
    throw Error(Errc::bad_message, control::problem_with(device, what));
  }
}

/// Leaves those rules that mean nothing to a device either, by its answer to `check_rules`.
void keep_unknown(SteeringRules& rules, const nlohmann::json& answer) {
  const auto unknown = answer.find("unknown_rules");
  if (unknown == answer.end()) {  // an older version: they may mean something
    rules = {};
    return;
  }
  rules = without(rules, without(rules, rules_from_json(*unknown)));
}

}  // namespace host_change

HostChange ask_devices(HostStoreWriter& store, const HostState& wanted, const HostSearch& search) {
  HostChange change;
  change.serial = store.propose(wanted);
  SteeringRules without_effect = without(wanted.steering, store.rules().steering);
  bool answered = false;
  control::Found found = devices_of_host(search, change.seen, &change.elsewhere);
  for (control::Silent& one : found.silent)
    host_change::add_unconfirmed(change, one.user, std::move(one.why));
  change.devices = std::move(found.devices);
  const std::uint64_t here = control::make_socket_name().pid_namespace;
  const auto ask = [&](control::RemoteDevice& device) {
    // Other users' devices can't keep root from anything.
    if (!control::is_trusted_user(device.user())) return nlohmann::json();
    // Who makes a profile is to use it: EVs that only others can send mean nothing there.
    const bool own = device.name().pid == ::getpid() && device.name().pid_namespace == here;
    return device.request({{"request", "check_rules"}, {"proposed", true}, {"all", own}},
                          search.answer);
  };
  host_change::ask_all(
      change.devices, ask,
      [&](control::RemoteDevice& device, const nlohmann::json& answer, std::exception_ptr error) {
        if (error && host_change::is_gone(error)) return;
        if (error) host_change::rethrow(device, error);
        if (answer.is_null()) return;
        if (control::count_in(answer, "serial") != change.serial)
          throw Error(Errc::bad_message, device.title() +
                                             ": it does not know what it was asked; it may be an "
                                             "older version: end it, or start it with control=off");
        if (control::count_in(answer, "unknown") > 0) change.unknowing.push_back(&device);
        host_change::keep_unknown(without_effect, answer);
        answered = true;
      });
  if (answered && change.unconfirmed.empty()) change.without_effect = std::move(without_effect);
  return change;
}

/// Tells devices that the rules have changed, and notes what they say. Those of other users have
/// until `end` at most.
void tell_devices(const std::vector<std::unique_ptr<control::RemoteDevice>>& devices,
                  HostChange& change, Duration patience, Time end) {
  const auto tell = [&](control::RemoteDevice& device) {
    if (!control::is_trusted_user(device.user())) device.set_patience(patience, end);
    nlohmann::json answer = device.request({{"request", "host_changed"}}, patience);
    if (control::count_in(answer, "serial") != change.serial)
      throw Error(Errc::bad_message, device.title() +
                                         ": it follows other rules (another folder of option "
                                         "control?)");
    if (const auto failed = answer.find("failed"); failed != answer.end())
      throw Error(Errc::in_use,
                  device.title() + ": it stays with what its queue pairs use: " + failed->dump());
    return answer;
  };
  host_change::ask_all(
      devices, tell,
      [&](control::RemoteDevice& device, nlohmann::json answer, std::exception_ptr error) {
        if (!error) {
          change.confirmed.emplace_back(&device, std::move(answer));
          return;
        }
        if (!host_change::is_gone(error))
          host_change::add_unconfirmed(change, device.user(), control::problem_with(device, error));
      });
}

void put_in_force(HostStoreWriter& store, HostChange& change, const HostSearch& search) {
  store.commit();
  const Time end = monotonic_now() + std::min(search.answer, kAnswerPatience);
  tell_devices(change.devices, change, search.answer, end);
  // Those that have opened since have read the rules as they were, or nothing yet.
  for (int round = 0; round < 3; ++round) {
    control::Found found = devices_of_host(search, change.seen);
    if (found.devices.empty()) break;
    tell_devices(found.devices, change, search.answer, end);
    for (auto& device : found.devices) change.devices.push_back(std::move(device));
  }
}

HostChange change_host(HostStoreWriter& store, const HostState& wanted, const HostSearch& search) {
  HostChange change = ask_devices(store, wanted, search);
  put_in_force(store, change, search);
  return change;
}

void merge_states(ProfileId id, EvProfileInfo& info, const HostSearch& search) {
  std::vector<control::SocketName> seen;
  const control::Found found = devices_of_host(search, seen);
  std::string all(info.entries.size(), '-');
  host_change::ask_all(
      found.devices,
      [&](control::RemoteDevice& device) {
        return device.request({{"request", "profile_states"}, {"profile", id}}, search.answer);
      },
      [&](control::RemoteDevice&, const nlohmann::json& answer, std::exception_ptr error) {
        if (error) return;  // gone, or stopped: the others count
        if (!control::has_field(answer, "states", &nlohmann::json::is_string)) return;
        const std::string& states = answer["states"].get_ref<const std::string&>();
        if (states.size() != all.size()) return;  // it does not have the profile
        for (std::size_t i = 0; i < states.size(); ++i) {
          if (states[i] == '-') continue;  // no queue pair uses it there
          all[i] = all[i] == '-' || all[i] == states[i] ? states[i] : '0';
        }
      });
  for (std::size_t i = 0; i < all.size(); ++i) {
    EvState& state = info.entries[i].state;
    if (all[i] == '1') state = EvState::good;
    if (all[i] == '2') state = EvState::assumed_bad;
    if (all[i] == '4') state = EvState::denied;
    if (all[i] == '0') state = EvState::unknown;
  }
}

}  // namespace mrc::inline v0_1::detail
