// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "nccl/conformance/rig.hpp"

/// Random messages whose every byte is checked.
namespace nccl_conformance {

/// A number that depends on all arguments (splitmix64).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b = 0) {
  std::uint64_t z = a + 0x9e3779b97f4a7c15u * (b + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// Random numbers from a seed.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  /// From 0 to below `limit`.
  std::uint64_t below(std::uint64_t limit) { return mix(state_, ++count_) % limit; }

 private:
  std::uint64_t state_;
  std::uint64_t count_ = 0;
};

/// Fills bytes with a pattern that depends on the key.
void fill(char* data, std::size_t size, std::uint64_t key);
/// Fails, with the first wrong byte, unless fill() was here.
void check(const char* data, std::size_t size, std::uint64_t key, const std::string& what);

/// What goes over one connection, the same for both ends.
struct Plan {
  std::uint64_t seed = 1;
  int groups = 50;  ///< receives
  int most_in_group = 8;
  int depth = nccl_abi::kMaxRequests;   ///< groups in flight
  std::size_t most_bytes = 8192;        ///< of a message
  bool aligned = false;                 ///< to 128 bytes
  bool repeat_tags = false;             ///< within a group
  std::vector<std::size_t> sizes = {};  ///< if not empty: of group 0, 1, ..., one message each

  struct Message {
    std::size_t size;
    std::size_t room;  ///< of the receive
    int tag;
    std::size_t send_offset;  ///< of the buffers from a multiple of 4096
    std::size_t receive_offset;
    std::uint64_t key;
  };
  /// The messages of a group, in the order of the receive.
  [[nodiscard]] std::vector<Message> group(int number) const;
};

/// Buffers of one end, registered as one.
class Pool {
 public:
  /// For `places` buffers of `bytes` at any offset, with guard bytes around.
  Pool(Net& net, void* comm, std::size_t places, std::size_t bytes);
  ~Pool();
  /// Ends the registration, before its communicator closes.
  void dereg();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// The place; behind a guard, `offset` bytes behind a multiple of 4096.
  [[nodiscard]] char* at(std::size_t place, std::size_t offset) const {
    return start_ + place * pitch_ + kGuard + offset;
  }
  [[nodiscard]] void* mr() const { return mr_; }
  /// Bytes of a guard, before and behind a buffer.
  static constexpr std::size_t kGuard = 4096;

 private:
  Net& net_;
  void* comm_;
  std::size_t pitch_;
  std::vector<char> memory_;
  char* start_;
  void* mr_ = nullptr;
};

/// The sending end of a connection. Groups go in order; the messages of a group in random order.
class Sender {
 public:
  Sender(Net& net, void* comm, const Plan& plan);
  /// Makes some progress; true: all is done.
  bool step();

 private:
  struct Group {
    int number;
    std::vector<Plan::Message> messages;
    std::vector<std::size_t> order;  // still to be sent
    int outstanding = 0;
  };
  struct Request {
    void* request;
    std::size_t size;
    Group* group;
  };

  void start();
  void send();
  void reap();

  Net& net_;
  void* comm_;
  Plan plan_;
  Random random_;
  Pool pool_;
  std::deque<std::unique_ptr<Group>> groups_;
  std::vector<Request> requests_;
  int next_ = 0;
};

/// The receiving end.
class Receiver {
 public:
  Receiver(Net& net, void* comm, const Plan& plan);
  /// Makes some progress; true: all is done.
  bool step();

 private:
  struct Group {
    int number;
    std::vector<Plan::Message> messages;
    void* request;
  };

  [[nodiscard]] char* place(int number, std::size_t i, const Plan::Message& message) const;
  void post();
  void check_group(const Group& group, const int* sizes) const;

  Net& net_;
  void* comm_;
  Plan plan_;
  Pool pool_;
  std::deque<Group> groups_;
  int next_ = 0;
};

/// A plan over one connection, both ends moved by this thread.
void exchange(Net& net, void* send, void* receive, const Plan& plan);

/// Plans over connections, all at once: rank 0's ends are moved by one thread, rank 1's by another,
/// as NCCL's progress threads do. Connections of rank 0 to 1 and back.
void run(Job& job, const std::vector<Connection*>& connections, const Plan& plan);

}  // namespace nccl_conformance
