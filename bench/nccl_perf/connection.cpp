// SPDX-License-Identifier: Apache-2.0
#include "nccl_perf/connection.hpp"

#include <sys/mman.h>

#include "mrc/core/error.hpp"
#include "nccl_perf/failure.hpp"

namespace mrc::nccl_perf {

Connection::Connection(Net& net, void* comm, bool sends, std::size_t slot, int tag)
    : net_(net), comm_(comm), slot_bytes_(slot), tag_(tag), sends_(sends) {
  try {
    void* const memory = mmap(nullptr, kSlots * slot, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) throw_errno("can't allocate a connection's buffer");
    buffer_ = static_cast<std::byte*>(memory);
    check(net.reg(comm, buffer_, kSlots * slot, nccl_abi::kHostMemory, &mr_), "regMr");
  } catch (...) {
    close();
    throw;
  }
}

Connection::~Connection() {
  close();
}

/// As NCCL does after an error, too: no request is waited for.
void Connection::close() noexcept {
  if (mr_ != nullptr) (void)net_.dereg(comm_, mr_);
  (void)(sends_ ? net_.close_send(comm_) : net_.close_receive(comm_));
  if (buffer_ != nullptr) munmap(buffer_, kSlots * slot_bytes_);
}

bool Connection::is_done(std::uint64_t number, std::size_t& bytes) {
  int done = 0, size = 0;
  check(net_.test(requests_[number % kSlots], &done, &size), "test");
  bytes = static_cast<std::size_t>(size);
  return done != 0;
}

bool SendConnection::progress() {
  bool any = false;
  if (sent_ != filled_) {
    void*& request = requests_[sent_ % kSlots];
    request = nullptr;
    check(net_.isend(comm_, slot(sent_), sizes_[sent_ % kSlots], tag_, mr_, nullptr, &request),
          "isend");
    if (request != nullptr) {
      ++sent_;
      return true;
    }
  }
  std::size_t bytes = 0;
  if (done_ != sent_ && is_done(done_, bytes)) {
    ++done_;
    any = true;
  }
  return any;
}

bool ReceiveConnection::progress() {
  bool any = false;
  if (posted_ != expected_ && posted_ - consumed_ < kSlots) {
    void* data = slot(posted_);
    std::size_t size = slot_bytes_;
    int tag = tag_;
    void* parent = nullptr;
    void*& request = requests_[posted_ % kSlots];
    request = nullptr;
    check(net_.irecv(comm_, 1, &data, &size, &tag, &mr_, &parent, &request), "irecv");
    if (request != nullptr) {
      ++posted_;
      return true;
    }
  }
  std::size_t bytes = 0;
  if (received_ != posted_ && is_done(received_, bytes)) {
    sizes_[received_ % kSlots] = bytes;
    ++received_;
    any = true;
  }
  return any;
}

}  // namespace mrc::nccl_perf
