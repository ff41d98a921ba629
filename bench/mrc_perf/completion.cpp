// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sched.h>

#include "one_by_one.hpp"
#include "stall.hpp"
#include "units.hpp"

/// Time from a one-sided write to its completion, while the peer's program is asleep: only the
/// library's helper thread responds there, and it sleeps between messages, too.
namespace mrc::perf {
namespace {

/// The client's part for one message size.
class CompletionClient {
 public:
  CompletionClient(Session& session, const Options& /*options*/, std::uint64_t size)
      : session_(session), size_(size), lookout_(session.control()), guard_(session) {}

  /// Sends one write; returns the time until its completion.
  std::optional<Duration> once() {
    const Time start = monotonic_now();
    const Sge sge{session_.send_area(0), static_cast<std::uint32_t>(size_), session_.send_lkey()};
    SendRequest request;
    request.wr_id = RequestId{Purpose::data, 0, 0}.pack();
    request.sges = {&sge, 1};
    request.remote = session_.peer_area(0, 0);
    request.flags.inline_data = size_ <= session_.parameters().inline_bytes;
    if (const Errc error = session_.qp(0).post_send(request); error != Errc::ok) {
      const std::string why = session_.first_error();
      throw Failure(why.empty() ? mrc::to_string(error) : why);
    }
    for (unsigned looks = 1; take_completions(session_) == 0 && !g_interrupted; ++looks) {
      constexpr unsigned kRarely = 64;
      if (looks % kRarely != 0) continue;
      sched_yield();  // the peer's helper may have no other core
      const Time now = monotonic_now();
      if (const auto said = lookout_.look(now))
        throw Failure(fmt::format("{} said '{}' in the middle of a run", session_.control().peer(),
                                  printable((*said)["op"].get_ref<const std::string&>())));
      guard_.look(now, 0, [] { return "the completion of a write"; });
    }
    if (g_interrupted) return std::nullopt;
    return monotonic_now() - start;
  }
  void finish(Result& /*result*/) {}

 private:
  Session& session_;
  std::uint64_t size_;
  Lookout lookout_;
  StallGuard guard_;
};

}  // namespace

void run_completion(Session& session, Monitor& monitor, const Options& options, std::uint64_t size,
                    Report& report) {
  run_one_by_one<CompletionClient>(session, monitor, options, size, report);
}

ServerTotals serve_completion(Session& session, std::uint64_t size) {
  Control& control = session.control();
  control.send({{"op", "ready"}});
  const auto sleep_until = [&](const char* op) {
    for (;;) {
      if (g_interrupted) throw Interrupted();
      if (const auto message = control.poll(); message && (*message)["op"] == op) return *message;
      control.sleep(std::chrono::milliseconds(200));
    }
  };
  sleep_until("go");
  session.start_faults();
  const nlohmann::json end = sleep_until("end");
  session.stop_faults();
  ServerTotals totals;
  totals.size = size;
  totals.received = end.value("sent", std::uint64_t{0});
  control.send({{"op", "totals"}, {"sent", 0}, {"received", totals.received}});
  return totals;
}

}  // namespace mrc::perf
