// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

/// What bare_verbs' two processes share: settings, a device with its queue pairs, and the socket
/// between the processes. Knows nothing of OpenMRC. Errors end the process with a message; the
/// kernel then frees its verbs objects.
namespace bare {

inline constexpr std::uint32_t kMaxQps = 256;
inline constexpr std::uint32_t kSpareReceives = 16;  // for duplicates, and what was overtaken
inline constexpr std::uint32_t kGrhBytes = 40;       // in front of each received UD message
inline constexpr std::uint32_t kQKey = 0x1111'1111;

struct Settings {
  bool ud = true;
  std::string from = "rxe1", to = "rxe2";
  std::uint32_t size = 0, header = 44, write = 64 << 10;
  std::uint32_t qps = 16, depth = 32, chain = 32;
  double seconds = 5;
  bool json = false;

  [[nodiscard]] std::uint32_t payload() const { return ud ? size - header : size; }
  [[nodiscard]] std::uint32_t messages_per_write() const {
    return (write + payload() - 1) / payload();
  }
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  fmt::print(stderr, "bare_verbs: {}\n", fmt::format(format, std::forward<Args>(args)...));
  std::exit(1);
}
[[noreturn]] inline void fail_errno(const char* call, int error = errno) {
  fail("{}: {}", call, std::strerror(error));
}

/// CPU seconds of this process.
struct Cpu {
  double user, system;
};
inline Cpu cpu_used() {
  rusage usage{};
  (void)getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return {seconds(usage.ru_utime), seconds(usage.ru_stime)};
}
inline Cpu since(const Cpu& before) {
  const Cpu now = cpu_used();
  return {now.user - before.user, now.system - before.system};
}

/// Seconds in which a processor of the machine was busy, kernel threads and interrupts included.
inline double machine_busy() {
  std::ifstream file("/proc/stat");
  std::string name;
  double busy = 0, ticks = 0;
  file >> name;
  for (int column = 0; column < 8 && file >> ticks; ++column)
    if (column != 3 && column != 4) busy += ticks;  // idle, and waiting for I/O
  return busy / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// What the other side has to know to reach this one.
struct Address {
  ibv_gid gid;
  std::uint64_t memory;
  std::uint32_t rkey;
  std::array<std::uint32_t, kMaxQps> qp_numbers;
};

/// Datagrams to the other process, which never get lost.
class Channel {
 public:
  explicit Channel(int fd) : fd_(fd) {}
  template <class T>
  void send(std::span<const T> values) const {
    const auto n = ::send(fd_, values.data(), values.size_bytes(), MSG_NOSIGNAL);
    if (n != static_cast<ssize_t>(values.size_bytes())) fail("the other process is gone");
  }
  /// Empty when nothing has come within that time.
  template <class T>
  std::vector<T> receive(int milliseconds) const {
    pollfd event{fd_, POLLIN, 0};
    for (int n = -1; n < 0;) {
      n = ::poll(&event, 1, milliseconds);
      if (n < 0 && errno != EINTR) fail_errno("poll");
      if (n == 0) return {};
    }
    std::vector<T> values(4096 / sizeof(T) + 1);
    const auto n = ::recv(fd_, values.data(), values.size() * sizeof(T), 0);
    if (n <= 0) fail("the other process is gone");
    values.resize(static_cast<std::size_t>(n) / sizeof(T));
    return values;
  }

 private:
  int fd_;
};

/// A device, its memory, and queue pairs that send to or receive from one peer.
class Endpoint {
 public:
  Endpoint(const Settings& settings, const std::string& device, bool sends)
      : settings_(settings), sends_(sends) {
    open(device);
    if (ibv_query_port(context_, 1, &port_) != 0) fail_errno("ibv_query_port");
    if (port_.state != IBV_PORT_ACTIVE) fail("{}: its port is not active", device);
    if (settings.size > mtu())
      fail("--size {}: {} takes {} bytes at most", settings.size, device, mtu());
    find_gid(device);
    pd_ = ibv_alloc_pd(context_);
    if (pd_ == nullptr) fail_errno("ibv_alloc_pd");
    memory_.resize(memory_size());
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(),
                     IBV_ACCESS_LOCAL_WRITE | (sends ? 0 : IBV_ACCESS_REMOTE_WRITE));
    if (mr_ == nullptr) fail_errno("ibv_reg_mr");
    const auto completions = static_cast<int>(settings.qps * (settings.depth + kSpareReceives));
    cq_ = ibv_create_cq(context_, completions, nullptr, nullptr, 0);
    if (cq_ == nullptr) fail_errno("ibv_create_cq");
    for (std::uint32_t i = 0; i < settings.qps; ++i) qps_.push_back(create_qp());
  }

  [[nodiscard]] char* memory() { return memory_.data(); }
  [[nodiscard]] std::uint32_t lkey() const { return mr_->lkey; }
  [[nodiscard]] ibv_cq* cq() const { return cq_; }
  [[nodiscard]] ibv_qp* qp(std::uint32_t i) const { return qps_[i]; }
  [[nodiscard]] ibv_ah* ah() const { return ah_; }
  [[nodiscard]] const Address& peer() const { return peer_; }
  /// Sender only: where the headers begin, behind one write's payload.
  [[nodiscard]] std::size_t headers() const { return settings_.write; }
  [[nodiscard]] std::uint32_t receive_size() const { return kGrhBytes + settings_.size; }

  [[nodiscard]] Address address() const {
    Address a{gid_, reinterpret_cast<std::uint64_t>(memory_.data()), mr_->rkey, {}};
    for (std::uint32_t i = 0; i < settings_.qps; ++i) a.qp_numbers[i] = qps_[i]->qp_num;
    return a;
  }

  void connect(const Address& peer) {
    peer_ = peer;
    ibv_ah_attr path{};
    path.is_global = 1;
    path.port_num = 1;
    path.grh.dgid = peer.gid;
    path.grh.sgid_index = gid_index_;
    path.grh.hop_limit = 64;
    if (settings_.ud) {
      ah_ = ibv_create_ah(pd_, &path);
      if (ah_ == nullptr) fail_errno("ibv_create_ah");
    }
    for (std::uint32_t i = 0; i < settings_.qps; ++i) {
      ibv_qp_attr a{};
      a.qp_state = IBV_QPS_RTR;
      a.path_mtu = port_.active_mtu;
      a.dest_qp_num = peer.qp_numbers[i];
      a.ah_attr = path;
      modify(
          qps_[i], a,
          IBV_QP_STATE |
              (settings_.ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
      a = {};
      a.qp_state = IBV_QPS_RTS;
      modify(qps_[i], a, IBV_QP_STATE | IBV_QP_SQ_PSN);
    }
  }

 private:
  [[nodiscard]] std::uint32_t mtu() const { return 128u << port_.active_mtu; }
  [[nodiscard]] std::size_t memory_size() const {
    const auto messages = std::size_t{settings_.qps} * settings_.depth;
    if (sends_) return headers() + messages * settings_.header;
    if (!settings_.ud) return settings_.write;
    return std::size_t{settings_.qps} * (settings_.depth + kSpareReceives) * receive_size();
  }

  void open(const std::string& name) {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (list == nullptr) fail_errno("ibv_get_device_list");
    for (int i = 0; i < count; ++i)
      if (name == ibv_get_device_name(list[i])) context_ = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    if (context_ == nullptr) fail("no device {}, or it can't be opened", name);
  }

  /// The first RoCE v2 GID of an IPv4 address.
  void find_gid(const std::string& device) {
    static constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255};
    for (int i = 0; i < port_.gid_tbl_len; ++i) {
      ibv_gid_entry entry{};
      if (ibv_query_gid_ex(context_, 1, static_cast<std::uint32_t>(i), &entry, 0) != 0) continue;
      if (entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
          std::memcmp(entry.gid.raw, kMapped.data(), kMapped.size()) != 0)
        continue;
      gid_ = entry.gid;
      gid_index_ = static_cast<std::uint8_t>(i);
      return;
    }
    fail("{} has no RoCE v2 GID of an IPv4 address", device);
  }

  static void modify(ibv_qp* qp, ibv_qp_attr& attributes, int mask) {
    if (const int error = ibv_modify_qp(qp, &attributes, mask); error != 0)
      fail_errno("ibv_modify_qp", error);
  }

  ibv_qp* create_qp() {
    ibv_qp_init_attr init{};
    init.qp_type = settings_.ud ? IBV_QPT_UD : IBV_QPT_UC;
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = sends_ ? settings_.depth : 1;
    init.cap.max_recv_wr = sends_ ? 1 : settings_.depth + kSpareReceives;
    init.cap.max_send_sge = 2;
    init.cap.max_recv_sge = 1;
    ibv_qp* qp = ibv_create_qp(pd_, &init);
    if (qp == nullptr) fail_errno("ibv_create_qp");
    ibv_qp_attr a{};
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qkey = kQKey;
    a.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    modify(qp, a,
           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
               (settings_.ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    return qp;
  }

  const Settings settings_;
  const bool sends_;
  ibv_context* context_ = nullptr;
  ibv_port_attr port_{};
  ibv_gid gid_{};
  std::uint8_t gid_index_ = 0;
  ibv_pd* pd_ = nullptr;
  std::vector<char> memory_;
  ibv_mr* mr_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_ah* ah_ = nullptr;
  Address peer_{};
  std::vector<ibv_qp*> qps_;
};

}  // namespace bare
