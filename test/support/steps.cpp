// SPDX-License-Identifier: Apache-2.0
#include "support/steps.hpp"

#include <algorithm>

namespace mrc::test {

Steps::Steps(EnginePair& pair, const StepsOptions& options)
    : pair_(pair), options_(options), from_(options.size, 1), to_(options.size) {
  key_ = pair.register_memory(0, from_.data(), from_.size(), Access::none);
  rkey_ = pair.register_memory(1, to_.data(), to_.size(),
                               Access::remote_write | Access::relaxed_ordering);
  for (unsigned side = 0; side < 2; ++side) {
    send_cq_[side] = *pair[side].create_cq(256);
    receive_cq_[side] = *pair[side].create_cq(256);
    engine::QpInit init;
    init.pd = pair.pd(side);
    init.send_cq = send_cq_[side];
    init.receive_cq = receive_cq_[side];
    init.capacity = {.send = 64, .receive = 64};
    init.attributes = options.attributes;
    qpn_[side] = *pair[side].create_qp(init);
  }
  pair.connect(qpn_[0], qpn_[1]);
  for (unsigned side = 0; side < 2; ++side)
    for (unsigned i = 0; i < 64; ++i) (void)pair[side].post_receive(qpn_[side], i);
  free_ = options.depth;
}

bool Steps::run(Duration limit) {
  begin_ = pair_.now();
  return pair_.run_for(limit, [this] { return work(); }) && !failed_;
}

Duration Steps::mean() const {
  Duration sum{};
  for (Duration t : times_) sum += t;
  return times_.empty() ? sum : sum / static_cast<std::int64_t>(times_.size());
}

Duration Steps::quantile(double share) const {
  std::vector<Duration> sorted = times_;
  std::sort(sorted.begin(), sorted.end());
  const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  return sorted.empty() ? Duration{} : sorted[std::min(at, sorted.size() - 1)];
}

double Steps::spurious() const {
  const auto& rx = pair_[1].stats();
  return static_cast<double>(rx.rx_duplicates) / static_cast<double>(rx.rx_data);
}

bool Steps::work() {
  if (between) between();
  poll();
  while (!pair_.stalled(0) && free_ > 0 && posted_ < options_.steps) {
    --free_;
    const Sge sge{from_.data(), options_.size, key_};
    post(0, {.sges = {&sge, 1}, .id = posted_});
    times_at_.push_back(pair_.now());
    ++posted_;
  }
  if (received_ == options_.steps && completed_ == options_.steps && end_ == Time{})
    end_ = pair_.now();
  return failed_ || end_ != Time{};
}

void Steps::post(unsigned side, const Post& p) {
  SendRequest request;
  request.wr_id = p.id;
  request.sges = p.sges;
  request.opcode = SendOpcode::write_imm;
  request.remote = {reinterpret_cast<std::uint64_t>(to_.data()), rkey_};
  request.flags.signaled = true;
  failed_ |= pair_[side].post_send(qpn_[side], request, pair_.now()) != Errc::ok;
}

void Steps::poll() {
  std::array<Completion, 16> out;
  for (unsigned side = 0; side < 2; ++side) {
    if (pair_.stalled(side)) continue;
    while (const std::size_t n = pair_[side].poll_cq(send_cq_[side], out)) {
      for (std::size_t i = 0; i < n; ++i) failed_ |= out[i].status != WcStatus::success;
      if (side == 0) completed_ += static_cast<unsigned>(n);
    }
    while (const std::size_t n = pair_[side].poll_cq(receive_cq_[side], out))
      for (std::size_t i = 0; i < n; ++i) on_receive(side, out[i]);
  }
}

void Steps::on_receive(unsigned side, const Completion& c) {
  failed_ |= c.status != WcStatus::success;
  failed_ |= pair_[side].post_receive(qpn_[side], c.wr_id) != Errc::ok;
  if (side == 0) {
    ++free_;
    return;
  }
  times_.push_back(pair_.now() - times_at_[received_++]);
  post(1, {.sges = {}, .id = received_});
}

}  // namespace mrc::test
