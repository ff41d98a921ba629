// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verbs_shim/transport/transport.hpp"

namespace mrc_verbs {

/// Unreliable datagrams: UD. Each request names its destination.
class DatagramTransport final : public Transport {
 public:
  explicit DatagramTransport(const Parts& parts);

  [[nodiscard]] mrc::Qpn qpn() const noexcept override { return queue_pair_.qpn(); }
  [[nodiscard]] bool failed() const noexcept override {
    return queue_pair_.state() == mrc::QpState::err;
  }
  [[nodiscard]] mrc::QpErrorCause cause() const override { return queue_pair_.query().cause; }
  [[nodiscard]] std::string reason() const override { return mrc::to_string(cause()); }
  [[nodiscard]] std::uint64_t completed() const override;
  [[nodiscard]] std::uint32_t sends() const override { return queue_pair_.query().sends; }

  void to_init() override { step(mrc::QpState::init); }
  void to_rtr(const ibv_qp_attr&) override { step(mrc::QpState::rtr); }
  void to_rts(const ibv_qp_attr& attributes) override;
  void to_error() override { step(mrc::QpState::err); }
  void to_reset() override { step(mrc::QpState::reset); }
  void update(const ibv_qp_attr& attributes, int mask) override;

  [[nodiscard]] int check(const ibv_send_wr& request) const noexcept override;
  [[nodiscard]] Posted post(const ibv_send_wr& first) noexcept override;
  [[nodiscard]] mrc::Errc post(const mrc::ReceiveRequest& request) noexcept override {
    return queue_pair_.post_receive(request);
  }
  [[nodiscard]] mrc::Errc complete(const ibv_send_wr& request,
                                   mrc::WcStatus status) noexcept override;
  [[nodiscard]] std::optional<mrc::WcStatus> stops_sending(const ibv_send_wr& request,
                                                           mrc::Errc error) const noexcept override;

 private:
  void step(mrc::QpState state);
  void change(const mrc::DatagramChange& change);

  mrc::DatagramQueuePair queue_pair_;
};

}  // namespace mrc_verbs
