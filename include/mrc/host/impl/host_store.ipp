// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "mrc/control/run_folder.hpp"
#include "mrc/core/error.hpp"
#include "mrc/core/system_error.hpp"
#include "mrc/host/host_store.hpp"
#include "mrc/host/steering_json.hpp"
#include "mrc/net/network_namespace.hpp"

namespace mrc::inline v0_1::detail {

inline constexpr int kStoreVersion = 1;
inline constexpr off_t kLargestStore = 1 << 20;

[[nodiscard]] MRC_SETUP std::string store_file(const std::string& folder, const char* end) {
  return folder + "/host-" + host_key() + end;
}

/// A file that only root or this user can have written; -1: there is none, or another one.
[[nodiscard]] MRC_SETUP UniqueFd open_trusted(const std::string& path, int flags, bool& missing) {
  UniqueFd file(::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  missing = !file.open() && errno == ENOENT;
  struct stat is {};
  const bool trusted = file.open() && ::fstat(file.fd(), &is) == 0 && S_ISREG(is.st_mode) &&
                       (is.st_uid == 0 || is.st_uid == ::geteuid()) &&
                       (is.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return trusted ? std::move(file) : UniqueFd();
}

/// The rules in a folder; none if there is no file. Throws mrc::Error.
[[nodiscard]] MRC_SETUP SteeringRules read_rules(const std::string& folder) {
  const std::string path = store_file(folder, ".json");
  const auto fail = [&](const std::string& why) {
    throw Error(Errc::bad_message, "the rules for this host in " + path + ' ' + why);
  };
  bool missing = false;
  const UniqueFd file = open_trusted(path, O_RDONLY, missing);
  if (missing) return {};
  if (!file.open()) fail("can't be read, or others than root and this user may write to it");
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t n = 0; (n = ::read(file.fd(), part.data(), part.size())) != 0;) {
    if (n < 0 || text.size() > kLargestStore) fail(n < 0 ? "can't be read" : "are too long");
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || json.value("version", nlohmann::json()) != kStoreVersion)
    fail("are not of version 1");
  try {
    return rules_from_json(json);
  } catch (const Error& error) {
    fail(std::string("are wrong: ") + error.what());
  }
  return {};
}

MRC_SETUP std::string host_key() {
  char name[17];
  std::snprintf(name, sizeof name, "%016" PRIx64, port::network_namespace());
  return name;
}

MRC_SETUP std::string store_folder(std::string_view control_setting) {
  return std::string(control_setting == "auto" ? control::kRunFolder : control_setting);
}

MRC_SETUP HostStore::HostStore(std::string folder, const Log& log)
    : folder_(std::move(folder)), log_(log), rules_(std::make_shared<const SteeringRules>()) {
  attach();
  (void)rules();
}

MRC_SETUP HostStore::~HostStore() {
  if (map_ != nullptr) ::munmap(map_, sizeof *map_);
}

MRC_SETUP void HostStore::attach() noexcept try {
  const std::lock_guard lock(mutex_);
  read_at_ = ~std::uint64_t{0};  // to be read
  if (map_ != nullptr) return;
  bool missing = false;
  const UniqueFd file =
      open_trusted(store_file(folder_, ("-" + std::to_string(::geteuid()) + ".number").c_str()),
                   O_RDWR | O_CREAT, missing);
  struct stat is {};
  if (!file.open() || ::fstat(file.fd(), &is) != 0 || is.st_uid != ::geteuid()) return;
  if (is.st_size < off_t{sizeof *map_} && ::ftruncate(file.fd(), sizeof *map_) != 0) return;
  void* map = ::mmap(nullptr, sizeof *map_, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (map == MAP_FAILED) return;
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  map_ = static_cast<std::atomic<std::uint64_t>*>(map);
  set_number(*map_);
} catch (const std::exception&) {  // out of memory: rules come by the control socket alone
}

MRC_SETUP std::shared_ptr<const SteeringRules> HostStore::rules() noexcept {
  const std::lock_guard lock(mutex_);
  const std::uint64_t now = number();
  if (std::exchange(read_at_, now) == now) return rules_;
  try {
    rules_ = std::make_shared<const SteeringRules>(read_rules(folder_));
  } catch (const std::exception& error) {
    log_.warn(error.what());
  }
  return rules_;
}

MRC_SETUP HostStoreWriter::HostStoreWriter(std::string folder, Duration patience)
    : folder_(std::move(folder)) {
  struct stat is {};
  if (::stat(folder_.c_str(), &is) != 0) throw_errno("the host's store is in " + folder_);
  if (::geteuid() != 0 && ::geteuid() != is.st_uid)
    throw Error(Errc::access_denied,
                "rules for all devices of this host are in " + folder_ +
                    ", where root may change them; name devices of your own to steer these alone");
  const std::string path = store_file(folder_, ".lock");
  bool missing = false;
  lock_ = open_trusted(path, O_RDWR | O_CREAT, missing);
  if (!lock_.open()) {  // another user's, who may have it locked for ever
    (void)::unlink(path.c_str());
    lock_ = open_trusted(path, O_RDWR | O_CREAT | O_EXCL, missing);
  }
  if (!lock_.open()) throw_errno("cannot lock " + path);
  const Time end = monotonic_now() + patience;
  while (::flock(lock_.fd(), LOCK_EX | LOCK_NB) != 0) {
    if (monotonic_now() >= end)
      throw Error(Errc::timed_out, "another process is changing the host's rules: " + path +
                                       " stays locked (`fuser -v " + path + "` names it)");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  rules_ = read_rules(folder_);
}

MRC_SETUP void HostStoreWriter::write(const SteeringRules& rules) {
  nlohmann::json json = to_json(rules);
  json["version"] = kStoreVersion;
  const std::string text = json.dump(2) + "\n";
  const std::string path = store_file(folder_, ".json");
  const std::string fresh = path + ".new";
  (void)::unlink(fresh.c_str());
  UniqueFd file(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (!file.open()) throw_errno("cannot write " + fresh);
  (void)!::fchmod(file.fd(), 0644);  // whatever the umask is
  const ssize_t written = ::write(file.fd(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    const int error = written < 0 ? errno : ENOSPC;
    (void)::unlink(fresh.c_str());
    throw_errno("cannot write " + fresh, error);
  }
  file.close();
  if (::rename(fresh.c_str(), path.c_str()) != 0) throw_errno("cannot write " + path);
  rules_ = rules;
  raise_numbers();
}

/// Those of all users. A user may have put something else there.
MRC_SETUP void HostStoreWriter::raise_numbers() const {
  const std::string begin = "host-" + host_key() + "-";
  const std::string end = ".number";
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(begin) || !name.ends_with(end) ||
        name.size() <= begin.size() + end.size())
      continue;
    ::uid_t uid = 0;
    const char* const last = name.data() + name.size() - end.size();
    const auto parsed = std::from_chars(name.data() + begin.size(), last, uid);
    if (parsed.ec != std::errc() || parsed.ptr != last) continue;
    const UniqueFd file(::open(entry.path().c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat is {};
    if (!file.open() || ::fstat(file.fd(), &is) != 0 || !S_ISREG(is.st_mode) || is.st_uid != uid ||
        is.st_nlink != 1)
      continue;
    std::uint64_t number = 0;
    if (::pread(file.fd(), &number, sizeof number, 0) != ssize_t{sizeof number}) continue;
    ++number;
    (void)!::pwrite(file.fd(), &number, sizeof number, 0);
  }
}

}  // namespace mrc::inline v0_1::detail
