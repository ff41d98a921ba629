// SPDX-License-Identifier: Apache-2.0
// Network namespaces that are connected by lines on which each frame is a packet of a real wire:
// delayed and lost one by one, alike for all protocols. Runs a program while they exist. Without
// delay and loss the kernel's bridges connect them, else this program.
//
//   baseline_lines [--hosts 2] [--lines 2] [--mtu 1500] [--offloads none|nic] [--delay US]
//                  [--loss PER_MILLION] [--seed N] [--prefix WORD] -- PROGRAM...
//
// Offloads `none`: sender and receiver handle single packets. `nic`: as with the drivers of network
// cards, the kernel cuts large packets only when the sender's interface gets them, and the
// receiver's interface joins the packets of a flow again (GRO); checksums cost nothing.
//
// Host h is namespace WORD-h; line l is its interface `line<l>` with address 10.77.l.(h + 1).
// Needs root, no netem and no BPF. Prints what the lines carried as JSON on standard error.
#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_ether.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <random>

#include "common/program.hpp"
#include "interface_features.hpp"
#include "mrc/net/address.hpp"
#include "mrc/net/interface.hpp"
#include "mrc_fabric/command_lines.hpp"
#include "mrc_fabric/netns.hpp"
#include "mrc_fabric/wire/wire_socket.hpp"

namespace {

using namespace mrc;
using tools::WireSocket;

struct Setup {
  unsigned hosts = 2, lines = 2, mtu = 1500;
  bool nic = false;  // offloads
  Duration delay{};
  double loss = 0;
  std::uint64_t seed = 1;
  std::string prefix = "lines";
  char** program = nullptr;

  [[nodiscard]] std::string netns(unsigned host) const {
    return fmt::format("{}-{}", prefix, host);
  }
  [[nodiscard]] std::string middle() const { return prefix + "-middle"; }
  [[nodiscard]] bool is_clean() const { return delay == Duration{} && loss == 0; }
};

[[noreturn]] void usage(const std::string& what) {
  fmt::print(
      stderr,
      "baseline_lines: {}\nusage: baseline_lines [--hosts 2..8] [--lines 1..8] [--mtu 1280..9000] "
      "[--offloads none|nic] [--delay US] [--loss PER_MILLION] [--seed N] [--prefix WORD] "
      "-- PROGRAM...\n",
      what);
  throw tools::Exit{tools::kBadOptionStatus};
}

Setup parse(int argc, char** argv) {
  Setup s;
  int i = 1;
  for (; i + 1 < argc && std::strcmp(argv[i], "--") != 0; i += 2) {
    const std::string name = argv[i];
    if (name == "--prefix") {
      s.prefix = argv[i + 1];
      continue;
    }
    if (name == "--offloads") {
      s.nic = std::strcmp(argv[i + 1], "nic") == 0;
      if (!s.nic && std::strcmp(argv[i + 1], "none") != 0) usage(name + ": none or nic");
      continue;
    }
    char* end = nullptr;
    const auto value = std::strtoul(argv[i + 1], &end, 10);
    if (*end != '\0' || end == argv[i + 1]) usage(name + ": needs a number");
    if (name == "--hosts" && value >= 2 && value <= 8)
      s.hosts = static_cast<unsigned>(value);
    else if (name == "--lines" && value >= 1 && value <= 8)
      s.lines = static_cast<unsigned>(value);
    else if (name == "--mtu" && value >= 1280 && value <= 9000)
      s.mtu = static_cast<unsigned>(value);
    else if (name == "--delay")
      s.delay = std::chrono::microseconds(value);
    else if (name == "--loss" && value <= 1'000'000)
      s.loss = static_cast<double>(value) / 1e6;
    else if (name == "--seed")
      s.seed = value;
    else
      usage(fmt::format("{} {}: unknown, or out of range", name, value));
  }
  if (i + 1 >= argc || std::strcmp(argv[i], "--") != 0) usage("needs '-- PROGRAM'");
  if (!s.is_clean() && (s.mtu != 1500 || s.nic))
    usage("--delay and --loss are for lines of MTU 1500 without offloads");
  s.program = argv + i + 1;
  return s;
}

std::string mac(unsigned line, unsigned host) {
  return fmt::format("02:77:00:00:{:02x}:{:02x}", line, host + 1);
}
std::string address(unsigned line, unsigned host) {
  return fmt::format("10.77.{}.{}", line, host + 1);
}

/// The namespaces and their interfaces; the other ends are `l<line>h<host>` in the middle.
class Lines {
 public:
  explicit Lines(const Setup& setup) : s_(setup) {
    tools::need_root("baseline_lines");
    remove();  // what a killed run left
    try {
      make();
    } catch (...) {
      remove();
      throw;
    }
  }
  ~Lines() { remove(); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

 private:
  void make() {
    tools::CommandLines lines;
    lines.add("netns add {}", s_.middle());
    for (unsigned h = 0; h < s_.hosts; ++h) lines.add("netns add {}", s_.netns(h));
    for (unsigned l = 0; l < s_.lines; ++l)
      for (unsigned h = 0; h < s_.hosts; ++h)
        lines.add(
            "link add name line{} netns {} mtu {} address {} type veth peer name l{}h{} "
            "netns {} mtu {}",
            l, s_.netns(h), s_.mtu, mac(l, h), l, h, s_.middle(), s_.mtu);
    tools::run_program({"ip", "-batch", "-"}, lines.take(), "needed is CONFIG_VETH");
    set_up_middle();
    for (unsigned h = 0; h < s_.hosts; ++h) set_up_host(h);
    for (unsigned l = 0; s_.nic && l < s_.lines; ++l) check_joined(l);
  }

  static void cut_before(const std::string& line) {
    bench::InterfaceFeatures features(line);
    features.set(features.segmentation(), false);
  }

  /// What a host has cut from one datagram has to arrive joined, or figures would be of another
  /// network: whether veth joins packets depends on features that differ between kernels.
  void check_joined(unsigned l) {
    constexpr int kPackets = 8, kSize = 1000;
    const auto ip = [&](unsigned host) { return port::parse_ip(address(l, host)); };
    const auto make = [&](unsigned host) {
      const tools::InNetns inside(s_.netns(host));
      port::Socket socket = port::make_udp_socket({ip(host), {}});
      if (!port::try_bind(socket, {ip(host), kPort})) throw_errno("bind");
      return socket;
    };
    const port::Socket from = make(0), to = make(1);
    port::set_option(from, SOL_UDP, UDP_SEGMENT, kSize, "UDP_SEGMENT");
    port::set_option(to, SOL_UDP, UDP_GRO, 1, "UDP_GRO");
    std::array<char, kPackets * kSize> bytes{};
    const port::SocketAddress target(ip(1), kPort);
    if (sendto(from.fd(), bytes.data(), bytes.size(), 0, &target.any, target.length) < 0)
      throw_errno("sendto");
    pollfd arrival{to.fd(), POLLIN, 0};
    if (poll(&arrival, 1, 5000) != 1)
      throw Error(Errc::unreachable, fmt::format("nothing arrives on line {}", l));
    if (recv(to.fd(), bytes.data(), bytes.size(), 0) <= kSize)
      throw Error(Errc::unsupported,
                  "--offloads nic: this kernel's veth does not join the packets of a flow (GRO)");
  }

  static void no_ipv6() {
    for (const char* scope : {"all", "default"})
      tools::set_sysctl(fmt::format("net/ipv6/conf/{}/disable_ipv6", scope), "1");
  }

  void set_up_middle() {
    const tools::InNetns inside(s_.middle());
    no_ipv6();
    tools::CommandLines lines;
    for (unsigned l = 0; l < s_.lines; ++l) {
      if (s_.is_clean()) lines.add("link add name b{} type bridge", l);
      for (unsigned h = 0; h < s_.hosts; ++h) {
        if (s_.is_clean()) lines.add("link set dev l{}h{} master b{}", l, h, l);
        lines.add("link set dev l{}h{} up", l, h);
      }
      if (s_.is_clean()) lines.add("link set dev b{} up", l);
    }
    tools::run_program({"ip", "-batch", "-"}, lines.take(), "needed is CONFIG_BRIDGE");
    // veth joins packets (GRO) only where they come from an end that takes no large ones.
    for (unsigned l = 0; l < s_.lines; ++l)
      for (unsigned h = 0; s_.nic && h < s_.hosts; ++h) cut_before(fmt::format("l{}h{}", l, h));
    // Bridges ask the firewall by default, where the kernel has one for them.
    const std::string firewall = "net/bridge/bridge-nf-call-iptables";
    if (std::filesystem::exists("/proc/sys/" + firewall)) tools::set_sysctl(firewall, "0");
  }

  /// No neighbour discovery, which losses would disturb.
  void set_up_host(unsigned host) {
    const tools::InNetns inside(s_.netns(host));
    no_ipv6();
    tools::CommandLines lines;
    lines.add("link set dev lo up");
    for (unsigned l = 0; l < s_.lines; ++l) {
      lines.add("address add {}/24 dev line{}", address(l, host), l);
      lines.add("link set dev line{} up", l);
      for (unsigned h = 0; h < s_.hosts; ++h)
        if (h != host)
          lines.add("neigh replace {} lladdr {} dev line{} nud permanent", address(l, h), mac(l, h),
                    l);
    }
    tools::run_program({"ip", "-batch", "-"}, lines.take());
    for (unsigned l = 0; l < s_.lines; ++l) {
      const std::string line = fmt::format("line{}", l);
      if (s_.nic) {
        cut_before(line);
        bench::InterfaceFeatures(line).set({"rx-gro"}, true);
      } else {
        tools::switch_offloads_off(line);
      }
      while (!tools::interface_state(line).carrier) sched_yield();
    }
  }

  void remove() noexcept {
    try {
      for (unsigned h = 0; h < 8; ++h)
        if (tools::netns_exists(s_.netns(h)))
          tools::run_program({"ip", "netns", "del", s_.netns(h)});
      if (tools::netns_exists(s_.middle())) tools::run_program({"ip", "netns", "del", s_.middle()});
    } catch (const std::exception& error) {
      fmt::print(stderr, "baseline_lines: {}\n", error.what());
    }
  }

  static constexpr std::uint16_t kPort = 9;  // "discard"

  const Setup& s_;
};

/// Forwards frames from any host to the one that they are for, on the same line, if they are not
/// lost, when their delay is over.
class Forwarder {
 public:
  explicit Forwarder(const Setup& setup) : s_(setup), random_(setup.seed) {
    const tools::InNetns inside(s_.middle());
    socket_ = std::make_unique<WireSocket>();
    for (unsigned l = 0; l < s_.lines; ++l)
      for (unsigned h = 0; h < s_.hosts; ++h)
        ports_[key(l, h + 1)] =
            static_cast<int>(if_nametoindex(fmt::format("l{}h{}", l, h).c_str()));
  }

  /// Until the file descriptor is readable.
  void run(int end) {
    pollfd events[] = {{socket_->fd(), POLLIN, 0}, {end, POLLIN, 0}};
    while (events[1].revents == 0) {
      wait(events);
      receive();
      send_due();
    }
    fmt::print(stderr, "{{\"carried\": {}, \"lost\": {}, \"overflowed\": {}}}\n", carried_, lost_,
               dropped_ + socket_->take_missed());
  }

 private:
  /// While frames wait for their time, this process works once per this, as network cards do that
  /// moderate their interrupts; a frame is early or late by half of it. Woken by each frame, it
  /// would slow down the program with which it shares a processor.
  static constexpr Duration kPause = std::chrono::microseconds(40);

  struct Frame {
    Time due;
    int to;
    std::uint16_t size;
    std::array<std::byte, ETH_FRAME_LEN> bytes;
  };
  /// More than wait in this many frames, 100 MB, the line loses.
  static constexpr std::size_t kMost = 65'536;

  static unsigned key(unsigned line, unsigned host) noexcept { return line << 8 | host; }

  void wait(std::span<pollfd> events) {
    const bool idle = frames_.empty();
    events[0].fd = idle ? socket_->fd() : -1;
    const timespec left = idle ? timespec{1, 0} : timespec{0, kPause.count()};
    (void)ppoll(events.data(), events.size(), &left, nullptr);
  }

  void receive() {
    constexpr int kBatches = 4;  // then what is due gets its turn
    for (int i = 0; i < kBatches; ++i) {
      const auto arrivals = socket_->receive();
      for (const WireSocket::Arrival& a : arrivals) take(a);
      if (arrivals.size() < WireSocket::kBatch) return;
    }
  }

  void take(const WireSocket::Arrival& a) {
    if (a.bytes.size() < ETH_HLEN || a.bytes.size() > ETH_FRAME_LEN) return;
    const auto to = ports_.find(
        key(std::to_integer<unsigned>(a.bytes[4]), std::to_integer<unsigned>(a.bytes[5])));
    if (to == ports_.end()) return;
    if (s_.loss > 0 && chance_(random_) < s_.loss) {
      ++lost_;
    } else if (frames_.size() >= kMost) {
      ++dropped_;
    } else {
      Frame& f = frames_.emplace_back();
      f.due = a.time + s_.delay;
      f.to = to->second;
      f.size = static_cast<std::uint16_t>(a.bytes.size());
      std::memcpy(f.bytes.data(), a.bytes.data(), a.bytes.size());
    }
  }

  void send_due() {
    for (;;) {
      const Time until = monotonic_now() + kPause / 2;
      std::array<WireSocket::Departure, WireSocket::kBatch> batch;
      std::size_t count = 0;
      while (count < std::min(batch.size(), frames_.size()) && frames_[count].due <= until) {
        batch[count] = {frames_[count].to, {frames_[count].bytes.data(), frames_[count].size}};
        ++count;
      }
      if (count == 0) return;
      const std::size_t sent = socket_->send({batch.data(), count});
      carried_ += sent;
      frames_.erase(frames_.begin(), frames_.begin() + static_cast<std::ptrdiff_t>(sent));
      if (sent < count) {
        ++dropped_;
        frames_.pop_front();
      }
    }
  }

  const Setup& s_;
  std::unique_ptr<WireSocket> socket_;
  std::map<unsigned, int> ports_;  // interfaces, by the last bytes of an Ethernet address
  std::deque<Frame> frames_;       // all lines have the same delay: in the order in which they go
  std::mt19937_64 random_;
  std::uniform_real_distribution<double> chance_;
  std::uint64_t carried_ = 0, lost_ = 0, dropped_ = 0;
};

/// A process that forwards until the pipe's other end is closed.
pid_t start_forwarder(const Setup& setup, int end, UniqueFd& other_end) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  other_end.close();
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  (void)prctl(PR_SET_TIMERSLACK, 1);
  signal(SIGINT, SIG_IGN);
  sched_param first{};
  first.sched_priority = 1;  // else it is late when the machine is busy; it sleeps between frames
  (void)sched_setscheduler(0, SCHED_FIFO, &first);
  std::_Exit(tools::run_main("baseline_lines", [&] {
    Forwarder(setup).run(end);
    std::fflush(stderr);
    return 0;
  }));
}

volatile sig_atomic_t g_program = 0;

int run_with_lines(const Setup& setup) {
  const Lines lines(setup);
  int end[2];
  if (pipe2(end, O_CLOEXEC) != 0) throw_errno("pipe");
  UniqueFd read_end(end[0]), write_end(end[1]);
  const pid_t forwarder = setup.is_clean() ? 0 : start_forwarder(setup, end[0], write_end);
  const pid_t program = fork();
  if (program < 0 || forwarder < 0) throw_errno("can't start a process");
  if (program == 0) {
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    execvp(setup.program[0], setup.program);
    fmt::print(stderr, "baseline_lines: can't run '{}': {}\n", setup.program[0],
               std::strerror(errno));
    std::_Exit(127);
  }
  g_program = program;
  signal(SIGTERM, [](int) { kill(g_program, SIGTERM); });
  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  if (forwarder > 0) {
    write_end.close();
    while (waitpid(forwarder, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int main(int argc, char** argv) {
  signal(SIGINT, SIG_IGN);  // the program decides; the lines are removed after it
  return tools::run_main("baseline_lines", [&] { return run_with_lines(parse(argc, argv)); });
}
