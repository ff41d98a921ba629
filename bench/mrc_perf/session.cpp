// SPDX-License-Identifier: Apache-2.0
#include "session.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <thread>

#include "reach.hpp"
#include "units.hpp"

namespace mrc::perf {
namespace {

constexpr std::size_t kPage = 4096;
/// Small enough for caches, large enough to keep a fast network busy.
constexpr std::size_t kUsualArea = std::size_t{8} << 20;
constexpr std::size_t kUncheckedArea = std::size_t{1} << 20;
constexpr std::size_t kMostMemory = std::size_t{4} << 30;
constexpr Duration kSetUpTime = std::chrono::seconds(20);
/// Longest wait for the first packet of a peer; its device sends some as soon as it is connected.
constexpr Duration kUnheard = std::chrono::milliseconds(2500);

std::size_t area_for(const Parameters& p) {
  const std::size_t longest = round_up(p.largest, kLine);
  const std::size_t all = longest * p.depth;
  // A checked message occupies its place until it is verified; four places keep all stages busy.
  // Unchecked messages may share a place.
  std::size_t area = p.check ? std::min(all, std::max(4 * longest, kUsualArea))
                             : std::min(all, std::max(longest, kUncheckedArea));
  const std::size_t share = kMostMemory / 2 / p.qps;
  if (area > share) area = std::max(p.check ? std::min(all, 2 * longest) : longest, share);
  area = round_up(area, kPage);
  if (area * p.qps > kMostMemory)
    throw Failure(
        fmt::format("--size {} with --qps {} needs {} of memory, twice: use fewer queue pairs or "
                    "shorter messages",
                    p.largest, p.qps, size_text(area * p.qps)));
  return area;
}

Access remote_access(const Parameters& p) {
  // The latency test polls the last byte, which must therefore become visible last.
  const Access access = Access::local_write | Access::remote_write;
  return p.test == Test::latency ? access : access | Access::relaxed_ordering;
}

}  // namespace

Pages::Pages(std::size_t bytes) : data_(nullptr), bytes_(bytes) {
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED)
    throw Error(std::error_code(errno, std::generic_category()),
                fmt::format("can't allocate {} of memory", size_text(bytes)));
  data_ = static_cast<std::uint8_t*>(at);
}

Pages::~Pages() {
  ::munmap(data_, bytes_);
}

Session::Session(Device device, const Parameters& parameters, Control& control, bool server)
    : parameters_(parameters),
      control_(control),
      area_(area_for(parameters)),
      receives_(2 * parameters.depth),
      send_(area_ * parameters.qps),
      receive_(area_ * parameters.qps),
      words_(round_up(2 * sizeof(std::uint64_t) * parameters.qps, kPage)),
      device_(std::move(device)) {
  if (!parameters_.faults.empty()) {  // detects a mistake in it now
    device_.set_faults(parameters_.faults);
    stop_faults();
  }
  send_region_ = device_.register_memory(send_.data(), send_.size(), Access::none);
  receive_region_ =
      device_.register_memory(receive_.data(), receive_.size(), remote_access(parameters_));
  words_region_ = device_.register_memory(words_.data(), words_.size(),
                                          Access::local_write | Access::remote_write);
  create_queue_pairs();
  exchange_memory(server);
  connect(server);
}

void Session::create_queue_pairs() {
  // Each data message may need a note, and a few requests end a run.
  const std::uint32_t sends = 2 * parameters_.depth + 8;
  const bool imm = parameters_.check || parameters_.test == Test::write_imm;
  const std::uint32_t posted = imm && parameters_.test != Test::latency ? receives_ : 0;
  cq_ = device_.create_cq((parameters_.qps + 1) * (sends + posted));
  QpOptions options;
  options.send_cq = &cq_;
  options.capacity.send = sends;
  options.capacity.receive = posted;
  options.capacity.send_sges = 1;
  options.capacity.inline_bytes = std::max<std::uint32_t>(parameters_.inline_bytes, 16);
  for (std::uint32_t i = 0; i < parameters_.qps; ++i) {
    qps_.push_back(device_.create_qp(options));
  }
  options.capacity.receive = 0;
  options.capacity.send = 4;
  qps_.push_back(device_.create_qp(options));
  receives_ = posted;
}

void Session::exchange_memory(bool server) {
  const auto give = [this] {
    const RemoteAddress receive = receive_region_.remote();
    const RemoteAddress words = words_region_.remote();
    control_.send({{"op", "memory"},
                   {"receive", {receive.address, receive.rkey}},
                   {"words", {words.address, words.rkey}},
                   {"planes", device_.plane_names()}});
  };
  const auto take = [this] {
    const auto j = control_.wait("memory", kSetUpTime);
    try {
      peer_receive_ = {j.at("receive").at(0).get<std::uint64_t>(),
                       j.at("receive").at(1).get<std::uint32_t>()};
      peer_words_ = {j.at("words").at(0).get<std::uint64_t>(),
                     j.at("words").at(1).get<std::uint32_t>()};
    } catch (const nlohmann::json::exception&) {
      throw Failure(fmt::format("{} sent a malformed description of its memory", control_.peer()));
    }
  };
  if (server) {
    take();
    give();
  } else {
    give();
    take();
  }
}

void Session::connect(bool server) {
  for (QueuePair& qp : qps_) qp.connect(exchange(control_.channel(), qp.local_info()));
  for (std::uint32_t q = 0; q < parameters_.qps; ++q) {
    for (std::uint32_t i = 0; i < receives_; ++i) {
      if (const Errc error = post_receive(q); error != Errc::ok)
        throw Failure(
            fmt::format("can't post receive {} of queue pair {}: {}", i, q, mrc::to_string(error)));
    }
  }
  Side here = side_of(control_.channel().fd(), device_.plane_names());
  // Nothing may be sent before the other side is ready.
  if (!server) control_.send({{"op", "connected"}, {"side", to_json(here)}});
  const Time end = monotonic_now() + kUnheard;
  const auto ready = control_.wait("connected", kSetUpTime);
  here.heard = is_heard_by(server ? monotonic_now() + kUnheard : end);
  here.bad_icrc = has_bad_icrc();
  if (server) control_.send({{"op", "connected"}, {"side", to_json(here)}});
  const Side there = side_from_json(ready.value("side", nlohmann::json()));
  if (const std::string why = translation(here, there); !why.empty()) {
    if (server) return;  // the client says it
    throw Failure(why);
  }
  const auto warn = [this](const char* what, const char* where) {
    fmt::print(
        stderr,
        "mrc_perf: TCP reaches {}, but {}: are UDP ports {} and up open {}, and addresses not "
        "translated on the way (NAT)?\n",
        control_.peer(), what, device_.config().udp_port, where);
  };
  if (!here.heard && !there.heard)
    warn("no packet of MRC does, in either direction", "at both hosts");
  else if (!here.heard)
    warn("none of its packets of MRC arrives here", "here");
  else if (!there.heard)
    warn("none of this host's packets of MRC arrives there", "there");
}

/// Waits until a packet of the peer has arrived; false if none has by then.
bool Session::is_heard_by(Time end) {
  for (;;) {
    const EngineStats s = device_.stats().engine;
    if (s.ev_probe_answers + s.ev_probes_received > 0) return true;
    if (monotonic_now() >= end) return false;
    if (g_interrupted) throw Interrupted();
    (void)device_.progress();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

bool Session::has_bad_icrc() const {
  constexpr std::uint64_t kNoAccident = 3;  // one may be anybody's
  std::uint64_t bad = 0;
  for (const PlaneStats& plane : device_.stats().planes) bad += plane.rx_bad_icrc;
  return bad >= kNoAccident;
}

Errc Session::post_credits() noexcept {
  const std::uint32_t bytes = parameters_.qps * static_cast<std::uint32_t>(sizeof(std::uint64_t));
  const Sge sge{word(parameters_.qps), bytes, words_region_.lkey()};
  SendRequest request;
  request.wr_id = RequestId{Purpose::credit, 0, 0}.pack();
  request.sges = {&sge, 1};
  request.remote = peer_words_;
  return credit_qp().post_send(request);
}

void Session::start_faults() {
  if (!parameters_.faults.empty()) device_.set_faults(parameters_.faults);
}

void Session::stop_faults() {
  if (!parameters_.faults.empty()) device_.set_faults(device_.config().faults);
}

std::uint64_t Session::received_bytes() const {
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < parameters_.qps; ++i) sum += qps_[i].stats().rx_bytes;
  return sum;
}

std::string Session::cause(const Completion& completion) const {
  const std::uint32_t index = RequestId::unpack(completion.wr_id).qp;
  for (std::uint32_t i = 0; i < qps_.size(); ++i) {
    if (qps_[i].qpn() != completion.qpn) continue;
    const std::string text = qps_[i].error_text();
    return fmt::format("queue pair {}: {}", i,
                       text.empty() ? mrc::to_string(completion.status) : text.c_str());
  }
  return fmt::format("queue pair {}: {}", index, mrc::to_string(completion.status));
}

std::string Session::first_error() const {
  for (std::uint32_t i = 0; i < qps_.size(); ++i) {
    if (qps_[i].state() == QpState::err)
      return fmt::format("queue pair {}: {}", i, qps_[i].error_text());
  }
  return {};
}

Duration Session::patience() const {
  const Config& c = device_.config();
  const double base = 1.024e-6 * static_cast<double>(std::uint64_t{1} << c.timeout);
  const unsigned doublings = std::min<unsigned>(c.retry_exponential, 24);
  const double total = base * (c.retry_linear + 1) +
                       base * 2 * static_cast<double>((std::uint64_t{1} << doublings) - 1);
  constexpr double kMargin = 1, kMost = 60;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::min(total + kMargin, kMost)));
}

}  // namespace mrc::perf
