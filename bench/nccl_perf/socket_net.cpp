// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/socket_net.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "nccl_perf/socket_comm.hpp"
#include "nccl_perf/socket_interfaces.hpp"

namespace mrc::nccl_perf {
namespace {

/// One of a connection's sockets while it is set up: the connecting side tells its number, 4 bytes.
struct Joining {
  UniqueFd socket;
  std::uint32_t number = 0;
  std::size_t done = 0;  // bytes of the number
};

struct ConnectState {
  std::vector<Joining> sockets;
};

/// What is in a handle. NCCL gives connect() the same bytes each time, so it keeps its state there.
struct Handle {
  SocketAddress address;
  ConnectState* state;
};
static_assert(sizeof(Handle) <= nccl_abi::kHandleBytes);

struct Listener {
  UniqueFd socket;
  std::vector<Joining> joining;
};

/// None if the kernel refuses it, or that congestion control, which accepted sockets inherit.
UniqueFd tcp_socket(const SocketAddress& address, const std::string& congestion) {
  UniqueFd s(socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (s.open()) (void)setsockopt(s.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (!congestion.empty() && setsockopt(s.fd(), IPPROTO_TCP, TCP_CONGESTION, congestion.data(),
                                        static_cast<socklen_t>(congestion.size())) != 0)
    s.close();
  return s;
}

/// True when it is connected; an error in `result`.
bool is_connected(int socket, Result& result) {
  pollfd out{socket, POLLOUT, 0};
  if (poll(&out, 1, 0) != 1) return false;
  int error = 0;
  socklen_t size = sizeof error;
  (void)getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) result = error == ECONNREFUSED ? Result::remote_error : Result::system_error;
  return error == 0;
}

/// Data sockets by their numbers, then the main one.
std::vector<UniqueFd> in_order(std::vector<Joining>& joining) {
  std::sort(joining.begin(), joining.end(),
            [](const Joining& a, const Joining& b) { return a.number < b.number; });
  std::vector<UniqueFd> sockets;
  for (Joining& j : joining) sockets.push_back(std::move(j.socket));
  return sockets;
}

class SocketNet final : public nccl_host::Net {
 public:
  explicit SocketNet(SocketSettings settings) : settings_(std::move(settings)) {}

  [[nodiscard]] int version() const override { return nccl_host::kNewestApi; }
  [[nodiscard]] const char* name() const override { return "Socket"; }

  Result init(const nccl_host::CommunicatorInit&, void** context) override {
    const char* const allowed = getenv("NCCL_SOCKET_IFNAME");
    interfaces_ = socket_interfaces(allowed != nullptr ? allowed : "");
    *context = this;
    return Result::success;
  }
  Result finalize(void*) override { return Result::success; }
  Result set_attributes(void*, nccl_abi::Attributes*) override { return Result::success; }
  Result devices(int* count) override {
    *count = static_cast<int>(interfaces_.size());
    return Result::success;
  }
  Result properties(int device, nccl_host::Properties* properties) override {
    properties->name = interfaces_[static_cast<std::size_t>(device)].name;
    properties->pointer_support = nccl_abi::kHostMemory;
    properties->max_receives = 1;
    return Result::success;
  }
  Result make_virtual_device(const std::vector<int>&, int*) override {
    return Result::internal_error;
  }

  Result listen(void*, int device, void* handle, void** listen_comm) override {
    Handle own{interfaces_[static_cast<std::size_t>(device)].address, nullptr};
    auto listener =
        std::make_unique<Listener>(Listener{tcp_socket(own.address, settings_.congestion), {}});
    socklen_t size = size_of(own.address);
    if (bind(listener->socket.fd(), &own.address.any, size) != 0 ||
        ::listen(listener->socket.fd(), SOMAXCONN) != 0 ||
        getsockname(listener->socket.fd(), &own.address.any, &size) != 0)
      return Result::system_error;
    std::memcpy(handle, &own, sizeof own);
    *listen_comm = listener.release();
    return Result::success;
  }

  Result connect(void*, int, void* handle, void** send_comm) override {
    Handle peer;
    std::memcpy(&peer, handle, sizeof peer);
    Result result = Result::success;
    if (peer.state == nullptr) {
      peer.state = new ConnectState;
      result = start_connecting(peer);
      std::memcpy(handle, &peer, sizeof peer);
    }
    std::size_t ready = 0;
    for (Joining& j : peer.state->sockets) {
      if (result != Result::success || !is_connected(j.socket.fd(), result)) break;
      result = move_number(j, true);
      if (j.done == sizeof j.number) ++ready;
    }
    if (result == Result::success && ready < peer.state->sockets.size()) return result;
    const std::unique_ptr<ConnectState> over(peer.state);
    if (result == Result::success)
      *send_comm = new SocketComm(true, in_order(over->sockets), settings_);
    return result;
  }

  Result accept(void* listen_comm, void** receive_comm) override {
    auto& listener = *static_cast<Listener*>(listen_comm);
    const std::size_t all = static_cast<std::size_t>(settings_.sockets()) + 1;
    while (listener.joining.size() < all) {
      UniqueFd next(accept4(listener.socket.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!next.open()) break;
      const int on = 1;
      (void)setsockopt(next.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      listener.joining.push_back({std::move(next), 0, 0});
    }
    std::size_t ready = 0;
    for (Joining& j : listener.joining) {
      if (const Result result = move_number(j, false); result != Result::success) return result;
      if (j.done == sizeof j.number) ++ready;
    }
    if (ready == all) *receive_comm = new SocketComm(false, in_order(listener.joining), settings_);
    return Result::success;
  }

  Result reg(void*, void*, std::size_t, int type, void** mr) override {
    *mr = nullptr;
    return type == nccl_abi::kHostMemory ? Result::success : Result::internal_error;
  }
  Result reg_dma_buf(void*, void*, std::size_t, int, std::uint64_t, int, void**) override {
    return Result::invalid_usage;
  }
  Result dereg(void*, void*) override { return Result::success; }

  Result isend(void* send_comm, void* data, std::size_t size, int, void*, void*,
               void** request) override {
    *request = static_cast<SocketComm*>(send_comm)->post(data, size);
    return Result::success;
  }
  Result irecv(void* receive_comm, int n, void** data, std::size_t* sizes, int*, void**, void**,
               void** request) override {
    if (n != 1) return Result::internal_error;
    *request = static_cast<SocketComm*>(receive_comm)->post(data[0], sizes[0]);
    return Result::success;
  }
  Result iflush(void*, int, void**, int*, void**, void** request) override {
    *request = nullptr;
    return Result::success;
  }
  Result test(void* request, int* done, int* sizes) override {
    auto& r = *static_cast<SocketRequest*>(request);
    bool is_done = false;
    const Result result = r.comm->test(r, is_done);
    *done = is_done ? 1 : 0;
    if (sizes != nullptr) sizes[0] = static_cast<int>(r.size);
    return result;
  }

  Result close_send(void* comm) override { return close(comm); }
  Result close_receive(void* comm) override { return close(comm); }
  Result close_listen(void* comm) override {
    delete static_cast<Listener*>(comm);
    return Result::success;
  }

 private:
  Result start_connecting(Handle& peer) const {
    for (int i = 0; i <= settings_.sockets(); ++i) {
      Joining j{tcp_socket(peer.address, settings_.congestion), static_cast<std::uint32_t>(i), 0};
      if (!j.socket.open()) return Result::system_error;
      if (::connect(j.socket.fd(), &peer.address.any, size_of(peer.address)) != 0 &&
          errno != EINPROGRESS)
        return errno == ECONNREFUSED ? Result::remote_error : Result::system_error;
      peer.state->sockets.push_back(std::move(j));
    }
    return Result::success;
  }

  static Result move_number(Joining& j, bool sends) {
    return move_bytes(j.socket.fd(), sends, reinterpret_cast<std::byte*>(&j.number),
                      sizeof j.number, j.done);
  }

  static Result close(void* comm) {
    delete static_cast<SocketComm*>(comm);
    return Result::success;
  }

  SocketSettings settings_;
  std::vector<SocketInterface> interfaces_;
};

}  // namespace

std::unique_ptr<nccl_host::Net> make_socket_net(SocketSettings settings) {
  return std::make_unique<SocketNet>(std::move(settings));
}

}  // namespace mrc::nccl_perf
