// SPDX-License-Identifier: Apache-2.0
#include "nccl/conformance/traffic.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace nccl_conformance {

namespace {

constexpr char kGuardByte = '\x5a';

/// Bytes around a buffer that are looked at each time.
constexpr std::size_t kChecked = 256;

void check_guard(const char* data, std::size_t size, const char* where) {
  for (std::size_t i = 0; i < size; ++i) {
    if (data[i] != kGuardByte) {
      throw Failure(std::string("byte ") + std::to_string(i) + where + " was written");
    }
  }
}

}  // namespace

void fill(char* data, std::size_t size, std::uint64_t key) {
  std::uint64_t word = mix(key);
  std::size_t i = 0;
  for (; i + 8 <= size; i += 8, word += 0x9e3779b97f4a7c15u) std::memcpy(data + i, &word, 8);
  std::memcpy(data + i, &word, size - i);
}

void check(const char* data, std::size_t size, std::uint64_t key, const std::string& what) {
  std::vector<char> wanted(std::min<std::size_t>(size, 65536));
  std::uint64_t word = mix(key);
  for (std::size_t done = 0; done < size; done += wanted.size()) {
    const std::size_t part = std::min(wanted.size(), size - done);
    std::size_t i = 0;
    for (; i + 8 <= part; i += 8, word += 0x9e3779b97f4a7c15u) {
      std::memcpy(wanted.data() + i, &word, 8);
    }
    std::memcpy(wanted.data() + i, &word, part - i);
    if (std::memcmp(data + done, wanted.data(), part) == 0) continue;
    const auto [wrong, _] = std::mismatch(data + done, data + done + part, wanted.data());
    throw Failure(what + ": byte " + std::to_string(wrong - data) + " of " + std::to_string(size) +
                  " is wrong");
  }
}

std::vector<Plan::Message> Plan::group(int number) const {
  Random random(mix(seed, static_cast<std::uint64_t>(number)));
  const bool listed = !sizes.empty();
  const auto most = static_cast<std::uint64_t>(most_in_group);
  const std::size_t n = listed ? 1 : 1 + random.below(most);
  std::vector<Message> messages(n);
  for (std::size_t i = 0; i < n; ++i) {
    Message& message = messages[i];
    // As many small ones as large ones.
    const std::size_t bits = random.below(65);
    const std::size_t most_here = bits >= 40 ? most_bytes : std::min(most_bytes, 1ul << (bits / 3));
    message.size = bits == 0 ? 0 : random.below(most_here + 1);
    if (listed) message.size = sizes[static_cast<std::size_t>(number)];
    message.room = message.size + (random.below(2) ? random.below(200) : 0);
    message.room = std::max<std::size_t>(message.room, 1);
    message.tag = static_cast<int>(i * 7 + 3);
    if (repeat_tags) message.tag = static_cast<int>(random.below(3));
    message.send_offset = aligned ? 0 : random.below(2) * random.below(256);
    message.receive_offset = aligned ? 0 : random.below(2) * random.below(256);
    message.key = mix(seed, static_cast<std::uint64_t>(number) * 8 + i);
  }
  return messages;
}

Pool::Pool(Net& net, void* comm, std::size_t places, std::size_t bytes)
    : net_(net), comm_(comm), pitch_((bytes + 512 + 2 * kGuard + 4095) / 4096 * 4096) {
  memory_.assign(places * pitch_ + 4096, kGuardByte);
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  start_ = memory_.data() + (4096 - address % 4096) % 4096;
  ok(net_.reg(comm_, start_, places * pitch_, nccl_abi::kHostMemory, &mr_), "reg");
}

Pool::~Pool() {
  dereg();
}

void Pool::dereg() {
  if (mr_) (void)net_.dereg(comm_, std::exchange(mr_, nullptr));
}

namespace {

std::size_t places_of(const Plan& plan) {
  return static_cast<std::size_t>(plan.depth * (plan.sizes.empty() ? plan.most_in_group : 1));
}
std::size_t bytes_of(const Plan& plan) {
  std::size_t most = plan.sizes.empty() ? plan.most_bytes : 0;
  for (const std::size_t size : plan.sizes) most = std::max(most, size);
  return most + 200;
}
std::size_t place_of(const Plan& plan, int number, std::size_t i) {
  return static_cast<std::size_t>(number % plan.depth) * (places_of(plan) / plan.depth) + i;
}
int groups_of(const Plan& plan) {
  return plan.sizes.empty() ? plan.groups : static_cast<int>(plan.sizes.size());
}

}  // namespace

Sender::Sender(Net& net, void* comm, const Plan& plan)
    : net_(net),
      comm_(comm),
      plan_(plan),
      random_(mix(plan.seed, 77)),
      pool_(net, comm, places_of(plan), bytes_of(plan)) {}

bool Sender::step() {
  start();
  send();
  reap();
  return groups_.empty() && next_ == groups_of(plan_);
}

void Sender::start() {
  if (next_ == groups_of(plan_) || groups_.size() == static_cast<std::size_t>(plan_.depth)) return;
  auto group = std::make_unique<Group>();
  group->number = next_++;
  group->messages = plan_.group(group->number);
  group->order.resize(group->messages.size());
  std::iota(group->order.begin(), group->order.end(), 0);
  for (std::size_t i = 0; i < group->messages.size(); ++i) {
    const auto& message = group->messages[i];
    fill(pool_.at(place_of(plan_, group->number, i), message.send_offset), message.size,
         message.key);
  }
  groups_.push_back(std::move(group));
}

void Sender::send() {
  for (auto& group : groups_) {
    while (!group->order.empty()) {
      // Any of those that remain; of one tag the first.
      auto chosen =
          group->order.begin() + static_cast<std::ptrdiff_t>(random_.below(group->order.size()));
      chosen = std::find_if(group->order.begin(), chosen, [&](std::size_t i) {
        return group->messages[i].tag == group->messages[*chosen].tag;
      });
      const auto& message = group->messages[*chosen];
      char* data = pool_.at(place_of(plan_, group->number, *chosen), message.send_offset);
      void* request = nullptr;
      ok(net_.isend(comm_, data, message.size, message.tag, pool_.mr(), nullptr, &request),
         "isend");
      if (!request) return;
      requests_.push_back({request, message.size, group.get()});
      ++group->outstanding;
      group->order.erase(chosen);
    }
  }
}

void Sender::reap() {
  std::erase_if(requests_, [&](const Request& entry) {
    int done = 0;
    int size = -1;
    ok(net_.test(entry.request, &done, &size), "test of a send");
    if (!done) return false;
    expect(size == static_cast<int>(entry.size),
           "a send of " + std::to_string(entry.size) + " reports " + std::to_string(size));
    --entry.group->outstanding;
    return true;
  });
  while (!groups_.empty() && groups_.front()->order.empty() && groups_.front()->outstanding == 0) {
    groups_.pop_front();
  }
}

Receiver::Receiver(Net& net, void* comm, const Plan& plan)
    : net_(net), comm_(comm), plan_(plan), pool_(net, comm, places_of(plan), bytes_of(plan)) {}

char* Receiver::place(int number, std::size_t i, const Plan::Message& message) const {
  return pool_.at(place_of(plan_, number, i), message.receive_offset);
}

void Receiver::post() {
  while (next_ < groups_of(plan_) && groups_.size() < static_cast<std::size_t>(plan_.depth)) {
    Group group{next_, plan_.group(next_), nullptr};
    void* data[8];
    std::size_t sizes[8];
    int tags[8];
    void* mrs[8];
    for (std::size_t i = 0; i < group.messages.size(); ++i) {
      const auto& message = group.messages[i];
      char* buffer = place(next_, i, message);
      std::memset(buffer - kChecked, kGuardByte, message.room + 2 * kChecked);
      data[i] = buffer;
      sizes[i] = message.room;
      tags[i] = message.tag;
      mrs[i] = pool_.mr();
    }
    void* parents[8] = {};
    ok(net_.irecv(comm_, static_cast<int>(group.messages.size()), data, sizes, tags, mrs, parents,
                  &group.request),
       "irecv");
    if (!group.request) return;
    groups_.push_back(std::move(group));
    ++next_;
  }
}

void Receiver::check_group(const Group& group, const int* sizes) const {
  const std::string name = "group " + std::to_string(group.number) + ", message ";
  for (std::size_t i = 0; i < group.messages.size(); ++i) {
    const auto& message = group.messages[i];
    const std::string what = name + std::to_string(i);
    expect(sizes[i] == static_cast<int>(message.size),
           what + ": size " + std::to_string(sizes[i]) + ", not " + std::to_string(message.size));
    const char* buffer = place(group.number, i, message);
    check(buffer, message.size, message.key, what);
    check_guard(buffer - kChecked, kChecked, " of the guard before a buffer");
    check_guard(buffer + message.size, message.room - message.size + kChecked, " behind a message");
  }
}

bool Receiver::step() {
  post();
  for (auto group = groups_.begin(); group != groups_.end();) {
    int done = 0;
    int sizes[8] = {-1, -1, -1, -1, -1, -1, -1, -1};
    ok(net_.test(group->request, &done, sizes), "test of a receive");
    if (!done) {
      // Later ones may not have completed either; asking all of them would take its time.
      break;
    }
    check_group(*group, sizes);
    group = groups_.erase(group);
  }
  return groups_.empty() && next_ == groups_of(plan_);
}

void exchange(Net& net, void* send, void* receive, const Plan& plan) {
  Sender sender(net, send, plan);
  Receiver receiver(net, receive, plan);
  until("traffic", [&] {
    const bool sent = sender.step();
    return receiver.step() && sent;
  });
}

void run(Job& job, const std::vector<Connection*>& connections, const Plan& plan) {
  std::vector<std::unique_ptr<Sender>> senders[2];
  std::vector<std::unique_ptr<Receiver>> receivers[2];
  for (std::size_t i = 0; i < connections.size(); ++i) {
    Plan own = plan;
    own.seed = mix(plan.seed, i);
    const auto& connection = *connections[i];
    senders[connection.from].push_back(std::make_unique<Sender>(job.net(), connection.send, own));
    receivers[connection.to].push_back(
        std::make_unique<Receiver>(job.net(), connection.receive, own));
  }
  const auto progress = [&](std::size_t rank) {
    until("traffic of rank " + std::to_string(rank), [&] {
      bool done = true;
      for (auto& sender : senders[rank]) done &= sender->step();
      for (auto& receiver : receivers[rank]) done &= receiver->step();
      return done;
    });
  };
  in_two_threads([&] { progress(0); }, [&] { progress(1); });
}

}  // namespace nccl_conformance
