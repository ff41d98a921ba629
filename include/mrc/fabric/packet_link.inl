// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mrc/fabric/packet_link.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "mrc/core/error.hpp"
#include "mrc/core/system.hpp"
#include "mrc/fabric/packet_port.hpp"
#include "mrc/plane/udp_kind.hpp"

#if defined(MRC_THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

namespace mrc::inline v0_1::port {

/// Of PacketPort what concerns its interface and the next hops of its peers.

namespace detail {

/// The address that the next hop of a route is looked up for.
[[nodiscard]] inline const IpAddress& first_target(const PacketPort::Route& route) noexcept {
  return route.outer.empty() ? route.address.ip : route.outer.front().destination;
}

}  // namespace detail

std::optional<IpAddress> find_gateway(std::uint32_t interface_index,
                                      const IpAddress& destination) noexcept {
  rtmsg route{};
  route.rtm_family = AF_INET6;
  route.rtm_dst_len = 128;
  detail::NetlinkRequest request(RTM_GETROUTE, route);
  request.add(RTA_DST, destination.data(), destination.size());
  request.add(RTA_OIF, &interface_index, sizeof interface_index);
  if (const int error = request.send(); error != 0) {
    errno = error;
    return std::nullopt;
  }
  const std::uint8_t type = request.header<rtmsg>().rtm_type;
  std::uint32_t out = 0;
  if (type != RTN_UNICAST || !request.get(sizeof route, RTA_OIF, &out, sizeof out) ||
      out != interface_index) {
    errno = ENETUNREACH;
    return std::nullopt;
  }
  IpAddress gateway = destination;
  (void)request.get(sizeof route, RTA_GATEWAY, gateway.data(), gateway.size());
  return gateway;
}

std::optional<Neighbour> find_neighbour(std::uint32_t interface_index,
                                        const IpAddress& address) noexcept {
  ndmsg neighbour{};
  neighbour.ndm_family = AF_INET6;
  neighbour.ndm_ifindex = static_cast<int>(interface_index);
  detail::NetlinkRequest request(RTM_GETNEIGH, neighbour);
  request.add(NDA_DST, address.data(), address.size());
  if (request.send() != 0) return std::nullopt;
  constexpr unsigned kUsable =
      NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
  const unsigned state = request.header<ndmsg>().ndm_state;
  Neighbour found;
  if ((state & kUsable) == 0 ||
      !request.get(sizeof neighbour, NDA_LLADDR, found.mac.data(), found.mac.size()))
    return std::nullopt;
  found.stale = (state & NUD_STALE) != 0;
  return found;
}

void solicit_neighbour(std::uint32_t interface_index, const IpAddress& address) noexcept {
  const Socket socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) return;
  (void)try_option(socket, IPPROTO_IPV6, IPV6_UNICAST_IF, static_cast<int>(htonl(interface_index)));
  constexpr std::uint16_t kDiscard = 9;
  const SocketAddress to(address, kDiscard, interface_index);
  (void)::sendto(socket.fd(), nullptr, 0, 0, &to.any, to.length);
}

void PacketPort::note_surroundings() {
  if (std::string note = frames_->note(); !note.empty()) notes_.push_back(std::move(note));
  if (index_ == 0) {
    notes_.push_back("there is no interface " + options_.interface +
                     ": this plane is down until "
                     "there is one");
    return;
  }
  const std::uint32_t mtu = capabilities_.max_packet + headers();
  if (options_.mtu > mtu)
    notes_.push_back("interface " + options_.interface + " has an MTU of " + std::to_string(mtu) +
                     ", the fabric one of " + std::to_string(options_.mtu) +
                     ": the smaller counts");
  if (options_.encapsulation != wire::Encapsulation::none && forwards_ipv6(options_.interface))
    notes_.push_back(
        "this host forwards IPv6: its kernel sends packets with its uSIDs back into "
        "the fabric, again and again; `sysctl -w net.ipv6.conf." +
        options_.interface + ".forwarding=0` stops that");
}

std::string PacketPort::interface_name() noexcept try {
  if (interface_.index == 0) return options_.interface;
  if (refresh(ask_, interface_)) return interface_.name;
  const Interface found = find_interface(ask_, {options_.local, options_.interface});
  return found.index != 0 && found.link ? found.name : options_.interface;
} catch (const std::exception&) {  // memory is short: next time
  return options_.interface;
}

bool PacketPort::attach_interface() noexcept {
  const std::string name = interface_name();
  const auto now = look_up_interface(ask_, name);
  interface_up_ = now.index != 0 && now.up;
  own_ = now.mac;
  const std::uint32_t largest = now.index != 0 ? now.mtu : kAbsentMtu;
  const std::uint32_t mtu = options_.mtu == 0 ? largest : std::min(largest, options_.mtu);
  capabilities_.max_packet = mtu - std::min(mtu, headers());
  if (now.index == index_) return now.index != 0;
  const bool bound = frames_->attach(now);
  index_ = bound ? now.index : 0;
  if (bound) {
    interface_.name = name;
    interface_.index = now.index;
    std::atomic_ref(known_).store(now.index);
  }
  interface_up_ = interface_up_ && bound;
  return bound;
}

void PacketPort::check_link(Time now) noexcept {
  if (now < next_link_check_) return;
  const Uncancelled checking;
  next_link_check_ = now + kLinkCheck;
  const NetlinkMonitor::News news = monitor_.read(index_);
  if (!frames_->usable(now)) index_ = 0;  // attach again
  if (news.links || (index_ == 0 && now >= next_attach_)) {
    attach_interface();
    next_attach_ = now + kAttachInterval;
  }
  refresh_due_ = refresh_due_ || news.links || news.next_hops || (stale_ && now >= next_check_);
  if (!refresh_due_ || !interface_up_ || now < next_refresh_) return;
  refresh_due_ = stale_ = false;
  next_refresh_ = now + kRefreshInterval;
  next_check_ = now + kCheckInterval;
  for (PacketPeer& peer : peers_)
    if (peer.known && !options_.next_hop) (void)refresh_next_hop(peer);
}

int PacketPort::refresh_next_hop(PacketPeer& peer) noexcept {
  const auto gateway = find_gateway(index_, peer.target);
  if (!gateway) return errno;
  peer.gateway = *gateway;
  const auto neighbour = find_neighbour(index_, peer.gateway);
  if (neighbour) {
    peer.next_hop = neighbour->mac;
    peer.resolved = true;
    stale_ = stale_ || neighbour->stale;
  }
  if (!neighbour || (neighbour->stale && peer.used))
    solicit_neighbour(index_, peer.gateway);  // netlink reports the answer
  peer.used = false;
  return 0;
}

void PacketPort::find_next_hop(PacketPeer& peer) noexcept {
  if (options_.next_hop) {
    peer.next_hop = *options_.next_hop;
    peer.resolved = true;
  } else if (interface_up_) {  // else it is looked up when the link comes up
    (void)refresh_next_hop(peer);
  }
}

/// Reads only what the constructor has set, and known_: other threads may be using the port.
std::string PacketPort::await_route(const PeerRoute& to, Duration patience) const {
  const Route& route = to.as<Route>();
  std::uint32_t index = std::atomic_ref(known_).load();
  std::string interface = options_.interface;
  std::array<char, IF_NAMESIZE> name{};
  if (index != 0 && if_indextoname(index, name.data()) != nullptr)
    interface = name.data();
  else
    index = if_nametoindex(interface.c_str());
  if (options_.next_hop || index == 0) return {};
  const IpAddress& target = detail::first_target(route);
  const auto lost = [&](const std::string& why) {
    return why + "; packets to " + format_ip(route.address.ip) + " are lost until ";
  };
  const std::string by = " by interface " + interface;
  const auto gateway = find_gateway(index, target);
  if (!gateway)
    return lost("no route to " + format_ip(target) + by + " (" +
                std::generic_category().message(errno) + ")") +
           "there is one (`ip -6 route add`)";
  for (Duration waited{}; !find_neighbour(index, *gateway); waited += kLinkCheck) {
    if (waited >= patience)
      return lost("next hop " + format_ip(*gateway) + by + " does not answer") + "it does";
    if (waited == Duration{}) solicit_neighbour(index, *gateway);
    pollfd none{-1, 0, 0};
    (void)::poll(&none, 1, 1);
  }
  return {};
}

PacketRing::~PacketRing() {
  if (memory_ != nullptr) ::munmap(memory_, std::size_t{blocks_} * kBlock);
}

std::string PacketRing::open(const Socket& socket, std::uint32_t mtu, std::uint64_t bytes) {
  const auto failed = [&](const char* step) {
    const int error = errno;
    const tpacket_req none{};
    (void)setsockopt(socket.fd(), SOL_PACKET, PACKET_RX_RING, &none, sizeof none);
    return std::string(step) + ": " + std::generic_category().message(error);
  };
  slot_ = (mtu + kOverhead + TPACKET_ALIGNMENT - 1) / TPACKET_ALIGNMENT * TPACKET_ALIGNMENT;
  if (slot_ > kMaxSlot) return "packets of " + std::to_string(mtu) + " bytes are too long for one";
  per_block_ = kBlock / slot_;
  const std::uint64_t block = std::uint64_t{per_block_} * slot_;
  bytes = std::min(bytes, kMaxBytes);
  blocks_ = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (bytes + block / 2) / block));
  slots_ = blocks_ * per_block_;
  long_frame_.resize(kLongest);
  if (!try_option(socket, SOL_PACKET, PACKET_VERSION, TPACKET_V2)) return failed("PACKET_VERSION");
  // A frame that is longer than a slot goes to the receive buffer as well.
  (void)try_option(socket, SOL_PACKET, PACKET_COPY_THRESH, 1);
  tpacket_req request{};
  request.tp_block_size = kBlock;
  request.tp_block_nr = blocks_;
  request.tp_frame_size = slot_;
  request.tp_frame_nr = slots_;
  if (setsockopt(socket.fd(), SOL_PACKET, PACKET_RX_RING, &request, sizeof request) != 0)
    return failed("PACKET_RX_RING");
  const std::size_t size = std::size_t{blocks_} * kBlock;
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, socket.fd(), 0);
  if (memory == MAP_FAILED) return failed("mmap");
  memory_ = static_cast<std::uint8_t*>(memory);
  fd_ = socket.fd();
  return {};
}

std::uint32_t* PacketRing::status(std::uint32_t n) const noexcept {
  std::uint32_t index = next_ + n;
  if (index >= slots_) index -= slots_;
  std::uint8_t* slot =
      memory_ + std::size_t{index / per_block_} * kBlock + std::size_t{index % per_block_} * slot_;
  return &reinterpret_cast<tpacket2_hdr*>(slot)->tp_status;
}

bool PacketRing::receive(std::size_t most, std::vector<MutableBytes>& frames) noexcept {
  for (; held_ != 0; --held_)
    std::atomic_ref(*status(slots_ - held_)).store(TP_STATUS_KERNEL, std::memory_order_release);
  bool whole = true;
  while (frames.size() < most && held_ < slots_ && whole) {
    std::uint32_t* word = status(0);
    const std::uint32_t state = std::atomic_ref(*word).load(std::memory_order_acquire);
    if ((state & TP_STATUS_USER) == 0) break;
    auto* header = reinterpret_cast<tpacket2_hdr*>(word);
    whole = header->tp_snaplen == header->tp_len;
    if (whole)
      frames.emplace_back(reinterpret_cast<std::uint8_t*>(header) + header->tp_mac,
                          header->tp_snaplen);
    else
      frames.push_back((state & TP_STATUS_COPY) != 0 ? read_long() : MutableBytes{});
    if (++next_ == slots_) next_ = 0;
    ++held_;
  }
  return frames.size() == most || !whole;
}

MutableBytes PacketRing::read_long() noexcept {
  const auto read = [&] {
    return uncancelled::recv(fd_, long_frame_.data(), long_frame_.size(), MSG_DONTWAIT | MSG_TRUNC);
  };
  ssize_t n = read();
  if (n < 0 && errno != EAGAIN) n = read();  // a link that went down is reported once
  const auto length = static_cast<std::size_t>(std::max<ssize_t>(n, 0));
  return length <= long_frame_.size() ? MutableBytes(long_frame_.data(), length) : MutableBytes{};
}

/// Filled slots follow each other, the oldest first.
std::uint32_t PacketRing::fill() const noexcept {
  std::uint32_t least = 0, most = slots_ - held_;
  while (least < most) {
    const std::uint32_t n = (least + most) / 2;
    const std::uint32_t state = std::atomic_ref(*status(n)).load(std::memory_order_acquire);
    if ((state & TP_STATUS_USER) != 0)
      least = n + 1;
    else
      most = n;
  }
  return static_cast<std::uint32_t>(std::uint64_t{held_ + least} * 128 / slots_);
}

namespace detail {

/// Throws the Error of the last system call, with the remedy where rights are missing.
[[noreturn]] inline void throw_no_lock(const std::string& folder, const std::string& doing) {
  const int error = errno;
  const bool rights = error == EACCES || error == EPERM || error == EROFS || error == ENOENT;
  throw_errno("packet ports share a host by locks in " + folder + ", and " + doing +
                  (rights ? " fails: run as root, make the folder once for a group of users with "
                            "'install -d -m 2770 -g GROUP " +
                                folder +
                                "', or set option "
                                "lock_folder to one of your own"
                          : " fails"),
              error);
}

/// The folder with the locks, made if there is none. Throws Error if others could take locks there.
[[nodiscard]] inline UniqueFd open_lock_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0755) != 0 && errno != EEXIST) throw_no_lock(folder, "making it");
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.open()) throw_no_lock(folder, "opening it");
  struct stat s {};
  if (::fstat(fd.fd(), &s) != 0) throw_no_lock(folder, "looking at it");
  if ((s.st_uid != 0 && s.st_uid != ::geteuid()) || (s.st_mode & S_IWOTH) != 0)
    throw Error(Errc::access_denied,
                "packet ports share a host by locks in " + folder +
                    ", which other users could take: it must belong to root or to this user, and "
                    "not be writable for all; remove it, or set option lock_folder");
  return fd;
}

/// Opens a file of locks, made if there is none.
[[nodiscard]] inline UniqueFd open_locks(const std::string& folder, const std::string& name) {
  const UniqueFd in = open_lock_folder(folder);
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  UniqueFd fd(::openat(in.fd(), name.c_str(), kFlags | O_CREAT | O_EXCL, 0660));
  if (fd.open())
    (void)::fchmod(fd.fd(), 0660);  // for the folder's group, whatever the umask
  else if (errno == EEXIST)
    fd = UniqueFd(::openat(in.fd(), name.c_str(), kFlags));
  if (!fd.open()) throw_no_lock(folder, "opening " + name);
  struct stat s {};
  if (::fstat(fd.fd(), &s) != 0 || !S_ISREG(s.st_mode))
    throw Error(Errc::access_denied, folder + "/" + name + " is not a regular file; remove it");
  return fd;
}

/// Names this thread's network namespace on this host.
[[nodiscard]] inline std::string network_name() {
  struct stat s {};
  if (::stat("/proc/thread-self/ns/net", &s) != 0)
    throw_errno("cannot tell network namespaces apart by /proc/thread-self/ns/net");
  return "net-" + std::to_string(s.st_ino);
}

}  // namespace detail

UniqueFd claim_lock(const std::string& folder, const std::string& name, unsigned number) {
  UniqueFd file = detail::open_locks(folder, detail::network_name() + "." + name);
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = number;
  lock.l_len = 1;
  // Of the open file, not of the process: two claims of one process are apart, too.
  if (::fcntl(file.fd(), F_OFD_SETLK, &lock) == 0) return file;
  if (errno != EAGAIN && errno != EACCES) detail::throw_no_lock(folder, "taking a lock");
  return {};
}

PacketSlotClaim claim_packet_slot(const std::string& folder, std::optional<std::uint8_t> wanted) {
  const unsigned first = wanted.value_or(0), last = wanted.value_or(kSlots - 1);
  for (unsigned slot = first; slot <= last; ++slot) {
    UniqueFd lock = claim_lock(folder, "slots", slot);
    if (lock.open()) return {static_cast<std::uint8_t>(slot), std::move(lock)};
  }
  detail::throw_in_use(wanted ? "slot " + std::to_string(first) +
                                    " is in use by another process of this host; leave option slot "
                                    "at -1 to get a free one"
                              : "all " + std::to_string(kSlots) +
                                    " slots of this host are in use: close other devices");
}

Socket open_packet_socket() {
  Socket socket(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.open()) return socket;
  if (errno == EPERM || errno == EACCES)
    throw_errno(
        "packet ports need the right to send raw packets: run as root, or give it to the program "
        "with `setcap cap_net_raw+ep PROGRAM`");
  throw_errno("cannot open a packet socket");
}

bool bind_packet_socket(const Socket& socket, std::uint32_t index,
                        std::uint16_t protocol) noexcept {
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(protocol);
  address.sll_ifindex = static_cast<int>(index);
  return ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

InterfaceState look_up_interface(const Socket& socket, const std::string& name) noexcept {
  InterfaceState state;
  ifreq request;
  if (!detail::ask_interface(socket, name, SIOCGIFINDEX, request)) return state;
  const int index = request.ifr_ifindex;
  if (!detail::ask_interface(socket, name, SIOCGIFHWADDR, request)) return state;
  std::memcpy(state.mac.data(), request.ifr_hwaddr.sa_data, state.mac.size());
  if (!detail::ask_interface(socket, name, SIOCGIFMTU, request)) return state;
  state.mtu = static_cast<std::uint32_t>(std::max(request.ifr_mtu, 0));
  if (!detail::ask_interface(socket, name, SIOCGIFFLAGS, request)) return state;
  state.up = detail::is_running(request);
  state.index = static_cast<std::uint32_t>(index);
  return state;
}

bool forwards_ipv6(const std::string& interface) {
  char value = '0';
  const Socket file(::open(("/proc/sys/net/ipv6/conf/" + interface + "/forwarding").c_str(),
                           O_RDONLY | O_CLOEXEC));
  return file.open() && ::read(file.fd(), &value, 1) == 1 && value != '0';
}

Socket silence_udp(const IpAddress& local, std::uint16_t udp_port,
                   std::vector<std::string>& notes) {
  Socket socket(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
  const sock_fprog program{1, &nothing};
  // The address may come later, with its interface.
  if (socket.open()) (void)try_option(socket, IPPROTO_IPV6, IPV6_FREEBIND, 1);
  if (socket.open() && try_option(socket, SOL_SOCKET, SO_REUSEADDR, 1) &&
      setsockopt(socket.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0 &&
      try_bind(socket, SocketAddress(local, udp_port)))
    return socket;
  if (errno == EADDRINUSE) return {};
  notes.push_back("UDP port " + format_address({local, udp_port}) + " could not be reserved (" +
                  std::generic_category().message(errno) +
                  "): the kernel may answer packets with port unreachable");
  return {};
}

SocketFrames::SocketFrames(const PacketPortOptions& options)
    : receive_(open_packet_socket()), send_(open_packet_socket()), batch_(options.receive_slots) {
  mrc::detail::require({mrc::detail::SystemCall::recvmmsg, mrc::detail::SystemCall::sendmmsg});
  attach_slot_filter(receive_, options.slot, options.udp_port);
  (void)try_option(receive_, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
  set_buffer(send_, SO_SNDBUF, SO_SNDBUFFORCE, options.send_buffer);
  buffer_ = set_buffer(receive_, SO_RCVBUF, SO_RCVBUFFORCE, options.receive_buffer);
  frames_.reserve(batch_);
  const std::uint32_t here = look_up_interface(send_, options.interface).mtu;
  const std::uint32_t mtu =
      here == 0 || options.mtu == 0 ? std::max(here, options.mtu) : std::min(here, options.mtu);
  const std::string failure =
      ring_.open(receive_, mtu != 0 ? mtu : PacketRing::kMaxSlot - PacketRing::kOverhead,
                 std::uint64_t{2} * options.receive_buffer);
  if (failure.empty()) {
    buffer_ = std::uint64_t{ring_.slots()} * kSlotWorth;
    return;
  }
  note_ = "interface " + options.interface + " is read without a receive ring (" + failure +
          "): each packet takes more processor time";
  make_pool(batch_);
}

void SocketFrames::make_pool(std::size_t slots) {
  pool_ = std::make_unique_for_overwrite<std::uint8_t[]>(slots * kSlotBytes);
  vectors_.resize(slots);
  messages_.resize(slots);
  for (std::size_t i = 0; i < slots; ++i) {
    vectors_[i] = {pool_.get() + i * kSlotBytes, kSlotBytes};
    messages_[i].msg_hdr.msg_iov = &vectors_[i];
    messages_[i].msg_hdr.msg_iovlen = 1;
  }
}

bool SocketFrames::attach(const InterfaceState& interface) noexcept {
  return interface.index != 0 && bind_packet_socket(receive_, interface.index, ETH_P_IPV6) &&
         bind_packet_socket(send_, interface.index, 0);
}

#if defined(MRC_THREAD_SANITIZER)
/// Its address stands for the order in which the kernel hands packets over: what a thread has done
/// before send() comes before what another does after receive(). The sanitizer knows that of
/// sockets, not of rings in shared memory.
inline char packets_through_kernel;
#endif

std::size_t SocketFrames::send(std::span<mmsghdr> frames, PortStats& stats) noexcept {
#if defined(MRC_THREAD_SANITIZER)
  __tsan_release(&packets_through_kernel);
#endif
  std::size_t done = 0;
  while (done < frames.size()) {
    const int n = uncancelled::sendmmsg(send_.fd(), frames.data() + done,
                                        static_cast<unsigned>(frames.size() - done), MSG_DONTWAIT);
    ++stats.tx_calls;
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    done += static_cast<std::size_t>(n);
  }
  return done;
}

std::span<const MutableBytes> SocketFrames::receive(std::size_t most) noexcept {
  const std::size_t wanted = std::min(most, batch_);
  frames_.clear();
  if (ring_) {
    backlogged_ = ring_.receive(wanted, frames_);
#if defined(MRC_THREAD_SANITIZER)
    __tsan_acquire(&packets_through_kernel);
#endif
  } else {
    read(wanted);
    backlogged_ = frames_.size() == wanted;
  }
  return frames_;
}

void SocketFrames::read(std::size_t most) noexcept {
  const auto wanted = static_cast<unsigned>(most);
  for (unsigned i = 0; i < wanted; ++i) messages_[i].msg_hdr.msg_flags = 0;
  const int n = uncancelled::recvmmsg(receive_.fd(), messages_.data(), wanted, MSG_DONTWAIT);
  for (int i = 0; i < n; ++i) {
    const mmsghdr& message = messages_[static_cast<std::size_t>(i)];
    const bool whole =
        (message.msg_hdr.msg_flags & MSG_TRUNC) == 0 && message.msg_len <= kSlotBytes;
    frames_.emplace_back(static_cast<std::uint8_t*>(message.msg_hdr.msg_iov->iov_base),
                         whole ? message.msg_len : 0);
  }
}

std::uint32_t SocketFrames::fill() const noexcept {
  return ring_ ? ring_.fill() : receive_buffer_fill(receive_);
}

std::uint64_t SocketFrames::overrun() const noexcept {
  tpacket_stats counts{};
  socklen_t size = sizeof counts;
  if (getsockopt(receive_.fd(), SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0)
    overrun_ += counts.tp_drops;
  return overrun_;
}

}  // namespace mrc::inline v0_1::port
