// SPDX-License-Identifier: Apache-2.0
// What each rank of nccl_perf does in a collective operation: run here by one thread, over queues.
#include "nccl_perf/collective.hpp"

#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <map>
#include <tuple>

#include "nccl_perf/pattern.hpp"

namespace collective_test {

using namespace mrc::nccl_perf;

/// All ranks of an operation. Between two of them there is a queue per channel and direction.
class AllRanks {
 public:
  AllRanks(Collective c, const Shape& shape, std::size_t size) : c_(c), shape_(shape), size_(size) {
    const Volume v = volume(c, shape.ranks, size);
    for (int r = 0; r < shape.ranks; ++r) {
      Rank& rank = ranks_.emplace_back();
      rank.peers = peers_of(c, shape, r);
      rank.programs = programs_of(c, shape, r, size);
      rank.next.assign(rank.programs.size(), 0);
      rank.input.resize(v.input);
      rank.output.resize(v.output);
      fill_input(c, r, 7, rank.input.data(), v.input);
      spoil(rank.output.data(), v.output);
    }
  }

  /// Until nothing moves any more. Returns whether all programs came to their ends, no message is
  /// left, and no queue was ever longer than eight messages, which is what a connection holds.
  bool run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int r = 0; r < shape_.ranks; ++r)
        for (std::size_t p = 0; p < ranks_[r].programs.size(); ++p) moved |= step(r, p);
    }
    for (const Rank& rank : ranks_)
      for (std::size_t p = 0; p < rank.programs.size(); ++p)
        if (rank.next[p] != rank.programs[p].size()) return false;
    for (const auto& [key, queue] : queues_)
      if (!queue.empty()) return false;
    return true;
  }

  [[nodiscard]] std::size_t wrong() const {
    std::size_t wrong = 0;
    for (int r = 0; r < shape_.ranks; ++r)
      wrong += wrong_elements(c_, shape_, r, 7, ranks_[r].output.data(), size_);
    return wrong;
  }

  /// Changes a byte of a rank's input.
  void damage(int rank, std::size_t at) { ranks_[rank].input.at(at) ^= std::byte{0x40}; }

  /// Bytes that a rank sends.
  std::vector<std::size_t> sent = std::vector<std::size_t>(64, 0);
  /// Largest message.
  std::size_t largest = 0;

 private:
  struct Rank {
    Peers peers;
    std::vector<Program> programs;
    std::vector<std::size_t> next;
    std::vector<std::byte> input, output;
  };
  using Bytes = std::vector<std::byte>;
  using Queue = std::deque<Bytes>;

  Queue& queue(int from, int to, int channel) { return queues_[{from, to, channel}]; }

  static void add(Bytes& sum, const std::byte* more) {
    for (std::size_t i = 0; i < sum.size(); i += sizeof(float)) {
      float a = 0, b = 0;
      std::memcpy(&a, &sum[i], sizeof a);
      std::memcpy(&b, more + i, sizeof b);
      a += b;
      std::memcpy(&sum[i], &a, sizeof a);
    }
  }

  bool step(int r, std::size_t program) {
    Rank& rank = ranks_[r];
    if (rank.next[program] == rank.programs[program].size()) return false;
    const Step& s = rank.programs[program][rank.next[program]];
    std::vector<Queue*> from, to;
    for (const auto i : s.receives) {
      if (i == kNone) continue;
      const Peer peer = rank.peers.receives.at(static_cast<std::size_t>(i));
      from.push_back(&queue(peer.rank, r, peer.channel));
      if (from.back()->empty()) return false;
    }
    for (const auto i : s.sends) {
      if (i == kNone) continue;
      const Peer peer = rank.peers.sends.at(static_cast<std::size_t>(i));
      to.push_back(&queue(r, peer.rank, peer.channel));
      if (to.back()->size() == 8) return false;
    }
    Bytes sum;
    const auto take = [&](const std::byte* data) {
      if (sum.empty())
        sum.assign(data, data + s.bytes);
      else
        add(sum, data);
    };
    for (Queue* q : from) {
      CHECK(q->front().size() == s.bytes);
      take(q->front().data());
      q->pop_front();
    }
    if (s.input != kNone) take(rank.input.data() + s.input);
    if (s.output != kNone) std::memcpy(rank.output.data() + s.output, sum.data(), s.bytes);
    for (Queue* q : to) {
      q->push_back(sum);
      sent[static_cast<std::size_t>(r)] += s.bytes;
    }
    largest = std::max(largest, s.bytes);
    ++rank.next[program];
    return true;
  }

  Collective c_;
  Shape shape_;
  std::size_t size_;
  std::deque<Rank> ranks_;
  std::map<std::tuple<int, int, int>, Queue> queues_;
};

TEST_CASE("collectives end with the right data at all ranks") {
  for (const Collective c : kCollectives)
    for (int ranks = 2; ranks <= 9; ++ranks)
      for (const int channels : {1, 2, 3})
        for (const std::size_t wanted : {4, 1000, 70'000, 500'000}) {
          Shape shape;
          shape.ranks = ranks;
          shape.channels = channels;
          shape.chunk = 16'384;
          shape.p2p_chunk = 8'192;
          const std::size_t size = whole_size(c, ranks, wanted);
          AllRanks all(c, shape, size);
          CAPTURE(to_string(c));
          CAPTURE(ranks);
          CAPTURE(channels);
          CAPTURE(size);
          REQUIRE(all.run());
          REQUIRE(all.wrong() == 0);
          REQUIRE(all.largest <= shape.largest(c));
        }
}

TEST_CASE("a wrong byte anywhere in a collective's input shows at the ranks that need it") {
  for (const Collective c : kCollectives) {
    Shape shape;
    shape.ranks = 4;
    const std::size_t size = whole_size(c, shape.ranks, 100'000);
    AllRanks all(c, shape, size);
    all.damage(1, volume(c, shape.ranks, size).input - 2);
    CAPTURE(to_string(c));
    REQUIRE(all.run());
    CHECK(all.wrong() == (c == Collective::all_gather || c == Collective::all_reduce ||
                                  c == Collective::all_reduce_tree
                              ? 4
                              : 1));
  }
}

TEST_CASE("each rank of a ring sends what the bus bandwidth counts") {
  Shape shape;
  shape.ranks = 4;
  for (const Collective c : {Collective::all_reduce, Collective::all_gather,
                             Collective::reduce_scatter, Collective::all_to_all}) {
    const std::size_t size = 1 << 20;
    AllRanks all(c, shape, size);
    REQUIRE(all.run());
    for (std::size_t r = 0; r < 4; ++r)
      CHECK(static_cast<double>(all.sent[r]) == bus_factor(c, 4) * static_cast<double>(size));
  }
}

TEST_CASE("no rank is an inner node of both trees, but for one") {
  for (const int ranks : {2, 4, 6, 8}) {
    Shape shape;
    shape.ranks = ranks;
    int both = 0;
    for (int r = 0; r < ranks; ++r) {
      std::array<int, 2> links{};
      for (const Peer& p : peers_of(Collective::all_reduce_tree, shape, r).sends)
        ++links.at(static_cast<std::size_t>(p.channel));
      both += links[0] > 1 && links[1] > 1 ? 1 : 0;
    }
    CHECK(both <= 1);
  }
}

}  // namespace collective_test
