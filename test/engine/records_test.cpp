// SPDX-License-Identifier: Apache-2.0
// What is not on record of a packet follows from its message: sizes and messages of packets that
// are sent again.
#include <doctest/doctest.h>

#include <numeric>

#include "support/single.hpp"

using namespace mrc;
using namespace mrc::test;
using namespace std::chrono_literals;
using wire::NackReason;

namespace records_test {

SingleSetup full_window(std::uint32_t mtu) {
  SingleSetup setup;
  setup.options.cc.algorithm = cc::Algorithm::none;
  setup.capacity.send = 4096;
  setup.attributes.mtu = mtu;
  setup.attributes.mpr = 32;  // 4,096 packets
  return setup;
}

/// Many of them are trimmed, some twice, and sent again as they were; all of it leaves the accounts
/// in the end.
void trim_and_repeat(Single& s, const SentList& sent, std::uint16_t last_msn) {
  SentList newest = sent;
  for (const std::size_t step : {3u, 7u}) {
    for (std::size_t i = 0; i < sent.size(); i += step) {
      s.now += 1us;
      s.nack(newest[i], NackReason::trimmed);
      const SentList again = data_of(s.transmit());
      REQUIRE(again.size() == 1);
      const wire::WriteView w = again[0].write(), first = sent[i].write();
      REQUIRE(again[0].psn() == sent[i].psn());
      REQUIRE(w.bth->opcode() == first.bth->opcode());
      REQUIRE(w.meth->msn.value() == first.meth->msn.value());
      REQUIRE(w.reth->va.value() == first.reth->va.value());
      REQUIRE(std::equal(w.payload.begin(), w.payload.end(), first.payload.begin(),
                         first.payload.end()));
      newest[i] = again[0];
    }
  }
  CHECK(s.qp().tx.window.outstanding() == sent.size());
  const auto& inflight = s.peer_state().plane_inflight;
  CHECK(std::accumulate(inflight.begin(), inflight.end(), std::uint64_t{0}) > 0);
  s.ack(last_msn, static_cast<std::uint32_t>(sent.size() - 1));
  CHECK(s.qp().tx.queue.empty());
  CHECK(std::accumulate(inflight.begin(), inflight.end(), std::uint64_t{0}) == 0);
}

TEST_CASE("records: a full window of messages of one packet, whose sizes differ") {
  Single s(full_window(1024));
  for (std::uint32_t i = 0; i < 4096; ++i)
    REQUIRE(s.post({.id = i, .length = i % 1025, .offset = 251 * (i % 4000)}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 4096);
  trim_and_repeat(s, sent, 4095);
}

TEST_CASE("records: a full window of one message") {
  Single s(full_window(256));
  REQUIRE(s.post({.length = 1 << 20}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 4096);
  trim_and_repeat(s, sent, 0);
}

TEST_CASE("records: a window that ends in the midst of a message, and largest packets") {
  Single s(full_window(32'768));
  std::uint32_t packets = 0;
  for (std::uint32_t i = 0; packets < 3000; ++i) {
    const std::uint32_t length = i % 7 == 0 ? 1 << 20 : 32'768 + i % 32'768;
    packets += (length + 32'767) / 32'768;
    REQUIRE(s.post({.id = i, .length = length}) == Errc::ok);
  }
  s.nack(data_of(s.transmit()).back(), NackReason::trimmed);
  const SentList again = data_of(s.transmit());
  REQUIRE(again.size() == 1);
  CHECK(again[0].write().payload.size() > 0);
  // An error takes what is in flight out of the accounts, whatever was sent again.
  CHECK(s.engine.to_error(s.qpn) == Errc::ok);
  const auto& inflight = s.peer_state().plane_inflight;
  CHECK(std::accumulate(inflight.begin(), inflight.end(), std::uint64_t{0}) == 0);
  CHECK(s.engine.quiet());
}

TEST_CASE("records: those given up while their message is still being sent") {
  SingleSetup setup = full_window(256);
  setup.attributes.mpr = 1;
  Single s(setup);
  for (const std::uint32_t length : {100u, 256u * 50, 0u, 256u * 200})
    REQUIRE(s.post({.length = length}) == Errc::ok);
  const SentList sent = data_of(s.transmit());
  REQUIRE(sent.size() == 128);  // 1, 50, 1 and the first 76
  for (const std::size_t i : {0u, 1u, 50u, 51u, 52u, 127u}) {
    s.now += 1us;
    s.nack(sent[i], NackReason::trimmed);
    const SentList again = data_of(s.transmit());
    REQUIRE(again.size() == 1);
    CHECK(again[0].write().meth->msn.value() == sent[i].write().meth->msn.value());
    CHECK(again[0].bytes.size() == sent[i].bytes.size());
  }
}

TEST_CASE("records: with all requests posted and a full window, 64 KiB are enough") {
  SingleSetup setup = full_window(256);
  setup.capacity = {.receive_sges = 0};
  Single s(setup);
  CHECK(s.qp().memory() <= 8 * 1024);
  while (s.post({.length = 1 << 14}) == Errc::ok) continue;
  REQUIRE(data_of(s.transmit()).size() == 4096);
  CHECK(s.qp().tx.queue.full());
  CHECK(s.qp().memory() <= 64 * 1024);
}

}  // namespace records_test
