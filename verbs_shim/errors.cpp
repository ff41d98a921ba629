// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/errors.hpp"

#include <system_error>

namespace mrc_verbs {

int errno_of(mrc::Errc error) noexcept {
  using mrc::Errc;
  switch (error) {
    case Errc::ok:
      return 0;
    case Errc::queue_full:
    case Errc::no_resources:
      return ENOMEM;
    case Errc::in_use:
      return EBUSY;
    case Errc::not_found:
      return ENOENT;
    case Errc::unsupported:
      return EOPNOTSUPP;
    case Errc::unreachable:
      return ENETUNREACH;
    case Errc::timed_out:
      return ETIMEDOUT;
    case Errc::forked:
      return EIO;
    default:
      return EINVAL;
  }
}

int errno_of(const std::exception& error) noexcept {
  if (const auto* known = dynamic_cast<const std::system_error*>(&error)) {
    if (known->code().category() == mrc::error_category())
      return errno_of(static_cast<mrc::Errc>(known->code().value()));
    return known->code().value();
  }
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr ? ENOMEM : EIO;
}

std::string about(std::uint64_t request, const ibv_qp* qp) {
  std::string text = "request " + std::to_string(request) + ": ";
  if (qp != nullptr) text.insert(0, "queue pair " + std::to_string(qp->qp_num) + ", ");
  return text;
}

int refuse_post(const char* call, mrc::Errc error, std::uint64_t request,
                const ibv_qp* qp) noexcept {
  if (!info_wanted()) return errno_of(error);
  return refuse(errno_of(error), call, about(request, qp) + mrc::to_string(error));
}

void fail(int error, const std::string& why) {
  throw mrc::Error(std::error_code(error, std::generic_category()), why);
}

}  // namespace mrc_verbs
