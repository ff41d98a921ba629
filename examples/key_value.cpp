// SPDX-License-Identifier: Apache-2.0
// A key-value store whose clients look values up by themselves: they READ the server's table, and
// its program takes no part in that. What changes the table goes through the program: a client
// sends it a request by SEND and gets an answer. Atomics count lookups, and tell when all clients
// are ready.
//
// Server and clients are two devices of this process; in two processes it is the same, with the
// connection data and the address of the table exchanged over TCP (mrc::exchange).
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mrc/mrc.hpp"

namespace {

constexpr auto kPatience = std::chrono::seconds(20);
constexpr unsigned kRequests = 64;  // receives of the server: as many clients can ask at a time

// A place of the table, and a request to fill one.
struct Entry {
  std::uint64_t key;
  std::array<char, 56> value;
};

// Words that clients change by atomics.
struct Counters {
  std::uint64_t ready, lookups;
};

void must(mrc::Errc e, const char* what) {
  if (e != mrc::Errc::ok) throw mrc::Error(e, what);
}

mrc::Completion await(mrc::CompletionQueue& cq) {
  mrc::Completion done;
  if (cq.wait({&done, 1}, kPatience) == 0) throw std::runtime_error("nothing has ended for 20 s");
  if (done.status != mrc::WcStatus::success) throw std::runtime_error(to_string(done.status));
  return done;
}

Entry made_up(std::uint64_t key) {
  Entry entry{key, {}};
  std::snprintf(entry.value.data(), entry.value.size(), "value %llu",
                static_cast<unsigned long long>(key * 2'654'435'761u));
  return entry;
}

// What clients need to know of the server's memory.
struct Shared {
  mrc::RemoteAddress table, counters;
};

class Server {
 public:
  Server(const mrc::Config& config, unsigned clients, std::uint64_t keys)
      : device_(config),
        table_(keys),
        inbox_(kRequests),
        table_region_(device_.register_memory(table_, mrc::Access::remote_read)),
        counters_region_(device_.register_memory(
            std::span(&counters_, 1), mrc::Access::remote_read | mrc::Access::remote_atomic)),
        inbox_region_(device_.register_memory(inbox_, mrc::Access::local_write)),
        cq_(device_.create_cq(4 * kRequests)),
        requests_(device_.create_srq({.depth = kRequests})) {
    for (unsigned i = 0; i < kRequests; ++i) post_receive(i);
    // The clients' queue pairs share the receives: a client that asks for nothing takes no memory.
    for (unsigned i = 0; i < clients; ++i)
      qps_.push_back(device_.create_qp({.send_cq = &cq_, .srq = &requests_}));
  }

  mrc::QueuePair& qp(unsigned client) { return qps_[client]; }
  [[nodiscard]] Shared shared() const {
    return {table_region_.remote(), counters_region_.remote()};
  }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  // Fills the table as clients ask for it.
  void run(std::uint64_t requests) {
    while (requests > 0) {
      const mrc::Completion done = await(cq_);
      if (done.opcode != mrc::WcOpcode::recv) continue;  // an answer has arrived
      const Entry& entry = inbox_[done.wr_id];
      table_.at(entry.key) = entry;
      post_receive(done.wr_id);
      for (mrc::QueuePair& qp : qps_)  // the answer: no data, the key as immediate value
        if (qp.qpn() == done.qpn)
          must(qp.post_send({.opcode = mrc::SendOpcode::send_imm,
                             .immediate = static_cast<std::uint32_t>(entry.key)}),
               "answering");
      --requests;
    }
  }

 private:
  void post_receive(std::uint64_t slot) {
    const mrc::Sge sge{&inbox_[slot], sizeof(Entry), inbox_region_.lkey()};
    must(requests_.post_receive({slot, {&sge, 1}}), "posting a receive");
  }

  mrc::Device device_;
  std::vector<Entry> table_, inbox_;
  Counters counters_{};
  mrc::MemoryRegion table_region_, counters_region_, inbox_region_;
  mrc::CompletionQueue cq_;
  mrc::SharedReceiveQueue requests_;
  std::vector<mrc::QueuePair> qps_;
};

class Client {
 public:
  Client(mrc::Device& device, const Shared& server)
      : server_(server),
        region_(device.register_memory(std::span(&memory_, 1), mrc::Access::local_write)),
        cq_(device.create_cq(16)),
        qp_(device.create_qp({.send_cq = &cq_, .capacity = {.atomics = true}})) {}
  Client(const Client&) = delete;  // its memory is registered
  Client& operator=(const Client&) = delete;

  mrc::QueuePair& qp() { return qp_; }

  // Has the server's program store a value, and waits for its answer.
  void put(const Entry& entry) {
    memory_.entry = entry;
    must(qp_.post_receive(entry.key), "posting a receive");
    request(mrc::SendOpcode::send, {&memory_.entry, sizeof(Entry), region_.lkey()}, {});
    for (bool sent = false, answered = false; !sent || !answered;) {
      const mrc::Completion done = await(cq_);
      (done.opcode == mrc::WcOpcode::send ? sent : answered) = true;
      if (done.has_immediate && done.immediate != entry.key)
        throw std::runtime_error("the answer is to another request");
    }
  }
  // Reads a value where it is. Where values change while they are read, it needs a checksum.
  Entry get(std::uint64_t key) {
    request(mrc::SendOpcode::read, {&memory_.entry, sizeof(Entry), region_.lkey()},
            {server_.table.address + key * sizeof(Entry), server_.table.rkey});
    await(cq_);
    return memory_.entry;
  }
  // Adds to one of the server's counters; returns what it was.
  std::uint64_t add(std::size_t counter, std::uint64_t n) {
    request(mrc::SendOpcode::fetch_add, {&memory_.word, sizeof memory_.word, region_.lkey()},
            {server_.counters.address + counter, server_.counters.rkey}, n);
    await(cq_);
    return memory_.word;
  }

 private:
  void request(mrc::SendOpcode opcode, const mrc::Sge& sge, mrc::RemoteAddress remote,
               std::uint64_t n = 0) {
    must(qp_.post_send({.opcode = opcode, .sges = {&sge, 1}, .remote = remote, .compare_add = n}),
         "posting");
  }

  const Shared server_;
  struct {
    Entry entry;
    alignas(8) std::uint64_t word;
  } memory_{};
  mrc::MemoryRegion region_;
  mrc::CompletionQueue cq_;
  mrc::QueuePair qp_;
};

// Stores a share of the keys, waits until all clients have, and looks up all of them.
void use(Client& client, unsigned number, unsigned clients, std::uint64_t keys) {
  for (std::uint64_t key = number; key < keys; key += clients) client.put(made_up(key));
  client.add(offsetof(Counters, ready), 1);
  while (client.add(offsetof(Counters, ready), 0) < clients) std::this_thread::yield();
  for (std::uint64_t key = 0; key < keys; ++key) {
    const Entry expected = made_up(key), entry = client.get(key);
    if (entry.key != key || entry.value != expected.value)
      throw std::runtime_error("key " + std::to_string(key) + " has another value");
  }
  client.add(offsetof(Counters, lookups), keys);
}

void run(unsigned clients, std::uint64_t keys) {
  const mrc::Config config = mrc::Config::from_environment();
  mrc::Device device(config);
  Server server(config, clients, keys);
  std::vector<std::unique_ptr<Client>> all;
  for (unsigned i = 0; i < clients; ++i) {
    all.push_back(std::make_unique<Client>(device, server.shared()));
    all[i]->qp().connect(server.qp(i).local_info());
    server.qp(i).connect(all[i]->qp().local_info());
  }

  std::vector<std::exception_ptr> errors(clients + 1);
  std::vector<std::thread> threads;
  const auto start = [&](unsigned thread, std::function<void()> work) {
    threads.emplace_back([&errors, thread, work = std::move(work)] {
      try {
        work();
      } catch (...) {
        errors[thread] = std::current_exception();
      }
    });
  };
  for (unsigned i = 0; i < clients; ++i) start(i, [&, i] { use(*all[i], i, clients, keys); });
  start(clients, [&] { server.run(keys); });  // and then it sleeps, while the clients look up
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);

  const std::uint64_t lookups = server.counters().lookups;
  std::printf("%u clients, %llu keys: %llu lookups by READ, all values right\n", clients,
              static_cast<unsigned long long>(keys), static_cast<unsigned long long>(lookups));
  if (lookups != clients * keys) throw std::runtime_error("the lookups were counted wrong");
}

}  // namespace

int main(int argc, char** argv) {
  unsigned clients = 3;
  std::uint64_t keys = 1000;
  CLI::App app("A key-value store: requests by SEND, lookups by READ, counters by atomics.");
  app.add_option("--clients", clients, "threads that use the store")
      ->check(CLI::Range(1u, kRequests))
      ->capture_default_str();
  app.add_option("--keys", keys, "values in the store")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    run(clients, keys);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "key_value: %s\n", error.what());
    return 1;
  }
}
