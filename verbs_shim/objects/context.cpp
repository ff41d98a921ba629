// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/objects/context.hpp"

#include <pthread.h>

#include <cstdio>
#include <cstring>

#include "mrc/core/unique_fd.hpp"
#include "verbs_shim/libmrc/provider.hpp"
#include "verbs_shim/objects/completion_queue.hpp"
#include "verbs_shim/objects/queue_pair.hpp"
#include "verbs_shim/transport/linger.hpp"
#include "verbs_shim/transport/operations.hpp"

namespace mrc_verbs {

ListedDevice& listed_device() noexcept {
  static ListedDevice device = [] {
    ListedDevice made{};
    // A pointer to data in the place of one to a function: libmrc takes it out by its bytes.
    const mrc_provider* provider = &libmrc_provider();
    std::memcpy(&made._ops._dummy1, &provider, sizeof provider);
    made.node_type = IBV_NODE_CA;
    made.transport_type = IBV_TRANSPORT_IB;
    std::snprintf(made.name, sizeof made.name, "mrc0");
    std::snprintf(made.dev_name, sizeof made.dev_name, "mrc0");
    // What would be there if a kernel driver had made the device: not there, and programs that look
    // do without.
    std::snprintf(made.dev_path, sizeof made.dev_path, "/sys/class/infiniband_verbs/mrc0");
    std::snprintf(made.ibdev_path, sizeof made.ibdev_path, "/sys/class/infiniband/mrc0");
    return made;
  }();
  return device;
}

Context::Context(std::shared_ptr<Host> host, Ports ports)
    : verbs_context{}, host_(std::move(host)), ports_(ports), events_(host_->device().event_fd()) {
  sz = sizeof(verbs_context);
  context.device = &listed_device();
  context.cmd_fd = -1;
  context.async_fd = events_.bell().fd();
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  ::pthread_mutex_init(&context.mutex, nullptr);
  set_operations(*this);
  host_->add(*this);
}

Context::~Context() {
  const bool last = host_->remove(*this);
  ::pthread_mutex_destroy(&context.mutex);
  if (last) Linger::finish();
}

bool Context::next_event(ibv_async_event& event) {
  ::pthread_testcancel();  // also if there are events
  for (;;) {
    if (take(event)) return true;
    constexpr int kWhileDraining = 1;  // ms
    if (!events_.bell().wait(draining.load() > 0 ? kWhileDraining : -1)) return false;
  }
}

bool Context::take(ibv_async_event& event) noexcept {
  const mrc::Uncancelled taking;
  host_->dispatch();
  check_drained();
  const auto lock = host_->lock();
  if (!events_.take(event)) return false;
  const auto count = [](auto& object, std::uint32_t& given) {
    ::pthread_mutex_lock(&object.mutex);
    ++given;
    ::pthread_mutex_unlock(&object.mutex);
  };
  if (object_of(event) == nullptr) return true;
  if (event.event_type == IBV_EVENT_CQ_ERR)
    count(*event.element.cq, Cq::of(event.element.cq).async_events_given);
  else if (event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
    count(*event.element.srq, Srq::of(event.element.srq).events_given);
  else
    count(*event.element.qp, Qp::of(event.element.qp).events_given);
  return true;
}

void Context::check_drained() {
  if (draining.load(std::memory_order_relaxed) == 0) return;
  host_->each_qp([this](Qp& qp) {
    if (&qp.context() == this) qp.check_drained();
  });
}

std::uint32_t next_handle() noexcept {
  static std::atomic<std::uint32_t> newest{0};
  return ++newest;
}

}  // namespace mrc_verbs
