// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/socket_comm.hpp"

#include <sched.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace mrc::nccl_perf {
namespace {

constexpr std::size_t kSizeBytes = sizeof(std::uint32_t);
/// Data that goes with the size.
constexpr std::size_t kInline = 128;
/// Smallest piece of a message that is divided.
constexpr std::size_t kLeastPiece = 64 << 10;

}  // namespace

Result move_bytes(int socket, bool sends, std::byte* data, std::size_t size, std::size_t& done) {
  while (done < size) {
    const ssize_t n = sends ? send(socket, data + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : recv(socket, data + done, size - done, MSG_DONTWAIT);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0 || errno == ECONNRESET || errno == EPIPE) {
      return Result::remote_error;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return Result::success;
    } else if (errno != EINTR) {
      return Result::system_error;
    }
  }
  return Result::success;
}

Helper::Helper() : thread_([this] { serve(); }) {}

Helper::~Helper() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Helper::add(Piece* piece) {
  {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(piece);
  }
  changed_.notify_all();
}

void Helper::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ended_ || !pieces_.empty(); });
    if (ended_) return;
    std::deque<Piece*> current = pieces_;
    lock.unlock();
    // Pieces of one socket are in order: only its first one may move.
    std::vector<int> busy;
    std::size_t finished = 0;
    for (Piece* p : current) {
      if (std::find(busy.begin(), busy.end(), p->socket) != busy.end()) continue;
      p->result = move_bytes(p->socket, p->sends, p->data, p->size, p->done);
      if (p->done < p->size && p->result == Result::success) {
        busy.push_back(p->socket);
        continue;
      }
      ++finished;
    }
    if (finished == 0) sched_yield();
    lock.lock();
    std::erase_if(pieces_, [](Piece* p) {
      const bool over = p->done == p->size || p->result != Result::success;
      if (over) p->finished.store(true, std::memory_order_release);
      return over;
    });
  }
}

SocketComm::SocketComm(bool sends, std::vector<UniqueFd> sockets, const SocketSettings& settings)
    : sends_(sends),
      sockets_per_thread_(static_cast<std::size_t>(settings.sockets_per_thread)),
      data_sockets_(static_cast<std::size_t>(settings.sockets())),
      sockets_(std::move(sockets)),
      main_(sockets_.back().fd()),
      helpers_(static_cast<std::size_t>(settings.threads)) {}

SocketRequest* SocketComm::post(void* data, std::size_t size) {
  for (SocketRequest& r : requests_) {
    if (r.used) continue;
    r.comm = this;
    r.used = true;
    r.sized = false;
    r.data = static_cast<std::byte*>(data);
    r.size = size;
    r.done = r.header_done = 0;
    return &r;
  }
  return nullptr;
}

Result SocketComm::test(SocketRequest& r, bool& done) {
  done = false;
  if (!r.sized) {
    const Result result = sends_ ? tell_size(r) : hear_size(r);
    if (result != Result::success || !r.sized) return result;
    if (!helpers_.empty()) divide(r);
  }
  if (helpers_.empty()) {
    const Result result = move_bytes(main_, sends_, r.data, r.size, r.done);
    if (result != Result::success) return result;
    done = r.done == r.size;
  } else {
    done = true;
    for (const Piece& p : r.pieces) {
      if (!p.finished.load(std::memory_order_acquire))
        done = false;
      else if (p.result != Result::success)
        return p.result;
    }
    if (done) r.pieces.clear();
  }
  r.used = !done;
  return Result::success;
}

Result SocketComm::tell_size(SocketRequest& r) {
  const std::size_t data = helpers_.empty() ? std::min(r.size, kInline) : 0;
  if (r.header_done == 0) {
    const auto size = static_cast<std::uint32_t>(r.size);
    std::memcpy(r.header.data(), &size, kSizeBytes);
    if (data != 0) std::memcpy(r.header.data() + kSizeBytes, r.data, data);
  }
  const Result result = move_bytes(main_, true, r.header.data(), kSizeBytes + data, r.header_done);
  r.sized = r.header_done == kSizeBytes + data;
  if (r.sized) r.done = data;
  return result;
}

Result SocketComm::hear_size(SocketRequest& r) {
  const Result result = move_bytes(main_, false, r.header.data(), kSizeBytes, r.header_done);
  if (result != Result::success || r.header_done < kSizeBytes) return result;
  std::uint32_t size = 0;
  std::memcpy(&size, r.header.data(), kSizeBytes);
  if (size > r.size) return Result::invalid_usage;
  r.size = size;
  r.sized = true;
  return Result::success;
}

/// Both sides cut in the same way and take the sockets in the same order.
void SocketComm::divide(SocketRequest& r) {
  const std::size_t piece = std::max(kLeastPiece, (r.size + data_sockets_ - 1) / data_sockets_);
  for (std::size_t at = 0; at < r.size; at += piece) {
    Piece& p = r.pieces.emplace_back();
    const std::size_t index = next_socket_++ % data_sockets_;
    p.socket = sockets_[index].fd();
    p.sends = sends_;
    p.data = r.data + at;
    p.size = std::min(piece, r.size - at);
    helpers_[index / sockets_per_thread_].add(&p);
  }
}

}  // namespace mrc::nccl_perf
