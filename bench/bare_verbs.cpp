// SPDX-License-Identifier: Apache-2.0
// What verbs reach between two devices of this machine without a protocol above them: one process
// sends 64 KiB writes as messages of one packet, sprayed over queue pairs, another receives them.
// By UD, with a header as a protocol would need it, or by UC as RDMA writes with immediate data.
// Nothing is repeated, ordered or congestion controlled; the receiver's credits only see to it that
// each message finds a posted receive.
#include <arpa/inet.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "bare_verbs_rig.hpp"
#include "common/interrupt.hpp"

namespace bare {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// The first word of what the processes tell each other; a count for each queue pair follows.
enum Word : std::uint32_t {
  kCredit,  // receives are posted again for all messages below these numbers
  kSync,    // so many are sent, for long: what has not arrived never will
  kEnd      // so many were sent in all; from the receiver: the result is next
};

constexpr milliseconds kSilence{300};  // what is on its way arrives in less
constexpr int kPatience = 20'000;      // in ms, for anything that the other process has to do

/// What the receiver tells at the end.
struct Received {
  std::uint64_t messages, duplicates, bytes, payload;
  double seconds;  // from the first message to the last one
  Cpu cpu;
};

struct Sent {
  std::uint64_t messages, stalls;
  double busy;
  Cpu cpu;
};

class Sender {
 public:
  Sender(const Settings& settings, Endpoint& endpoint, const Channel& channel)
      : settings_(settings), endpoint_(endpoint), channel_(channel), queues_(settings.qps) {
    for (Queue& queue : queues_) {
      queue.requests.resize(settings.chain);
      queue.sges.resize(2 * std::size_t{settings.chain});
    }
  }

  Sent run() {
    const Cpu before = cpu_used();
    const double busy = machine_busy();
    const auto end = Clock::now() + std::chrono::duration<double>(settings_.seconds);
    last_move_ = Clock::now();
    while (!mrc::tools::g_interrupted && Clock::now() < end) {
      const bool posted = post(), reaped = reap();
      if (posted || reaped || take_credits()) {
        last_move_ = Clock::now();
      } else {
        idle();
      }
    }
    const auto limit = Clock::now() + milliseconds(kPatience);
    while (outstanding_ > 0 && Clock::now() < limit) {
      if (!reap()) sched_yield();
    }
    if (outstanding_ > 0) fail("{} sends do not complete", outstanding_);
    const Sent result{total_, stalls_, machine_busy() - busy, since(before)};
    tell(kEnd);
    return result;
  }

 private:
  struct Queue {
    std::uint32_t sent = 0, seen = 0, outstanding = 0, length = 0;
    std::vector<ibv_send_wr> requests;
    std::vector<ibv_sge> sges;
  };

  [[nodiscard]] bool has_room(const Queue& queue) const {
    return queue.length < settings_.chain && queue.outstanding < settings_.depth &&
           queue.sent - queue.seen < settings_.depth;
  }

  /// One chain for each queue pair, as long as its room allows; messages take turns among them.
  bool post() {
    bool any = false;
    for (std::uint32_t full = 0; full < settings_.qps; next_qp_ = (next_qp_ + 1) % settings_.qps) {
      if (!has_room(queues_[next_qp_])) {
        ++full;
        continue;
      }
      full = 0;
      any = true;
      append(next_qp_);
    }
    for (std::uint32_t i = 0; i < settings_.qps; ++i) {
      Queue& queue = queues_[i];
      if (queue.length == 0) continue;
      ibv_send_wr& last = queue.requests[queue.length - 1];
      last.next = nullptr;
      last.send_flags = IBV_SEND_SIGNALED;
      last.wr_id = std::uint64_t{i} << 32 | queue.length;
      ibv_send_wr* bad = nullptr;
      const int error = ibv_post_send(endpoint_.qp(i), queue.requests.data(), &bad);
      if (error != 0) fail_errno("ibv_post_send", error);
      queue.length = 0;
    }
    return any;
  }

  void append(std::uint32_t i) {
    Queue& queue = queues_[i];
    const std::uint32_t offset = in_write_ * settings_.payload();
    const std::uint32_t payload = std::min(settings_.payload(), settings_.write - offset);
    in_write_ = (in_write_ + 1) % settings_.messages_per_write();
    ibv_send_wr& request = queue.requests[queue.length];
    ibv_sge* sges = &queue.sges[2 * std::size_t{queue.length}];
    request = {};
    request.sg_list = sges;
    if (settings_.ud) {
      const std::size_t slot = std::size_t{i} * settings_.depth + queue.sent % settings_.depth;
      char* header = endpoint_.memory() + endpoint_.headers() + slot * settings_.header;
      std::memcpy(header, &queue.sent, sizeof queue.sent);
      *sges++ = {reinterpret_cast<std::uint64_t>(header), settings_.header, endpoint_.lkey()};
      request.opcode = IBV_WR_SEND;
      request.num_sge = 2;
      request.wr.ud = {endpoint_.ah(), endpoint_.peer().qp_numbers[i], kQKey};
    } else {
      request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      request.num_sge = 1;
      request.imm_data = htonl(queue.sent);
      request.wr.rdma = {endpoint_.peer().memory + offset, endpoint_.peer().rkey};
    }
    *sges = {reinterpret_cast<std::uint64_t>(endpoint_.memory()) + offset, payload,
             endpoint_.lkey()};
    if (queue.length + 1 < settings_.chain) request.next = &queue.requests[queue.length + 1];
    ++queue.length;
    ++queue.sent;
    ++queue.outstanding;
    ++outstanding_;
    ++total_;
  }

  bool reap() {
    std::array<ibv_wc, 32> done;
    const int n = ibv_poll_cq(endpoint_.cq(), static_cast<int>(done.size()), done.data());
    if (n < 0) fail("ibv_poll_cq failed");
    for (int i = 0; i < n; ++i) {
      if (done[i].status != IBV_WC_SUCCESS) fail("send: {}", ibv_wc_status_str(done[i].status));
      const auto count = static_cast<std::uint32_t>(done[i].wr_id);
      queues_[done[i].wr_id >> 32].outstanding -= count;
      outstanding_ -= count;
    }
    return n > 0;
  }

  bool take_credits() {
    const auto words = channel_.receive<std::uint32_t>(0);
    if (words.empty()) return false;
    for (std::uint32_t i = 0; i < settings_.qps; ++i) queues_[i].seen = words.at(i + 1);
    return true;
  }

  /// Where all messages that a queue pair has room for were lost, no credit ever comes by itself.
  void idle() {
    sched_yield();
    if (outstanding_ > 0 || Clock::now() - last_move_ < kSilence) return;
    tell(kSync);
    ++stalls_;
    last_move_ = Clock::now();
  }

  void tell(Word word) const {
    std::vector<std::uint32_t> words{word};
    for (const Queue& queue : queues_) words.push_back(queue.sent);
    channel_.send<std::uint32_t>(words);
  }

  const Settings& settings_;
  Endpoint& endpoint_;
  const Channel& channel_;
  std::vector<Queue> queues_;
  std::uint32_t next_qp_ = 0, in_write_ = 0;
  std::uint64_t outstanding_ = 0, total_ = 0, stalls_ = 0;
  Clock::time_point last_move_;
};

class Receiver {
 public:
  Receiver(const Settings& settings, Endpoint& endpoint, const Channel& channel)
      : settings_(settings), endpoint_(endpoint), channel_(channel), queues_(settings.qps) {
    for (std::uint32_t i = 0; i < settings.qps; ++i) {
      Queue& queue = queues_[i];
      queue.recent.resize(4096);
      for (std::uint32_t slot = 0; slot < settings.depth + kSpareReceives; ++slot)
        queue.used.push_back(slot);
      post(i);
    }
  }

  Received run() {
    const Cpu before = cpu_used();
    bool ended = false;
    for (unsigned empty = 0; !ended || !complete();) {
      const bool moved = take();
      empty = moved ? 0 : empty + 1;
      if (unreported_ >= settings_.qps * settings_.depth / 4 || (empty == 64 && unreported_ > 0))
        credit();
      if (moved) continue;
      if (ended && Clock::now() - last_ > kSilence && Clock::now() - end_ > kSilence) break;
      if (const auto words = channel_.receive<std::uint32_t>(0); !words.empty()) {
        ended = words[0] == kEnd;
        told(words);
      }
      sched_yield();
    }
    result_.seconds = std::chrono::duration<double>(last_ - first_).count();
    result_.cpu = since(before);
    return result_;
  }

 private:
  struct Queue {
    std::uint32_t seen = 0;
    std::vector<std::uint32_t> used;    // slots whose receives have completed
    std::vector<std::uint32_t> recent;  // a message's number + 1, at its place
  };

  [[nodiscard]] bool complete() const { return result_.messages >= expected_; }

  void post(std::uint32_t i) {
    std::array<ibv_recv_wr, 32> requests;
    std::array<ibv_sge, 32> sges;
    std::vector<std::uint32_t>& used = queues_[i].used;
    while (!used.empty()) {
      const std::size_t count = std::min(used.size(), requests.size());
      for (std::size_t k = 0; k < count; ++k) {
        const std::uint32_t slot = used[used.size() - count + k];
        requests[k] = {};
        requests[k].wr_id = std::uint64_t{i} << 32 | slot;
        requests[k].next = k + 1 < count ? &requests[k + 1] : nullptr;
        if (!settings_.ud) continue;  // a write needs no memory of the receive
        sges[k] = {reinterpret_cast<std::uint64_t>(message(i, slot)), endpoint_.receive_size(),
                   endpoint_.lkey()};
        requests[k].sg_list = &sges[k];
        requests[k].num_sge = 1;
      }
      used.resize(used.size() - count);
      ibv_recv_wr* bad = nullptr;
      const int error = ibv_post_recv(endpoint_.qp(i), requests.data(), &bad);
      if (error != 0) fail_errno("ibv_post_recv", error);
    }
  }

  [[nodiscard]] char* message(std::uint32_t i, std::uint32_t slot) const {
    const std::size_t n = std::size_t{i} * (settings_.depth + kSpareReceives) + slot;
    return endpoint_.memory() + n * endpoint_.receive_size();
  }

  bool take() {
    std::array<ibv_wc, 32> done;
    const int n = ibv_poll_cq(endpoint_.cq(), static_cast<int>(done.size()), done.data());
    if (n < 0) fail("ibv_poll_cq failed");
    if (n == 0) return false;
    last_ = Clock::now();
    if (result_.messages == 0) first_ = last_;
    for (int i = 0; i < n; ++i) take(done[i]);
    return true;
  }

  void take(const ibv_wc& done) {
    if (done.status != IBV_WC_SUCCESS) fail("receive: {}", ibv_wc_status_str(done.status));
    const auto qp = static_cast<std::uint32_t>(done.wr_id >> 32);
    const auto slot = static_cast<std::uint32_t>(done.wr_id);
    std::uint32_t number = ntohl(done.imm_data), bytes = done.byte_len;
    if (settings_.ud) {
      std::memcpy(&number, message(qp, slot) + kGrhBytes, sizeof number);
      bytes -= kGrhBytes;
    }
    Queue& queue = queues_[qp];
    queue.used.push_back(slot);
    queue.seen = std::max(queue.seen, number + 1);
    ++unreported_;
    std::uint32_t& recent = queue.recent[number % queue.recent.size()];
    if (recent == number + 1) {
      ++result_.duplicates;
      return;
    }
    recent = number + 1;
    ++result_.messages;
    result_.bytes += bytes;
    result_.payload += bytes - (settings_.ud ? settings_.header : 0);
  }

  void credit() {
    std::vector<std::uint32_t> words{kCredit};
    for (std::uint32_t i = 0; i < settings_.qps; ++i) {
      post(i);
      words.push_back(queues_[i].seen);
    }
    channel_.send<std::uint32_t>(words);
    unreported_ = 0;
  }

  void told(const std::vector<std::uint32_t>& words) {
    end_ = Clock::now();
    expected_ = 0;
    for (std::uint32_t i = 0; i < settings_.qps; ++i) {
      expected_ += words.at(i + 1);
      if (words[0] == kSync) queues_[i].seen = std::max(queues_[i].seen, words[i + 1]);
    }
    if (words[0] == kSync) credit();
  }

  const Settings& settings_;
  Endpoint& endpoint_;
  const Channel& channel_;
  std::vector<Queue> queues_;
  std::uint32_t unreported_ = 0;
  std::uint64_t expected_ = 0;
  Clock::time_point first_{}, last_{}, end_{};
  Received result_{};
};

Address exchange(const Channel& channel, const Endpoint& endpoint) {
  const Address mine = endpoint.address();
  channel.send<Address>({&mine, 1});
  const auto theirs = channel.receive<Address>(kPatience);
  if (theirs.size() != 1) fail("the other process does not answer");
  return theirs[0];
}

void receive(const Settings& settings, const Channel& channel) {
  Endpoint endpoint(settings, settings.to, false);
  Receiver receiver(settings, endpoint, channel);
  endpoint.connect(exchange(channel, endpoint));
  const std::uint32_t ready = kCredit;
  channel.send<std::uint32_t>({&ready, 1});
  const Received result = receiver.run();
  const std::uint32_t ended = kEnd;
  channel.send<std::uint32_t>({&ended, 1});
  channel.send<Received>({&result, 1});
}

void report(const Settings& s, const Sent& sent, const Received& received) {
  const double time = received.seconds > 0 ? received.seconds : 1;
  const auto lost = sent.messages - std::min(sent.messages, received.messages);
  const auto rate = [time](std::uint64_t n) { return static_cast<double>(n) / time; };
  if (s.json) {
    fmt::print(
        "{{\"mode\": \"{}\", \"size\": {}, \"qps\": {}, \"chain\": {}, \"depth\": {}, "
        "\"seconds\": {:.3f}, \"goodput_mb_s\": {:.3f}, \"payload_mb_s\": {:.3f}, "
        "\"messages_per_s\": {:.1f}, \"sent\": {}, \"received\": {}, \"lost\": {}, "
        "\"duplicates\": {}, \"stalls\": {}, \"sender_user_s\": {:.3f}, "
        "\"sender_system_s\": {:.3f}, \"receiver_user_s\": {:.3f}, \"receiver_system_s\": {:.3f}, "
        "\"machine_busy_s\": {:.3f}, \"interrupted\": {}}}\n",
        s.ud ? "ud" : "uc", s.size, s.qps, s.chain, s.depth, received.seconds,
        rate(received.bytes) / 1e6, rate(received.payload) / 1e6, rate(received.messages),
        sent.messages, received.messages, lost, received.duplicates, sent.stalls, sent.cpu.user,
        sent.cpu.system, received.cpu.user, received.cpu.system, sent.busy,
        mrc::tools::g_interrupted.load());
    return;
  }
  fmt::print("{} from {} to {}: {} queue pairs, messages of {} B, {} per write of {} B\n",
             s.ud ? "UD" : "UC", s.from, s.to, s.qps, s.size, s.messages_per_write(), s.write);
  fmt::print("  {:.2f} MB/s ({:.2f} of payload), {:.0f} messages/s, in {:.2f} s\n",
             rate(received.bytes) / 1e6, rate(received.payload) / 1e6, rate(received.messages),
             received.seconds);
  fmt::print("  {} sent, {} received, {} lost, {} duplicates, {} stalls\n", sent.messages,
             received.messages, lost, received.duplicates, sent.stalls);
  fmt::print(
      "  CPU seconds: sender {:.2f} user, {:.2f} system; receiver {:.2f} user, {:.2f} system; "
      "the machine {:.2f} in all\n",
      sent.cpu.user, sent.cpu.system, received.cpu.user, received.cpu.system, sent.busy);
}

int send(const Settings& settings, const Channel& channel, pid_t child) {
  Endpoint endpoint(settings, settings.from, true);
  endpoint.connect(exchange(channel, endpoint));
  if (channel.receive<std::uint32_t>(kPatience).empty()) fail("the receiver does not answer");
  const Sent sent = Sender(settings, endpoint, channel).run();
  // In front of it there may be credits.
  for (std::vector<std::uint32_t> words; words.empty() || words[0] != kEnd;) {
    words = channel.receive<std::uint32_t>(kPatience);
    if (words.empty()) fail("the receiver does not answer");
  }
  const auto received = channel.receive<Received>(kPatience);
  if (received.size() != 1) fail("the receiver does not answer");
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) fail("the receiver failed");
  report(settings, sent, received[0]);
  return mrc::tools::g_interrupted ? mrc::tools::kInterruptedStatus : 0;
}

void parse(int argc, char** argv, CLI::App& app, Settings& s) {
  std::string mode = "ud";
  app.add_option("mode", mode, "ud: messages with a header; uc: RDMA writes with immediate data")
      ->check(CLI::IsMember({"ud", "uc"}))
      ->capture_default_str();
  const auto number = [&app](const char* name, std::uint32_t& to, unsigned least, unsigned most,
                             const char* help) {
    return app.add_option(name, to, help)->check(CLI::Range(least, most))->type_name("N");
  };
  app.add_option("--from", s.from, "Device that sends")->type_name("DEVICE")->capture_default_str();
  app.add_option("--to", s.to, "Device that receives")->type_name("DEVICE")->capture_default_str();
  number("--size", s.size, 8, 4096, "Bytes of a message (default: ud 4012, uc 4096)");
  number("--header", s.header, 4, 1024, "ud: bytes of each message that are no payload")
      ->capture_default_str();
  number("--write", s.write, 1, 1 << 24, "Bytes of a write, which is a burst of messages")
      ->capture_default_str();
  number("--qps", s.qps, 1, kMaxQps, "Queue pairs")->capture_default_str();
  number("--depth", s.depth, 1, 4096, "Messages in flight per queue pair")->capture_default_str();
  number("--chain", s.chain, 1, 1024, "Most messages per ibv_post_send()")->capture_default_str();
  app.add_option("--seconds", s.seconds, "How long to send")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("S")
      ->capture_default_str();
  app.add_flag("--json", s.json, "Print the result as JSON");
  app.parse(argc, argv);
  s.ud = mode == "ud";
  if (s.size == 0) s.size = s.ud ? 4012 : 4096;
  if (s.ud && s.header >= s.size) throw CLI::ValidationError("--header: must be less than --size");
  if (s.qps * (s.depth + kSpareReceives) > 32'767)
    throw CLI::ValidationError(
        fmt::format("--qps times (--depth + {}): must be 32767 at most", kSpareReceives));
}

int run(const Settings& settings) {
  std::array<int, 2> fds{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds.data()) != 0) fail_errno("socketpair");
  mrc::tools::catch_signals();
  const pid_t parent = getpid(), child = fork();
  if (child < 0) fail_errno("fork");
  ::close(fds[child == 0 ? 0 : 1]);
  if (child != 0) return send(settings, Channel(fds[0]), child);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return 1;
  signal(SIGINT, SIG_IGN);  // Ctrl-C reaches both; the sender then ends this process, too
  receive(settings, Channel(fds[1]));
  return 0;
}

}  // namespace
}  // namespace bare

int main(int argc, char** argv) {
  bare::Settings settings;
  CLI::App app("What verbs reach between two devices of this machine, without a protocol above",
               "bare_verbs");
  try {
    bare::parse(argc, argv, app, settings);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "bare_verbs: {}\nTry 'bare_verbs --help'.\n", error.what());
    return 2;
  }
  return bare::run(settings);
}
