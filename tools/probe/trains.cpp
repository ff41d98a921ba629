// SPDX-License-Identifier: Apache-2.0
#include "probe/trains.hpp"

namespace mrc::probe {

Trains::Trains(const TrainOptions& options, std::uint16_t first_id)
    : options_(options),
      gap_(static_cast<Duration::rep>(1e9 * options.length / options.rate)),
      next_id_(first_id) {}

void Trains::ask(std::size_t path) {
  if (path >= results_.size()) results_.resize(path + 1);
  waiting_.push_back(path);
}

std::optional<Trains::Probe> Trains::poll(Time now) {
  if (train_.size() == options_.length) return std::nullopt;
  if (train_.empty()) {
    if (waiting_.empty() || now < next_train_) return std::nullopt;
    next_train_ = now + gap_;
  }
  train_.push_back({{next_id_++, waiting_.front(), now}});
  last_ = now;
  ++sent_;
  if (train_.size() == options_.length) waiting_.pop_front();
  return train_.back().probe;
}

const Trains::Probe* Trains::find(std::uint16_t id) const noexcept {
  if (train_.empty()) return nullptr;
  const auto place = static_cast<std::uint16_t>(id - train_.front().probe.id);
  return place < train_.size() && !train_[place].answered ? &train_[place].probe : nullptr;
}

void Trains::on_answer(Time now, std::uint16_t id) {
  train_[static_cast<std::uint16_t>(id - train_.front().probe.id)].answered = true;
  last_ = now;
  if (++answered_ == options_.length) end_train(now);
}

void Trains::on_time(Time now) {
  if (train_.size() == options_.length && now >= last_ + options_.patience) end_train(last_);
}

Time Trains::next_event() const noexcept {
  if (train_.size() == options_.length) return last_ + options_.patience;
  if (!train_.empty()) return last_;
  return waiting_.empty() ? kNever : next_train_;
}

void Trains::end_train(Time now) {
  PathLoad& load = results_[train_.front().probe.path];
  ++load.trains;
  const Duration took = now - train_.front().probe.sent;
  if (2 * answered_ >= options_.length && took > Duration::zero())
    load.rates.push_back(1e9 * answered_ / static_cast<double>(took.count()));
  train_.clear();
  answered_ = 0;
}

}  // namespace mrc::probe
