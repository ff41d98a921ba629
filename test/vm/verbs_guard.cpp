// SPDX-License-Identifier: Apache-2.0
// verbs_guard: writes over two RDMA devices of this machine (rxe1 to rxe2), with a receiver that
// watches its memory. The hard rule of ports that place payload: nothing is written after the
// receiver was told that a message is complete.
//
// Memory is a ring of slots between guard bytes, one message each. When a message has completed,
// the receiver compares it, seals the slot with bytes of its own, and lets the sender use it again
// only after it has found the seal unbroken. Prints one JSON object; exit status 0 if all was
// right.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "mrc/mrc.hpp"
#include "mrc/stats_json.hpp"

namespace {

using namespace std::chrono_literals;

struct Options {
  std::string from = "rxe1", to = "rxe2", mode = "uc", faults;
  unsigned messages = 20'000, qps = 4, slots = 64;
  std::uint32_t size = 8192;
  double seconds = 120;
};

constexpr std::size_t kGuard = 256;
constexpr std::uint8_t kGuardByte = 0xA5, kSeal = 0x5A;

/// The byte at `i` of message `n` of a queue pair. Never a guard's or a seal's.
std::uint8_t byte_of(unsigned qp, unsigned n, std::size_t i) {
  return static_cast<std::uint8_t>((n * 31 + qp * 7 + i / 8) % 80 + 1);
}
/// Bytes of a message: at least a half of the largest, a multiple of 4.
std::uint32_t size_of(const Options& o, unsigned n) {
  return (o.size / 2 + n * 2654435761u % (o.size / 2 + 1)) / 4 * 4;
}

mrc::Config config_of(const Options& o, const std::string& device, bool faulty) {
  mrc::Config c = mrc::Config::from_environment();
  c.verbs = device;
  c.placement = o.mode == "uc";
  if (faulty) c.faults = o.faults;
  return c;
}

/// The messages of one queue pair; the receiver's memory.
struct Lane {
  Lane(const Options& o, mrc::Device& a, mrc::Device& b)
      : source(std::size_t{o.slots} * o.size),
        target(o.slots * (o.size + kGuard) + kGuard, kGuardByte),
        source_region(a.register_memory(source, mrc::Access::none)),
        target_region(
            b.register_memory(target, mrc::Access::remote_write | mrc::Access::relaxed_ordering)),
        sent(a.create_cq(o.slots)),
        received(b.create_cq(o.slots)),
        from(a.create_qp({.send_cq = &sent, .capacity = {.send = o.slots, .receive = 1}})),
        to(b.create_qp({.send_cq = &received, .capacity = {.send = 1, .receive = o.slots}})) {}

  [[nodiscard]] std::size_t slot_at(const Options& o, unsigned n) const {
    return kGuard + n % o.slots * (o.size + kGuard);
  }

  std::vector<std::uint8_t> source, target;
  mrc::MemoryRegion source_region, target_region;
  mrc::CompletionQueue sent, received;
  mrc::QueuePair from, to;
  std::atomic<unsigned> checked{0};  ///< messages whose slots the sender may use again
};

struct Found {
  std::atomic<std::uint64_t> wrong_bytes{0}, broken_seals{0}, broken_guards{0}, failed{0};
  std::atomic<bool> stop{false};
};

void send(const Options& o, unsigned qp, Lane& lane, Found& found) {
  unsigned acknowledged = 0;
  for (unsigned n = 0; acknowledged < o.messages && !found.stop;) {
    std::array<mrc::Completion, 16> done;
    const bool room = n < o.messages && n - lane.checked < o.slots && n - acknowledged < o.slots;
    const std::size_t count = room ? lane.sent.poll(done) : lane.sent.wait(done, 1ms);
    for (std::size_t i = 0; i < count; ++i) {
      ++acknowledged;
      if (done[i].status != mrc::WcStatus::success) {
        std::fprintf(stderr, "queue pair %u: %s\n", qp, lane.from.error_text().c_str());
        ++found.failed;
        found.stop = true;
      }
    }
    if (!room) continue;
    const std::uint32_t size = size_of(o, n);
    std::uint8_t* data = lane.source.data() + std::size_t{n % o.slots} * o.size;
    for (std::size_t i = 0; i < size; ++i) data[i] = byte_of(qp, n, i);
    const mrc::Sge sge{data, size, lane.source_region.lkey()};
    mrc::SendRequest request;
    request.opcode = mrc::SendOpcode::write_imm;
    request.sges = {&sge, 1};
    request.remote = lane.target_region.remote(lane.slot_at(o, n));
    request.immediate = n;
    if (lane.from.post_send(request) == mrc::Errc::ok) ++n;
  }
}

std::size_t differing(const std::uint8_t* at, std::size_t size, std::uint8_t value) {
  return size - static_cast<std::size_t>(std::count(at, at + size, value));
}

void receive(const Options& o, unsigned qp, Lane& lane, Found& found) {
  for (unsigned i = 0; i < o.slots; ++i)
    if (lane.to.post_receive(i) != mrc::Errc::ok) found.stop = true;
  // A slot is looked at again this many messages after it was sealed.
  const unsigned later = o.slots / 2;
  for (unsigned n = 0; n < o.messages && !found.stop;) {
    std::array<mrc::Completion, 16> done;
    const std::size_t count = lane.received.wait(done, 10ms);
    for (std::size_t k = 0; k < count; ++k, ++n) {
      if (done[k].status != mrc::WcStatus::success || done[k].immediate != n) {
        ++found.failed;
        found.stop = true;
        return;
      }
      std::uint8_t* slot = lane.target.data() + lane.slot_at(o, n);
      const std::uint32_t size = size_of(o, n);
      for (std::size_t i = 0; i < size; ++i) found.wrong_bytes += slot[i] != byte_of(qp, n, i);
      found.broken_guards += differing(slot - kGuard, kGuard, kGuardByte);
      std::fill(slot, slot + o.size, kSeal);
      (void)lane.to.post_receive(n);
      if (n < later) continue;
      found.broken_seals +=
          differing(lane.target.data() + lane.slot_at(o, n - later), o.size, kSeal);
      lane.checked = n - later + 1;
    }
  }
  std::this_thread::sleep_for(200ms);  // what is still under way
  for (unsigned n = lane.checked; n < o.messages; ++n)
    found.broken_seals += differing(lane.target.data() + lane.slot_at(o, n), o.size, kSeal);
  lane.checked = o.messages;
}

int run(const Options& o) {
  mrc::Device a(config_of(o, o.from, false)), b(config_of(o, o.to, true));
  std::vector<std::unique_ptr<Lane>> lanes;
  for (unsigned i = 0; i < o.qps; ++i) {
    lanes.push_back(std::make_unique<Lane>(o, a, b));
    lanes.back()->from.connect(lanes.back()->to.local_info());
    lanes.back()->to.connect(lanes.back()->from.local_info());
  }
  Found found;
  std::vector<std::thread> threads;
  std::atomic<unsigned> ended{0};
  for (unsigned i = 0; i < o.qps; ++i) {
    threads.emplace_back([&, i] { receive(o, i, *lanes[i], found), ++ended; });
    threads.emplace_back([&, i] { send(o, i, *lanes[i], found), ++ended; });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(o.seconds);
  while (ended < threads.size() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(10ms);
  const bool in_time = ended == threads.size();
  found.stop = true;
  for (std::thread& thread : threads) thread.join();
  unsigned completed = 0;
  for (const auto& lane : lanes) completed += lane->checked;
  const bool good = in_time && found.failed == 0 && completed == o.messages * o.qps &&
                    found.wrong_bytes == 0 && found.broken_guards == 0 && found.broken_seals == 0;
  const nlohmann::json report{{"good", good},
                              {"in_time", in_time},
                              {"completed", completed},
                              {"failed", found.failed.load()},
                              {"wrong_bytes", found.wrong_bytes.load()},
                              {"broken_seals", found.broken_seals.load()},
                              {"broken_guards", found.broken_guards.load()},
                              {"sender", a.stats().planes.at(0).port},
                              {"receiver", b.stats().planes.at(0).port}};
  std::printf("%s\n", report.dump().c_str());
  return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options o;
  CLI::App app("Writes between two RDMA devices, with a receiver that watches its memory");
  app.add_option("--from", o.from, "Device that sends")->capture_default_str();
  app.add_option("--to", o.to, "Device that receives")->capture_default_str();
  app.add_option("--mode", o.mode, "ud, or uc: the device places")
      ->check(CLI::IsMember({"ud", "uc"}))
      ->capture_default_str();
  app.add_option("--messages", o.messages, "Of each queue pair")->capture_default_str();
  app.add_option("--qps", o.qps, "Queue pairs")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--size", o.size, "Bytes of the largest message")
      ->check(CLI::Range(8, 1 << 20))
      ->capture_default_str();
  app.add_option("--faults", o.faults, "Of the receiving device, as option faults");
  app.add_option("--seconds", o.seconds, "Give up after this time")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return run(o);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verbs_guard: %s\n", error.what());
    return 1;
  }
}
