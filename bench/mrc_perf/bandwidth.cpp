// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "stall.hpp"
#include "tests.hpp"
#include "traffic.hpp"
#include "units.hpp"

namespace mrc::perf {
namespace {

constexpr int kRounds = 8;  ///< between two looks at the control connection

/// The client's part for one message size.
class BandwidthClient {
 public:
  BandwidthClient(Session& session, Traffic& traffic, Monitor& monitor, const Options& options,
                  std::uint64_t size)
      : session_(session),
        control_(session.control()),
        monitor_(monitor),
        options_(options),
        size_(size),
        traffic_(traffic),
        lookout_(session.control()),
        guard_(session) {}

  void run(Result& result) {
    prepare();
    try {
      warm_up();
      measure(result);
    } catch (const Failure&) {
      if (measuring_) record(monotonic_now(), result);
      throw;
    }
    finish(result);
  }

 private:
  void step() { traffic_.step(); }
  void prepare();
  void warm_up();
  void measure(Result& result);
  void finish(Result& result);
  void drain();
  void record(Time now, Result& result);
  void look(Time now);
  /// Bytes moved so far, in both directions if both carry data.
  [[nodiscard]] std::uint64_t payload() const {
    const std::uint64_t sent = traffic_.sender.completed().bytes;
    return options_.parameters.bidirectional ? sent + session_.received_bytes() : sent;
  }

  Session& session_;
  Control& control_;
  Monitor& monitor_;
  const Options& options_;
  std::uint64_t size_;
  Traffic& traffic_;
  Lookout lookout_;
  StallGuard guard_;
  std::uint64_t messages_before_ = 0;
  bool measuring_ = false;
};

void BandwidthClient::prepare() {
  traffic_.receiver.start(size_);
  control_.send({{"op", "run"}, {"size", size_}});
  control_.wait("ready", kGrace, [this] { step(); });
  traffic_.sender.start(size_);
}

void BandwidthClient::look(Time now) {
  if (const auto message = lookout_.look(now))
    throw Failure(fmt::format("{} said '{}' in the middle of a run", control_.peer(),
                              (*message)["op"].get<std::string>()));
  guard_.look(now, traffic_.moves(), [this] {
    const std::string what = traffic_.sender.waiting_for();
    return what.empty() ? "completions" : what;
  });
}

void BandwidthClient::warm_up() {
  const Time end = monotonic_now() + options_.warmup;
  for (Time now; (now = monotonic_now()) < end && !g_interrupted;) {
    step();
    look(now);
  }
  if (options_.iterations == 0) return;
  // Only the messages measured are to be counted.
  traffic_.sender.stop();
  drain();
}

void BandwidthClient::drain() {
  const Duration patience = session_.patience() + kGrace;
  Time end = monotonic_now() + patience;
  std::uint64_t completed = traffic_.sender.completed().messages;
  for (Time now; !traffic_.sender.drained(); look(now)) {
    step();
    now = monotonic_now();
    const std::uint64_t messages = traffic_.sender.completed().messages;
    if (!g_interrupted && messages != completed) {  // slowly, but they go
      completed = messages;
      end = now + patience;
    }
    if (now > end)
      throw Failure(fmt::format("{} does not take the last messages", control_.peer()));
  }
}

void BandwidthClient::measure(Result& result) {
  control_.send({{"op", "go"}});
  session_.start_faults();
  if (options_.iterations > 0) traffic_.sender.resume(options_.iterations);
  const Time start = monotonic_now();
  messages_before_ = traffic_.sender.completed().messages;
  monitor_.start(start, size_, payload());
  measuring_ = true;
  const Time end = options_.iterations > 0 ? kNever : start + options_.duration;
  const std::uint64_t all = options_.iterations * options_.parameters.qps;
  Time now = start;
  while (now < end && !g_interrupted) {
    step();
    now = monotonic_now();
    if (monitor_.due(now)) monitor_.tick(now, payload());
    if (all > 0 && traffic_.sender.completed().messages - messages_before_ >= all) break;
    look(now);
  }
  record(now, result);
}

void BandwidthClient::record(Time now, Result& result) {
  result.iterations = traffic_.sender.completed().messages - messages_before_;
  monitor_.finish(now, payload(), result);
  measuring_ = false;
}

void BandwidthClient::finish(Result& result) {
  traffic_.sender.stop();
  drain();
  const std::uint64_t sent = traffic_.sender.posted_messages();
  control_.send({{"op", "end"}, {"sent", sent}});
  const auto totals = control_.wait("totals", session_.patience() + kGrace, [this] {
    for (int i = 0; i < kRounds; ++i) step();
  });
  session_.stop_faults();

  // All that the server sent is in flight or here, but may not be verified yet.
  const Receiver& receiver = traffic_.receiver;
  const auto theirs = totals.value("sent", std::uint64_t{0});
  const bool counts = options_.parameters.check || options_.parameters.test == Test::write_imm;
  const Time end = monotonic_now() + kGrace;
  while (counts && receiver.received().messages < theirs && monotonic_now() < end) step();
  if (counts && receiver.received().messages != theirs)
    throw Failure(fmt::format("received {} messages of {} that {} has sent",
                              receiver.received().messages, theirs, control_.peer()));
  result.checked_bytes = receiver.checked_bytes();
  result.check_errors = receiver.errors();
  if (receiver.errors() > 0) fmt::print(stderr, "mrc_perf: check: {}\n", receiver.first_error());
  add_totals(totals, sent, options_.parameters, result);
}

nlohmann::json totals_json(const ServerTotals& t) {
  return {{"op", "totals"},
          {"sent", t.sent},
          {"received", t.received},
          {"checked_bytes", t.checked_bytes},
          {"check_errors", t.check_errors},
          {"first_error", t.first_error},
          {"retransmits", t.retransmits}};
}

}  // namespace

void run_bandwidth(Session& session, Traffic& traffic, Monitor& monitor, const Options& options,
                   std::uint64_t size, Report& report) {
  Result& result = report.results.emplace_back();
  result.size = size;
  BandwidthClient client(session, traffic, monitor, options, size);
  try {
    client.run(result);
  } catch (const PeerGone& gone) {
    fail_without_peer(session, gone);
  }
}

ServerTotals serve_bandwidth(Session& session, Traffic& traffic, std::uint64_t size) {
  const Parameters& p = session.parameters();
  Control& control = session.control();
  Lookout lookout(control);
  StallGuard guard(session);
  traffic.receiver.start(size);
  if (p.bidirectional) traffic.sender.start(size);
  const std::uint64_t retransmits = session.device().stats().engine.tx_retransmits;
  control.send({{"op", "ready"}});

  std::optional<std::uint64_t> expected;  // messages, once the client has reported them
  const bool counts = p.check || p.test == Test::write_imm;
  while (!expected || (counts && traffic.receiver.received().messages < *expected) ||
         !traffic.sender.drained()) {
    for (int i = 0; i < kRounds; ++i) traffic.step();
    if (g_interrupted) throw Interrupted();
    const Time now = monotonic_now();
    const auto message = lookout.look(now);
    guard.look(now, traffic.moves(), [&] {
      const std::string what = traffic.sender.waiting_for();
      if (!what.empty()) return what;
      return expected ? fmt::format("the rest of {} messages", *expected)
                      : std::string("the client's next message");
    });
    if (!message) continue;
    if ((*message)["op"] == "go") {
      session.start_faults();
    } else if ((*message)["op"] == "end") {
      expected = message->value("sent", std::uint64_t{0});
      traffic.sender.stop();
    }
  }
  session.stop_faults();
  const ServerTotals totals{size,
                            traffic.sender.posted_messages(),
                            traffic.receiver.received().messages,
                            traffic.receiver.checked_bytes(),
                            traffic.receiver.errors(),
                            traffic.receiver.first_error(),
                            session.device().stats().engine.tx_retransmits - retransmits};
  control.send(totals_json(totals));
  return totals;
}

void add_totals(const nlohmann::json& totals, std::uint64_t sent, const Parameters& p,
                Result& result) {
  const auto checked = totals.value("checked_bytes", std::uint64_t{0});
  const auto errors = totals.value("check_errors", std::uint64_t{0});
  result.checked_bytes += checked;
  result.check_errors += errors;
  if (p.bidirectional) result.retransmits += totals.value("retransmits", std::uint64_t{0});
  if (errors > 0)
    fmt::print(stderr, "mrc_perf: check at the server: {}\n", totals.value("first_error", ""));
  if (p.check && checked != sent * result.size)
    throw Failure(fmt::format("{} bytes were sent, but {} checked", sent * result.size, checked));
}

void fail_without_peer(Session& session, const PeerGone& gone) {
  const std::string why = session.first_error();
  throw Failure(why.empty() ? gone.what() : fmt::format("{}; {}", gone.what(), why));
}

}  // namespace mrc::perf
