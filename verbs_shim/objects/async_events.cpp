// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/async_events.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "mrc/core/unique_fd.hpp"
#include "verbs_shim/errors.hpp"

namespace mrc_verbs {

Doorbell::Doorbell(int watched)
    : own_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), all_(::epoll_create1(EPOLL_CLOEXEC)) {
  if (!own_.open() || !all_.open()) fail(errno, "cannot open a descriptor for events");
  watch(own_.fd());
  if (watched >= 0) watch(watched);
}

void Doorbell::watch(int other) const {
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(all_.fd(), EPOLL_CTL_ADD, other, &event) != 0)
    fail(errno, "cannot watch a descriptor for events");
}

void Doorbell::forget(int other) const noexcept {
  (void)::epoll_ctl(all_.fd(), EPOLL_CTL_DEL, other, nullptr);
}

void Doorbell::ring() const noexcept {
  const std::uint64_t one = 1;
  (void)mrc::uncancelled::write(own_.fd(), &one, sizeof one);
}

void Doorbell::clear() const noexcept {
  std::uint64_t count = 0;
  (void)mrc::uncancelled::read(own_.fd(), &count, sizeof count);
  if (ended_.load()) ring();
}

void Doorbell::end_waits() noexcept {
  ended_.store(true);  // before it rings: clear() may take the ring away
  ring();
}

bool Doorbell::wait(int milliseconds) const {
  if (ended_.load()) {
    errno = EINVAL;
    return false;
  }
  if ((::fcntl(fd(), F_GETFL) & O_NONBLOCK) != 0) {
    errno = EAGAIN;
    return false;
  }
  pollfd ready{fd(), POLLIN, 0};
  return ::poll(&ready, 1, milliseconds) >= 0;  // a signal ends the call, as read() on a device
}

const void* object_of(const ibv_async_event& event) noexcept {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      return event.element.cq;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      return event.element.srq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      return event.element.qp;
    default:
      return nullptr;
  }
}

void AsyncEvents::push(const ibv_async_event& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
  bell_.ring();
}

bool AsyncEvents::take(ibv_async_event& event) {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return false;
  event = events_.front();
  events_.pop_front();
  if (events_.empty()) bell_.clear();
  return true;
}

void AsyncEvents::forget(const void* object) {
  const std::lock_guard lock(mutex_);
  std::erase_if(events_, [=](const ibv_async_event& event) { return object_of(event) == object; });
  if (events_.empty()) bell_.clear();
}

}  // namespace mrc_verbs
