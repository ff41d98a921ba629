// SPDX-License-Identifier: Apache-2.0
#include "mrc/cc/nscc.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

using namespace mrc::cc;
using namespace std::chrono_literals;
using mrc::Duration;

namespace nscc_parameters_test {

struct Instance {
  std::uint64_t gbps;
  Duration base_rtt;
  double bdp, scale;
  Duration target;
  double max_cwnd, alpha, fi, fi_scale, eta;
  Duration qa_threshold;
  double gain;
};

// The table of instances of mrc-1.0 §6.1, MTU 4,096.
const Instance kInstances[] = {
    {100, 12us, 150'000, 1, 9us, 225'000, 1.365e9, 20'480, 0.25, 614.4, 36us, 12'288},
    {400, 12us, 600'000, 4, 9us, 900'000, 5.461e9, 81'920, 1.0, 2'457.6, 36us, 49'152},
    {800, 10us, 1'000'000, 6.667, 7'500ns, 1'500'000, 9.102e9, 136'533, 1.667, 4'096, 30us, 68'267},
};

NsccOptions options(const Instance& i) {
  NsccOptions o;
  o.link_speed = i.gbps * 1'000'000'000;
  o.base_rtt = i.base_rtt;
  o.mtu = 4096;
  return o;
}

// The table has four digits.
bool near(double value, double expected) {
  return std::abs(value - expected) <= 5e-4 * expected;
}

std::string refusal(const NsccOptions& o) {
  try {
    (void)derive(o);
  } catch (const mrc::Error& e) {
    CHECK(e.code() == mrc::make_error_code(mrc::Errc::invalid_argument));
    return e.what();
  }
  return {};
}

TEST_CASE("nscc parameters: the instances of the reference") {
  for (const Instance& i : kInstances) {
    CAPTURE(i.gbps);
    NsccOptions o = options(i);
    o.trimming = true;
    NsccParameters p = derive(o);
    CHECK(near(p.bytes_per_ns * static_cast<double>(p.base_rtt.count()), i.bdp));
    CHECK(near(p.scale, i.scale));
    CHECK(p.target_qdelay == i.target);
    CHECK(near(p.max_wnd, i.max_cwnd));
    CHECK(p.min_wnd == 4096);
    CHECK(near(p.alpha, i.alpha));
    CHECK(near(p.fi, i.fi));
    CHECK(near(p.fi_scale, i.fi_scale));
    CHECK(near(p.eta, i.eta));
    CHECK(p.adjust_bytes == 32'768);
    CHECK(p.adjust_period == i.base_rtt);
    CHECK(near(p.alpha * static_cast<double>(p.target_qdelay.count()) * 1e-9, i.gain));
    CHECK(p.gamma == 0.8);
    CHECK(p.max_md_jump == 0.5);
    CHECK(p.qa_gate == 3);
    CHECK_FALSE(p.disable_qa);
    CHECK(p.ack_gen_trigger == 16'384);
    // With trimming, delay alone never starts quick adapt; the same target without has a threshold.
    CHECK(p.qa_threshold == Duration::max());
    o.trimming = false;
    o.target_delay = i.target;
    CHECK(derive(o).qa_threshold == i.qa_threshold);
  }
}

TEST_CASE("nscc parameters: without trimming the target is one base round trip") {
  const NsccParameters p = derive(options(kInstances[0]));
  CHECK(p.target_qdelay == 12us);
  CHECK(p.qa_threshold == 48us);
}

TEST_CASE("nscc parameters: every one can be given") {
  NsccOptions o;
  o.target_delay = 20us;
  o.max_cwnd = 123'456;
  o.fi = 1;
  o.fi_scale = 2;
  o.eta = 3;
  o.qa_threshold = 4us;
  o.adjust_bytes = 5;
  o.adjust_period = 6us;
  o.gamma = 0.7;
  o.max_md_jump = 0.25;
  o.qa_gate = 2;
  o.disable_qa = true;
  o.ack_gen_trigger = 8192;
  o.send_while_below = true;
  o.base_rtt_floor = 7us;
  const NsccParameters p = derive(o);
  CHECK(p.target_qdelay == 20us);
  CHECK(p.max_wnd == 123'456);
  CHECK(p.max_wnd_fixed);
  CHECK(p.fi == 1);
  CHECK(p.fi_scale == 2);
  CHECK(p.eta == 3);
  CHECK(p.qa_threshold == 4us);
  CHECK(p.adjust_bytes == 5);
  CHECK(p.adjust_period == 6us);
  CHECK(p.gamma == 0.7);
  CHECK(p.max_md_jump == 0.25);
  CHECK(p.qa_gate == 2);
  CHECK(p.disable_qa);
  CHECK(p.ack_gen_trigger == 8192);
  CHECK(p.send_while_below);
  CHECK(p.base_rtt_floor == 7us);
}

TEST_CASE("nscc parameters: the window holds one packet even on the slowest network") {
  NsccOptions o;
  o.link_speed = 1'000'000;
  o.base_rtt = 1us;
  CHECK(derive(o).max_wnd == o.mtu);
}

TEST_CASE("nscc parameters: a value out of range is refused by name, with what is allowed") {
  const auto with = [](auto change) {
    NsccOptions o;
    change(o);
    return refusal(o);
  };
  CHECK(refusal(NsccOptions{}).empty());
  const std::string speed = with([](auto& o) { o.link_speed = 0; });
  CHECK(speed.find("link_speed: 0") != std::string::npos);
  CHECK(speed.find("1000000 .. ") != std::string::npos);
  CHECK(with([](auto& o) { o.base_rtt = 0ns; }).find("base_rtt") != std::string::npos);
  CHECK(with([](auto& o) { o.base_rtt = -1ns; }).find("base_rtt") != std::string::npos);
  CHECK(with([](auto& o) { o.base_rtt_floor = 1h; }).find("floor") != std::string::npos);
  CHECK(with([](auto& o) { o.mtu = 0; }).find("mtu") != std::string::npos);
  CHECK(with([](auto& o) { o.target_delay = 0ns; }).find("target") != std::string::npos);
  CHECK(with([](auto& o) { o.max_cwnd = 1; }).find("max_cwnd") != std::string::npos);
  CHECK(with([](auto& o) { o.fi = -1; }).find("fi") != std::string::npos);
  CHECK(with([](auto& o) { o.eta = std::nan(""); }).find("eta") != std::string::npos);
  CHECK(with([](auto& o) { o.gamma = 1.5; }).find("gamma") != std::string::npos);
  CHECK(with([](auto& o) { o.qa_gate = 64; }).find("qa_gate") != std::string::npos);
  CHECK(with([](auto& o) {
          o.fi_scale = std::numeric_limits<double>::infinity();
        }).find("fi_scale") != std::string::npos);
}

}  // namespace nscc_parameters_test
