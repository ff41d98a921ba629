// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/check/judge.hpp"

#include <fmt/format.h>

#include <cmath>

namespace mrc::check_tool {
namespace {

std::string yes_no(bool wanted, bool there) {
  return !wanted ? "off" : there ? "yes" : "no";
}

/// One socket buffer of both hosts.
struct BufferFacts {
  const char* option;
  const char* setting;
  std::uint64_t wanted, got, most;
};

std::string buffer_text(const BufferFacts& buffer) {
  return fmt::format("{} KiB of {}", buffer.got >> 10, buffer.wanted >> 10);
}

std::string buffer_remedy(const BufferFacts& buffer, const std::string& host) {
  if (buffer.got >= buffer.wanted) return {};
  return fmt::format(
      "{}: a socket gets {} bytes of the {} of option {}, since net.core.{} is {}: `sysctl -w "
      "net.core.{}={}` there, or give the job CAP_NET_ADMIN",
      host, buffer.got, buffer.wanted, buffer.option, buffer.setting, buffer.most, buffer.setting,
      buffer.wanted);
}

void judge_buffer(const char* what, const BufferFacts& here, const BufferFacts& there,
                  const HostFacts& a, const HostFacts& b, std::vector<Row>& rows) {
  std::string remedy = buffer_remedy(here, a.host);
  const std::string other = buffer_remedy(there, b.host);
  if (!remedy.empty() && !other.empty()) remedy += "\n";
  remedy += other;
  rows.push_back({what, buffer_text(here), buffer_text(there),
                  remedy.empty() ? Verdict::ok : Verdict::warning, remedy});
}

void judge_offload(const char* what, const char* option, const char* kernel, bool wanted_here,
                   bool here, bool wanted_there, bool there, std::vector<Row>& rows) {
  Row row{what, yes_no(wanted_here, here), yes_no(wanted_there, there), Verdict::ok, {}};
  if ((wanted_here && !here) || (wanted_there && !there)) {
    row.verdict = Verdict::warning;
    row.remedy = fmt::format(
        "without {} each packet costs a system call: Linux {} has it; option {} = off where it is "
        "not wanted",
        what, kernel, option);
  } else if (wanted_here != wanted_there) {
    row.verdict = Verdict::warning;
    row.remedy = fmt::format("option {} is off at one side only: give both the same", option);
  }
  rows.push_back(row);
}

}  // namespace

void judge_software(const HostFacts& here, const HostFacts& there, const Results& results,
                    std::vector<Row>& rows) {
  Row version{"OpenMRC", here.version, there.version, Verdict::ok, {}};
  if (here.version != there.version) {
    version.verdict = Verdict::warning;
    version.remedy = fmt::format("{} has OpenMRC {} and {} has {}: install the same release",
                                 here.host, here.version, there.host, there.version);
  }
  rows.push_back(version);
  Row protocol{"connection data",
               fmt::format("version {}", here.protocol),
               fmt::format("version {}", there.protocol),
               Verdict::ok,
               {}};
  if (here.protocol != there.protocol) {
    protocol.verdict = Verdict::failed;
    protocol.remedy =
        "devices whose connection data has another version refuse each other: install the same "
        "release";
  }
  rows.push_back(protocol);
  rows.push_back({"TCP port", "-", std::to_string(results.tcp_port), Verdict::ok, {}});
  const double ahead = std::abs(results.clock_ahead);
  Row clock{"clock",
            "-",
            fmt::format("{} ms {}", std::llround(ahead * 1000),
                        results.clock_ahead < 0 ? "behind" : "ahead"),
            Verdict::ok,
            {}};
  constexpr double kMostApart = 1;  // second
  if (ahead > kMostApart + results.round_trip / 2) {
    clock.verdict = Verdict::warning;
    clock.remedy = fmt::format(
        "the clocks are {:.1f} s apart, so logs and events of both can't be compared: let chrony "
        "or another NTP client set them",
        ahead);
  }
  rows.push_back(clock);
}

void judge_buffers(const HostFacts& here, const HostFacts& there, std::vector<Row>& rows) {
  const auto receive = [](const HostFacts& f) {
    return BufferFacts{"receive_buffer", "rmem_max", f.receive_wanted, f.receive_got, f.rmem_max};
  };
  const auto send = [](const HostFacts& f) {
    return BufferFacts{"send_buffer", "wmem_max", f.send_wanted, f.send_got, f.wmem_max};
  };
  judge_buffer("receive buffer", receive(here), receive(there), here, there, rows);
  judge_buffer("send buffer", send(here), send(there), here, there, rows);
  judge_offload("GSO", "gso", "4.18", here.gso_wanted, here.gso, there.gso_wanted, there.gso, rows);
  judge_offload("GRO", "gro", "5.0", here.gro_wanted, here.gro, there.gro_wanted, there.gro, rows);
}

std::vector<Row> judge(const HostFacts& here, const HostFacts& there, const Results& results) {
  std::vector<Row> rows;
  judge_software(here, there, results, rows);
  judge_planes(here, there, rows);
  if (here.kind == "fabric" && there.kind == "fabric") judge_fabric(here, there, results, rows);
  if (here.kind == "udp" && there.kind == "udp") judge_packets(here, there, results, rows);
  judge_buffers(here, there, rows);
  return rows;
}

}  // namespace mrc::check_tool
