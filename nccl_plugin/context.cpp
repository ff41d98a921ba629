// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/context.hpp"

#include "nccl_plugin/data/sender.hpp"

namespace mrc_nccl {

void Context::set_attributes(const nccl_abi::Attributes& attributes) noexcept {
  if (!hints_) return;
  const std::lock_guard lock(mutex_);
  if (attributes.send == send_) return;
  send_ = attributes.send;
  for (Sender* sender : senders_) sender->set_hint(send_);
}

void Context::add(Sender* sender) {
  if (!hints_) return;
  const std::lock_guard lock(mutex_);
  senders_.push_back(sender);
  sender->set_hint(send_);
}

void Context::remove(const Connection* connection) noexcept {
  const std::lock_guard lock(mutex_);
  std::erase(senders_, connection);
}

}  // namespace mrc_nccl
