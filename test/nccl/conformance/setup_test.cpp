// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <atomic>

#include "nccl/conformance/traffic.hpp"

using namespace nccl_conformance;

namespace setup_test {

/// A short message over every connection.
void use(Job& job, std::vector<Setup>& setups) {
  for (Setup& setup : setups) {
    const Plan plan{.seed = 9, .groups = 1, .most_in_group = 1, .depth = 1, .most_bytes = 512};
    exchange(job.net(), setup.send, setup.receive, plan);
  }
}

TEST_CASE("Connections are set up in any interleaving") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    Random random(static_cast<std::uint64_t>(version));
    for (int round = 0; round < scaled(20); ++round) {
      std::vector<Setup> setups(1 + random.below(15));
      for (Setup& setup : setups) {
        setup.job = &job;
        setup.from = random.below(2);
        setup.to = 1 - setup.from;
        setup.listen();
      }
      until("set-up", [&] {
        const std::size_t chosen = random.below(setups.size());
        for (auto calls = random.below(4); calls > 0; --calls) {
          random.below(2) ? setups[chosen].connect() : setups[chosen].accept();
        }
        return std::all_of(setups.begin(), setups.end(),
                           [](const Setup& setup) { return setup.send && setup.receive; });
      });
      use(job, setups);
      for (Setup& setup : setups) {
        const bool sender_first = random.below(2) != 0;
        if (sender_first) setup.close_send();
        setup.close_receive();
        setup.close_send();
      }
    }
  }
}

TEST_CASE("Service threads of two ranks set up connections at once") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    for (int round = 0; round < scaled(10); ++round) {
      std::vector<Setup> setups(32);
      for (Setup& setup : setups) {
        setup.job = &job;
        setup.listen();
      }
      const auto all = [&](bool (Setup::*step)()) {
        until("set-up", [&] {
          bool done = true;
          for (Setup& setup : setups) done &= (setup.*step)();
          return done;
        });
      };
      in_two_threads([&] { all(&Setup::connect); }, [&] { all(&Setup::accept); });
      use(job, setups);
      in_two_threads(
          [&] {
            for (Setup& setup : setups) setup.close_send();
          },
          [&] {
            for (Setup& setup : setups) setup.close_receive();
          });
    }
  }
}

TEST_CASE("Service threads of two ranks connect at once") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    const auto set_up = [&](unsigned from) {
      for (int round = 0; round < scaled(50); ++round) {
        Setup setup;
        setup.job = &job;
        setup.from = from;
        setup.to = 1 - from;
        setup.listen();
        for (int n = 0; n < 20 && !setup.connect(); ++n) {  // asks in vain: nobody accepts yet
        }
        setup.complete();
        setup.close();
      }
    };
    in_two_threads([&] { set_up(0); }, [&] { set_up(1); });
  }
}

TEST_CASE("Connections are set up and closed while others carry traffic") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    Connection there(job, 0, 1);
    Connection back(job, 1, 0);
    std::atomic<bool> stop = false;
    auto service = std::async(std::launch::async, [&] {
      int made = 0;
      do {
        std::vector<Setup> setups(4);
        for (Setup& setup : setups) {
          setup.job = &job;
          setup.listen();
        }
        until("set-up", [&] {
          bool done = true;
          for (Setup& setup : setups) {
            done &= setup.connect();
            done &= setup.accept();
          }
          return done;
        });
        use(job, setups);
        for (Setup& setup : setups) {
          setup.close_receive();
          setup.close_send();
        }
        made += 4;
      } while (!stop);
      return made;
    });
    try {
      run(job, {&there, &back}, {.seed = 13, .groups = scaled(300), .most_bytes = 20'000});
    } catch (...) {
      stop = true;
      throw;
    }
    stop = true;
    CHECK(service.get() >= 4);
  }
}

TEST_CASE("A set-up that one side gives up does not disturb the others") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    Random random(static_cast<std::uint64_t>(version));
    for (int round = 0; round < scaled(20); ++round) {
      Setup given_up{.job = &job};
      given_up.listen();
      for (auto calls = random.below(6); calls > 0; --calls) {
        random.below(2) ? given_up.connect() : given_up.listener ? given_up.accept() : true;
      }
      std::vector<Setup> setups(1);
      setups[0].job = &job;
      setups[0].listen();
      setups[0].complete();
      use(job, setups);
      given_up.close();
      setups[0].close();
    }
  }
}

TEST_CASE("Peers that never come keep nobody waiting") {
  const Environment environment{kTwoPlanes};
  for (const int version : few_versions()) {
    CAPTURE(version);
    Job job(version);
    // Nobody connects.
    Setup lonely{.job = &job};
    lonely.listen();
    CHECK_FALSE(for_a_while(std::chrono::milliseconds(200), [&] { return lonely.accept(); }));
    lonely.close_listener();

    // Nobody accepts, and then nobody listens: connect fails, or goes on asking to be called.
    Setup ignored{.job = &job};
    ignored.listen();
    const auto connect = [&] {
      return job.net().connect(job.context(0), 0, ignored.handle, &ignored.send) !=
                 Result::success ||
             ignored.send;
    };
    for_a_while(std::chrono::milliseconds(200), connect);
    ignored.close_listener();
    if (!ignored.send) for_a_while(std::chrono::milliseconds(200), connect);
    ignored.close_send();

    // The listener closed before anybody came.
    Setup late{.job = &job};
    late.listen();
    late.close_listener();
    for_a_while(std::chrono::milliseconds(200), [&] {
      return job.net().connect(job.context(0), 0, late.handle, &late.send) != Result::success;
    });
    CHECK(late.send == nullptr);

    Connection connection(job);
    run(job, {&connection}, {.groups = 5});
  }
}

TEST_CASE("A handle that no listener made is refused") {
  const Environment environment{kTwoPlanes};
  for (const int version : versions()) {
    CAPTURE(version);
    Job job(version);
    for (int round = 0; round < scaled(50); ++round) {
      Setup setup{.job = &job};
      fill(setup.handle, sizeof(setup.handle), static_cast<std::uint64_t>(round));
      if (round == 0) std::fill_n(setup.handle, sizeof(setup.handle), '\0');
      CHECK(job.net().connect(job.context(0), 0, setup.handle, &setup.send) != Result::success);
      CHECK(setup.send == nullptr);
    }
  }
}

}  // namespace setup_test
