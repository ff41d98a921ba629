// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "probe/sweep.hpp"

namespace mrc::probe {

Sweep::Sweep(const SweepOptions& options, std::uint16_t first_id)
    : timeout_(options.timeout),
      gap_(static_cast<Duration::rep>(1e9 / options.rate)),
      next_id_(first_id),
      flights_(kIds) {}

void Sweep::ask(std::size_t path, unsigned tries) {
  if (path >= results_.size()) {
    results_.resize(path + 1);
    left_.resize(path + 1, 0);
  }
  if (tries == 0) return;
  if (left_[path] == 0) ready_.push_back(path);
  left_[path] += tries;
}

std::optional<Sweep::Probe> Sweep::poll(Time now) {
  Flight& flight = flights_[next_id_];
  if (ready_.empty() || now < next_send_ || flight.state == State::open) return std::nullopt;
  flight = {{next_id_, ready_.front(), now}, State::open};
  ready_.pop_front();
  under_way_.push_back(flight.probe);
  ++open_;
  ++next_id_;
  ++sent_;
  // A sender that was delayed may catch up, by a burst of kCatchUp at most.
  next_send_ = sent_ == 1 ? now + gap_ : std::max(next_send_, now - kCatchUp) + gap_;
  return flight.probe;
}

const Sweep::Probe* Sweep::find(std::uint16_t id) const noexcept {
  const Flight& flight = flights_[id];
  return flight.state == State::none ? nullptr : &flight.probe;
}

void Sweep::on_answer(Time now, std::uint16_t id) {
  Flight& flight = flights_[id];
  PathResult& result = results_[flight.probe.path];
  ++result.answered;
  result.rtts.push_back(now - flight.probe.sent);
  if (flight.state == State::open) end_try(flight);
  flight.state = State::none;
}

void Sweep::on_time(Time now) {
  for (; !under_way_.empty(); under_way_.pop_front()) {
    Flight& flight = flights_[under_way_.front().id];
    const bool open = flight.state == State::open && flight.probe.sent == under_way_.front().sent;
    if (open && now < flight.probe.sent + timeout_) return;
    if (!open) continue;
    end_try(flight);
    flight.state = State::late;
  }
}

Time Sweep::next_event() const noexcept {
  Time at = under_way_.empty() ? kNever : under_way_.front().sent + timeout_;
  if (!ready_.empty() && flights_[next_id_].state != State::open) at = std::min(at, next_send_);
  return at;
}

void Sweep::end_try(const Flight& flight) {
  const std::size_t path = flight.probe.path;
  ++results_[path].tries;
  --open_;
  if (--left_[path] > 0) ready_.push_back(path);
}

}  // namespace mrc::probe
