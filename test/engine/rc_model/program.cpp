// SPDX-License-Identifier: Apache-2.0
#include "engine/rc_model/program.hpp"

#include <algorithm>
#include <cstring>

namespace mrc::test::rc {

namespace {

/// Makes the requests of one flow such that RC defines their outcome. It does not where
/// * a WRITE, or an atomic, changes what an earlier READ reads, unless a fence is between them;
/// * a WRITE touches what an earlier atomic changes, unless a fence is between them;
/// * two WRITEs write to the same bytes. RC would order them, MRC does not: packets are placed as
///   they come. A fence after a READ or an atomic after the first one orders them;
/// * a request sends what an earlier READ brings, unless it is fenced.
class FlowMaker {
 public:
  FlowMaker(Flow& flow, Random& random, const QpCapacity& requester, std::uint32_t max_size)
      : flow_(flow), random_(random), limits_(requester), max_size_(max_size) {
    append(flow.before.target, 2 * max_size + kPlaces);
    now_ = flow.before;
  }

  /// Appends a request; a wrong one if `wrong` says so.
  void add(Wrong wrong = Wrong::nothing) {
    Op op;
    op.opcode = opcode(wrong);
    op.wrong = wrong;
    op.length = op.is_atomic() ? 8 : length(wrong != Wrong::nothing);
    op.immediate = static_cast<std::uint32_t>(random_.next());
    op.flags.signaled = random_.chance(0.6);
    op.flags.solicited = op.consumes() && random_.chance(0.3);
    op.flags.fence = random_.chance(0.1);
    if (op.is_atomic()) operands(op);
    if (wrong != Wrong::nothing && wrong != Wrong::not_ready)
      misplace(op);
    else if (!op.is_send() && !op.counter)
      place(op);
    if (op.flags.fence) std::erase_if(open_, [&](const Use& u) { return u.index < barrier_; });
    use_local(op);
    if (wrong == Wrong::nothing) {
      if (op.opcode == SendOpcode::compare_swap) aim(op);
      if (!op.is_send() && !op.counter && op.length > 0)
        open_.push_back({op.target(), flow_.ops.size(), op.opcode});
      if (has_response(op.opcode)) barrier_ = flow_.ops.size() + 1;
      execute(now_, op);
    }
    flow_.ops.push_back(std::move(op));
  }

  /// Posts a receive for each message that consumes one, with room to spare or without.
  void add_receives(std::uint32_t sges) {
    for (const Op& op : flow_.ops) {
      if (!op.consumes()) continue;
      if (op.wrong == Wrong::not_ready) return;
      std::uint32_t room = op.is_send() ? op.length : 0;
      if (op.wrong == Wrong::too_long)
        room = random_.below(room);
      else if (random_.chance(0.5))
        room += random_.below(200);
      flow_.receives.push_back(cut({flow_.inbox, room}, sges));
      flow_.inbox += room + 8;
    }
  }

  /// What stays until the end can be looked at as soon as it is there.
  void finish() {
    for (std::size_t i = 0; i < flow_.ops.size(); ++i) {
      Op& op = flow_.ops[i];
      op.visible = op.changes();
      for (std::size_t k = i + 1; k < flow_.ops.size(); ++k)
        if (flow_.ops[k].changes() && flow_.ops[k].target().overlaps(op.target()))
          op.visible = false;
    }
    flow_.ops.back().flags.signaled = true;
  }

  /// A range in up to `most` pieces, empty ones among them.
  [[nodiscard]] std::vector<Slice> cut(Slice all, std::uint32_t most) {
    std::vector<Slice> out;
    if (all.length == 0 && random_.chance(0.7)) return out;
    for (std::uint32_t n = 1 + random_.below(most); n > 1; --n) {
      const std::uint32_t part = random_.below(all.length + 1);
      out.push_back({all.at, part});
      all = {all.at + part, all.length - part};
    }
    out.push_back(all);
    return out;
  }

 private:
  static constexpr std::uint32_t kPlaces = 4096;

  /// A use of the target that later requests may have to keep away from.
  struct Use {
    Slice bytes;
    std::size_t index;
    SendOpcode opcode;
  };

  /// Appends random bytes.
  void append(Buffer& bytes, std::size_t count) {
    std::size_t at = bytes.size();
    bytes.resize(at + count);
    for (std::uint64_t word = 0; at < bytes.size(); at += sizeof word) {
      word = random_.next();
      std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
    }
  }

  [[nodiscard]] SendOpcode opcode(Wrong wrong) {
    constexpr SendOpcode kAll[] = {
        SendOpcode::write, SendOpcode::write_imm,    SendOpcode::send,     SendOpcode::send_imm,
        SendOpcode::read,  SendOpcode::compare_swap, SendOpcode::fetch_add};
    switch (wrong) {
      case Wrong::misaligned:
        return kAll[5 + random_.below(2)];
      case Wrong::too_long:
        return kAll[2 + random_.below(2)];
      case Wrong::not_ready:
        return kAll[1 + random_.below(3)];
      case Wrong::nothing:
        return kAll[random_.below(7)];
      default:  // those with an R_Key
        return kAll[std::array{0u, 1u, 4u, 5u, 6u}[random_.below(5)]];
    }
  }

  [[nodiscard]] std::uint32_t length(bool some) {
    const std::uint32_t kind = random_.below(100);
    const std::uint32_t most = kind < 40 ? 64 : kind < 75 ? 4096 : kind < 93 ? 16'384 : max_size_;
    if (kind >= 98 && !some) return max_size_;
    if (kind < 8 && !some) return 0;
    return 1 + random_.below(std::min(most, max_size_));
  }

  void operands(Op& op) {
    op.counter = op.wrong == Wrong::nothing && !flow_.open_end &&
                 op.opcode == SendOpcode::fetch_add && random_.chance(0.5);
    op.compare_add = op.counter ? 1 : random_.next();
    op.swap = random_.next();
  }

  /// A wrong request keeps away from what the right ones use.
  void misplace(Op& op) {
    const auto end = static_cast<std::uint32_t>(flow_.before.target.size());
    op.remote = random_.below(kPlaces / 8) * 8;
    if (op.wrong == Wrong::misaligned) op.remote += 1 + random_.below(7);
    if (op.wrong == Wrong::bounds)
      op.remote = op.is_atomic() ? end : end - random_.below(op.length);
  }
  /// Finds a place in the target where the outcome is defined, with a fence if need be.
  void place(Op& op) {
    const std::uint32_t room = kPlaces + max_size_ - op.length;
    for (unsigned n = 0; n < 8; ++n) {
      op.remote = random_.below(room);
      // Often where something has happened, so that order matters.
      if (!open_.empty() && random_.chance(0.5))
        op.remote = std::min(room, random_of(open_).bytes.at + random_.below(16));
      if (op.is_atomic() && !words_.empty() && random_.chance(0.6)) op.remote = random_of(words_);
      if (op.is_atomic()) op.remote = op.remote / 8 * 8;
      if (fits(op)) {
        if (op.is_atomic()) words_.push_back(op.remote);
        return;
      }
    }
    op.length = 0;  // no place: one that touches nothing
    if (op.is_atomic()) op.opcode = SendOpcode::read;
  }
  [[nodiscard]] bool fits(Op& op) {
    bool fence = false;
    for (const Use& u : open_) {
      if (!u.bytes.overlaps(op.target())) continue;
      if (op.opcode == SendOpcode::read) continue;                   // sees all before it
      if (op.is_atomic() && u.opcode != SendOpcode::read) continue;  // as does this
      if (u.index >= barrier_) return false;
      fence = true;
    }
    op.flags.fence |= fence;
    return true;
  }

  void use_local(Op& op) {
    const std::uint32_t sges = limits_.send_sges;
    if (has_response(op.opcode)) {
      const Slice all{static_cast<std::uint32_t>(now_.landing.size()), op.length};
      op.local = op.is_atomic() ? std::vector{all} : cut(all, sges);
      for (Memory* m : {&now_, &flow_.before})
        m->landing.resize(m->landing.size() + op.length + 8, kFill);
      return;
    }
    if (random_.chance(0.25) && use_landing(op)) return;
    const auto at = static_cast<std::uint32_t>(now_.source.size());
    op.local = cut({at, op.length}, sges);
    append(now_.source, op.length);
    flow_.before.source.insert(flow_.before.source.end(), now_.source.begin() + at,
                               now_.source.end());
    op.flags.inline_data = op.length <= limits_.inline_bytes && random_.chance(0.5);
  }
  /// Sends what an earlier READ or atomic brings, if one fits. Needs a fence.
  [[nodiscard]] bool use_landing(Op& op) {
    for (unsigned n = 0; n < 4 && !flow_.ops.empty(); ++n) {
      Op& from = random_of(flow_.ops);
      if (!has_response(from.opcode) || from.counter || from.wrong != Wrong::nothing ||
          from.length < op.length || op.length == 0)
        continue;
      op.local = cut({from.local.front().at, op.length}, limits_.send_sges);
      op.from_landing = op.flags.fence = from.kept = true;
      return true;
    }
    return false;
  }
  /// A compare_swap finds what it looks for in half of all cases.
  void aim(Op& op) {
    if (random_.chance(0.5))
      std::memcpy(&op.compare_add, now_.target.data() + op.remote, sizeof op.compare_add);
  }
  template <class T>
  [[nodiscard]] T& random_of(std::vector<T>& all) {
    return all[random_.below(static_cast<std::uint32_t>(all.size()))];
  }

  Flow& flow_;
  Random& random_;
  QpCapacity limits_;
  std::uint32_t max_size_;
  Memory now_;  ///< what the model has made of it so far
  std::vector<Use> open_;
  std::vector<std::uint32_t> words_;  ///< where atomics have been
  std::size_t barrier_ = 0;           ///< a fence waits for all requests before this one
};

/// While messages of a side wait for receives, its responses take further PSNs of the same window.
/// A program whose READs have to end before it posts receives needs a window for all of them
/// (docs/extensions.md).
void widen(Program::Connection& c, unsigned side, std::uint32_t mtu) {
  const auto packets = [mtu](const Op& op) { return 1 + op.length / mtu; };
  std::uint32_t sent = 0, answered = 0;
  for (const Op& op : c.flows[side].ops) sent += op.consumes() ? packets(op) : 0;
  for (const Op& op : c.flows[1 - side].ops) answered += has_response(op.opcode) ? packets(op) : 0;
  if (sent == 0 || answered == 0) return;
  const auto units = static_cast<std::uint8_t>(std::min(kMaxMpr, (sent + answered) / kMprUnit + 1));
  c.attributes[side].mpr = std::max(c.attributes[side].mpr, units);
  c.attributes[1 - side].mpr_dest = std::max(c.attributes[1 - side].mpr_dest, units);
  c.attributes[1 - side].dynamic_mpr = false;
}

}  // namespace

Program make_program(const ProgramOptions& options, Random& random) {
  Program program;
  const std::uint32_t connections = 1 + random.below(options.connections);
  for (std::uint32_t& depth : program.shared_depth)
    depth = random.chance(0.4) ? 1 + random.below(24) : 0;
  program.near_wrap = random.chance(0.3) ? 100 : 1u << 24;
  for (std::uint32_t i = 0; i < connections; ++i) {
    Program::Connection c;
    constexpr std::uint32_t kMtus[] = {256, 384, 512, 1024, 1408, 2048, 3968, 4096};
    const std::uint32_t mtu = kMtus[random.below(8)];
    const auto wrong_side = random.chance(options.wrong) ? random.below(2) : 2;
    for (unsigned side = 0; side < 2; ++side) {
      QpAttributes& a = c.attributes[side];
      a.mtu = mtu;
      a.mpr = static_cast<std::uint8_t>(1 + random.below(32));
      a.mpr_dest = static_cast<std::uint8_t>(1 + random.below(32));
      a.max_wimm = static_cast<std::uint16_t>(1 + random.below(16));
      a.max_wimm_dest = static_cast<std::uint16_t>(1 + random.below(16));
      a.timeout = static_cast<std::uint8_t>(6 + random.below(options.both ? 2 : 7));
      a.retry_exponential = options.both ? 4 : 25;
      a.dynamic_mpr = random.chance(0.5);
      a.trim_nack = random.chance(0.8);
      a.max_rd_atomic = static_cast<std::uint8_t>(1 + random.below(16));
      a.max_rd_atomic_dest = static_cast<std::uint8_t>(1 + random.below(16));
      a.min_rnr_timer = static_cast<std::uint8_t>(1 + random.below(8));
      QpCapacity& q = c.capacities[side];
      q.send = 1 + random.below(32);
      q.receive = 1 + random.below(32);
      q.send_sges = 1 + random.below(4);
      q.receive_sges = 1 + random.below(4);
      q.atomics = true;
      q.inline_bytes = random.chance(0.5) ? random.below(200) : 0;
      c.signal_all[side] = random.chance(0.1);
    }
    for (unsigned side = 0; side < 2; ++side) {
      Flow& flow = c.flows[side];
      flow.shared = program.shared_depth[1 - side] > 0 && random.chance(0.75);
      flow.relaxed = random.chance(0.5);
      const bool wrong = wrong_side == side || (options.both && wrong_side < 2);
      flow.open_end = wrong_side == 1 - side || (options.both && wrong_side < 2);
      FlowMaker maker(flow, random, c.capacities[side], options.max_size);
      const std::uint32_t count = 1 + random.below(options.ops);
      if (wrong) flow.fails = random.below(count);
      for (std::uint32_t n = 0; n < count; ++n)
        maker.add(flow.fails == n ? static_cast<Wrong>(1 + random.below(flow.shared ? 5 : 7))
                                  : Wrong::nothing);
      maker.finish();
      if (flow.shared) {
        std::uint32_t& room = program.shared_room[1 - side];
        for (const Op& op : flow.ops)
          if (op.is_send()) room = std::max(room, op.length);
        continue;
      }
      maker.add_receives(c.capacities[1 - side].receive_sges);
      if (!flow.fails || flow.ops[*flow.fails].wrong != Wrong::not_ready) continue;
      // All receives that there will be are posted before the first request.
      c.attributes[side].rnr_retry = static_cast<std::uint8_t>(random.below(3));
      QpCapacity& theirs = c.capacities[1 - side];
      theirs.receive = std::max(theirs.receive, static_cast<std::uint32_t>(flow.receives.size()));
    }
    for (unsigned side = 0; side < 2; ++side) widen(c, side, mtu);
    program.connections.push_back(std::move(c));
  }
  return program;
}

}  // namespace mrc::test::rc
