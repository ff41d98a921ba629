// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <initializer_list>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl_plugin/host/debug_log.hpp"
#include "nccl_plugin/host/library.hpp"
#include "support/wait.hpp"

/// What the conformance tests of the built plugin have in common. Failures are exceptions, since
/// most happen in threads other than the test's.
namespace nccl_conformance {

using nccl_abi::LogLevel;
using nccl_host::Communicator;
using nccl_host::DebugLog;
using nccl_host::Net;
using nccl_host::PluginLibrary;
using nccl_host::Result;

/// What a failed check throws.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Fails unless it is true.
inline void expect(bool truth, const std::string& what) {
  if (!truth) throw Failure(what);
}

/// Fails unless the plugin returned success.
inline void ok(Result result, const std::string& what) {
  if (result == Result::success) return;
  throw Failure(what + ": " + nccl_abi::to_string(result));
}

/// MRC_NCCL_PLUGIN_FILE, or the one that was built with these tests.
inline std::string plugin_file() {
  const char* file = std::getenv("MRC_NCCL_PLUGIN_FILE");
  return file ? file : MRC_NCCL_PLUGIN_PATH;
}

/// The versions to test, the newest first; MRC_TEST_NCCL_API picks one.
inline std::vector<int> versions() {
  if (const char* version = std::getenv("MRC_TEST_NCCL_API")) return {std::atoi(version)};
  return {12, 11, 10, 9, 8, 7, 6};
}
/// Those that stand for all where a test takes long: a context per communicator, or none and int.
inline std::vector<int> few_versions() {
  if (std::getenv("MRC_TEST_NCCL_API")) return versions();
  return {12, 8};
}

/// How many of `count` random things to do: MRC_TEST_NCCL_SCALE percent of them.
inline int scaled(int count) {
  const char* percent = std::getenv("MRC_TEST_NCCL_SCALE");
  return std::max(1, count * (percent ? std::atoi(percent) : 100) / 100);
}

/// Runs step() until it returns true; fails if that takes longer than a test may.
inline void until(const std::string& what, const std::function<bool()>& step) {
  if (!mrc::test::eventually(step, mrc::test::nap)) throw Failure("takes too long: " + what);
}

/// Posts a receive of one buffer; null: not now.
inline void* try_irecv(Net& net, void* comm, void* data, std::size_t room, int tag, void* mr,
                       void* parent = nullptr) {
  void* request = nullptr;
  ok(net.irecv(comm, 1, &data, &room, &tag, &mr, &parent, &request), "irecv");
  return request;
}
/// Posts it, in time.
inline void* irecv(Net& net, void* comm, void* data, std::size_t room, int tag, void* mr,
                   void* parent = nullptr) {
  void* request = nullptr;
  until("irecv",
        [&] { return (request = try_irecv(net, comm, data, room, tag, mr, parent)) != nullptr; });
  return request;
}

/// Sends; null: not now.
inline void* try_isend(Net& net, void* comm, void* data, std::size_t size, int tag, void* mr,
                       void* parent = nullptr) {
  void* request = nullptr;
  ok(net.isend(comm, data, size, tag, mr, parent, &request), "isend");
  return request;
}
/// Sends, in time.
inline void* isend(Net& net, void* comm, void* data, std::size_t size, int tag, void* mr,
                   void* parent = nullptr) {
  void* request = nullptr;
  until("isend",
        [&] { return (request = try_isend(net, comm, data, size, tag, mr, parent)) != nullptr; });
  return request;
}

/// A send or a receive is done, in time.
inline void finish(Net& net, void* request) {
  until("a request", [&] {
    int done = 0;
    ok(net.test(request, &done, nullptr), "test");
    return done != 0;
  });
}
/// The error with which a receive fails, in time.
inline Result failure_of(Net& net, void* request) {
  Result result = Result::success;
  until("the receive fails", [&] {
    int done = 0;
    result = net.test(request, &done, nullptr);
    expect(!done, "the receive is done");
    return result != Result::success;
  });
  return result;
}

/// Asks once for a receive that was just posted, as NCCL does: the sender is told of it.
inline void ask(Net& net, void* receive) {
  int done = 0;
  ok(net.test(receive, &done, nullptr), "test");
  expect(!done, "a receive without a send is done");
}

/// Runs step() for that long, or until it returns true.
inline bool for_a_while(std::chrono::milliseconds time, const std::function<bool()>& step) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!step()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return true;
}

/// Runs both functions in threads of their own, and throws what one of them threw.
inline void in_two_threads(const std::function<void()>& one, const std::function<void()>& two) {
  auto first = std::async(std::launch::async, one);
  auto second = std::async(std::launch::async, two);
  first.wait();
  second.get();
  first.get();
}

/// Environment variables for the time of a test.
class Environment {
 public:
  using Variable = std::pair<const char*, const char*>;
  Environment(std::initializer_list<Variable> variables) {
    for (const auto& [name, value] : variables) {
      const char* old = std::getenv(name);
      old_.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
      setenv(name, value, 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : old_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> old_;
};

/// What most tests start from: planes of this machine.
inline const Environment::Variable kTwoPlanes{"MRC_PLANES", "loopback:2"};

/// The plugin's file, at one version of the interface.
inline nccl_host::Selection selection(int version) {
  return {.plugins = plugin_file(), .net = "", .newest_api = version, .oldest_api = version};
}

/// Versions up to 10 are never told of an end: a newer version that comes after one of them finds
/// the plugin initialised, with the environment of then. (Another old one starts it afresh.) Tests
/// that need an environment of their own come first, in processes of their own.
inline bool old_version_used = false;
inline bool keeps_old_environment() {
  if (old_version_used) std::puts("[test skipped] an old version keeps an earlier environment");
  return old_version_used;
}

/// The plugin, loaded at one version, with some communicators in this process, each of one rank.
class Job {
 public:
  explicit Job(int version, int ranks = 2, nccl_abi::ProfilerCallback profiler = nullptr)
      : library_(selection(version)) {
    if (!std::getenv("NCCL_DEBUG")) DebugLog::instance().print_to(nullptr);
    for (int rank = 0; rank < ranks; ++rank) add(profiler);
  }
  ~Job() {
    while (!communicators_.empty()) remove(communicators_.size() - 1);
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] Net& net() { return *communicators_.at(0).net; }
  [[nodiscard]] void* context(std::size_t rank) { return communicators_.at(rank).context; }
  [[nodiscard]] int devices() { return communicators_.at(0).devices; }
  [[nodiscard]] std::size_t ranks() const { return communicators_.size(); }

  /// One communicator more.
  void add(nccl_abi::ProfilerCallback profiler = nullptr) {
    Communicator communicator = library_.open({.comm_id = ++last_id_,
                                               .traffic_class = -1,
                                               .logger = DebugLog::logger(),
                                               .profiler = profiler});
    expect(static_cast<bool>(communicator), communicator.reason);
    communicators_.push_back(communicator);
    old_version_used |= communicator.net->version() <= 10;
  }
  /// The end of a communicator: its rank's number goes to the next one.
  Result remove(std::size_t rank) {
    const Result result = library_.close(communicators_.at(rank));
    communicators_.erase(communicators_.begin() + static_cast<std::ptrdiff_t>(rank));
    return result;
  }

 private:
  PluginLibrary library_;
  std::vector<Communicator> communicators_;
  std::uint64_t last_id_ = 0;
};

/// A set-up that is under way in both ranks.
struct Setup {
  Job* job;
  std::size_t from = 0;
  std::size_t to = 1;
  int device = 0;
  alignas(8) char handle[nccl_abi::kHandleBytes] = {};
  void* listener = nullptr;
  void* send = nullptr;
  void* receive = nullptr;

  void listen() {
    ok(job->net().listen(job->context(to), device, handle, &listener), "listen");
    expect(listener != nullptr, "listen returns a communicator");
  }
  /// True: connected.
  bool connect() {
    if (!send) ok(job->net().connect(job->context(from), device, handle, &send), "connect");
    return send != nullptr;
  }
  /// True: accepted, and the listener is closed, as NCCL does at once.
  bool accept() {
    if (receive) return true;
    ok(job->net().accept(listener, &receive), "accept");
    if (!receive) return false;
    close_listener();
    return true;
  }
  /// Both, until the connection is made.
  void complete() {
    until("set-up", [&] {
      const bool connected = connect();
      return accept() && connected;
    });
  }
  void close_listener() {
    if (listener) ok(job->net().close_listen(std::exchange(listener, nullptr)), "close_listen");
  }
  // Registrations end first.
  void close_send() {
    if (send) ok(job->net().close_send(std::exchange(send, nullptr)), "close_send");
  }
  void close_receive() {
    if (receive) ok(job->net().close_receive(std::exchange(receive, nullptr)), "close_receive");
  }
  void close() {
    close_send();
    close_receive();
    close_listener();
  }
};

/// A connection between two ranks, closed at the end.
class Connection : public Setup {
 public:
  explicit Connection(Job& over, std::size_t from_rank = 0, std::size_t to_rank = 1) {
    job = &over;
    from = from_rank;
    to = to_rank;
    listen();
    complete();
  }
  ~Connection() {  // errors are those of tests that ask for them
    if (send) (void)job->net().close_send(send);
    if (receive) (void)job->net().close_receive(receive);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
};

}  // namespace nccl_conformance
