// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "verbs_shim/transport/transport.hpp"

namespace mrc_verbs {

/// What a connection offers.
enum class Operations : std::uint8_t {
  all,               ///< RC
  without_response,  ///< UC: no READs and atomics
  writes,            ///< MRC: writes, with immediate or without
};

/// Connections: RC; and UC and MRC, which are RC underneath.
class ConnectedTransport : public Transport {
 public:
  ConnectedTransport(Operations operations, const Parts& parts);

  [[nodiscard]] mrc::Qpn qpn() const noexcept override { return queue_pair_->qpn(); }
  [[nodiscard]] bool failed() const noexcept override {
    return queue_pair_->state() == mrc::QpState::err;
  }
  [[nodiscard]] mrc::QpErrorCause cause() const override { return queue_pair_->error_cause(); }
  [[nodiscard]] std::string reason() const override { return queue_pair_->error_text(); }
  [[nodiscard]] std::uint64_t completed() const override;
  [[nodiscard]] std::uint32_t sends() const override { return queue_pair_->query().sends; }
  [[nodiscard]] bool answers() const override { return queue_pair_->stats().rx_packets > 0; }
  [[nodiscard]] std::unique_ptr<mrc::QueuePair> release() noexcept override {
    return std::move(queue_pair_);
  }

  void to_init() override;
  void to_rtr(const ibv_qp_attr& attributes) override;
  void to_rts(const ibv_qp_attr& attributes) override;
  void to_error() override;
  void to_reset() override;
  void update(const ibv_qp_attr& attributes, int mask) override;

  [[nodiscard]] int check(const ibv_send_wr& request) const noexcept override;
  [[nodiscard]] Posted post(const ibv_send_wr& first) noexcept override;
  [[nodiscard]] mrc::Errc post(const mrc::ReceiveRequest& request) noexcept override {
    return queue_pair_->post_receive(request);
  }
  [[nodiscard]] mrc::Errc complete(const ibv_send_wr& request,
                                   mrc::WcStatus status) noexcept override;
  [[nodiscard]] std::optional<mrc::WcStatus> stops_sending(const ibv_send_wr& request,
                                                           mrc::Errc error) const noexcept override;

 protected:
  [[nodiscard]] mrc::QueuePair& queue_pair() noexcept { return *queue_pair_; }
  [[nodiscard]] const mrc::QueuePair& queue_pair() const noexcept { return *queue_pair_; }
  /// The step to RTR with what verbs says of the peer.
  [[nodiscard]] mrc::QpChange towards(const ibv_qp_attr& attributes) const;

 private:
  Operations operations_;
  ibv_mtu largest_mtu_;
  mrc::Duration min_timeout_;
  std::unique_ptr<mrc::QueuePair> queue_pair_;
};

}  // namespace mrc_verbs
