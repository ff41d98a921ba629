// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/settings/variables.hpp"

#include <algorithm>

namespace mrc_nccl {
namespace {

constexpr Variable kVariables[] = {
    {"NCCL_SOCKET_IFNAME", "prefixes, such as `eth,ib`; `=eth0,eth1`; `^docker,lo`; `^=docker0`",
     "all suitable interfaces",
     "Interfaces that become planes, one address each, in the order of this list. `=` names them "
     "whole, `^` excludes. Without it: all that are up, except loopback and those of containers, "
     "virtual machines and tunnels, in the order of their names. MRC_PLANES and MRC_FABRIC win."},
    {"NCCL_SOCKET_FAMILY", "AF_INET, AF_INET6", "IPv4, else IPv6",
     "Which address of an interface is taken. IPv6 link-local addresses never are."},
    {"MRC_NCCL_MERGE", "all, none", "all",
     "One NIC of all planes, or one NIC per plane. Not `none` in a fabric (MRC_FABRIC)."},
    {"NCCL_NET_MERGE_LEVEL", "LOC, PORT, PIX, PXB, PXN, PHB, SYS ..", "not set",
     "NCCL's own fusion of NICs. LOC (none) implies MRC_NCCL_MERGE=none where that is not set."},
    {"NCCL_MRC_TIMEOUT", "0 .. 24", "12 (4.2 ms)",
     "Retransmission timeout, 1.024 us x 2^n. Loses to MRC_TIMEOUT, wins over NCCL_IB_TIMEOUT."},
    {"NCCL_IB_TIMEOUT", "0 .. 31", "not set",
     "The same in units of 4.096 us x 2^n, 22 at most; 0: retry for ever."},
    {"NCCL_MRC_RETRY_CNT_LINEAR", "0 .. 7", "7",
     "Timeouts before the waits start to double. Loses to MRC_RETRY_LINEAR."},
    {"NCCL_IB_RETRY_CNT", "0 .. 7", "not set",
     "The same where NCCL_MRC_RETRY_CNT_LINEAR is not "
     "set."},
    {"NCCL_MRC_RETRY_CNT_EXP", "0 .. 25", "11",
     "Doubling timeouts after these, before a silent host counts as dead: with the defaults 17.2 s "
     "after its last sign of life. 25: never. Loses to MRC_RETRY_EXPONENTIAL."},
    {"MRC_NCCL_OUTAGE", "0s .. 24h, such as `60s`; forever", "60s",
     "How long a connection waits for a peer that is silent in all planes while its host answers "
     "over TCP: a process that is stopped, or planes that have failed. At least the time after "
     "which a silent host counts as dead."},
    {"NCCL_IB_TC", "-1 .. 255", "-1: not set",
     "Traffic class of data over UDP planes; its upper six bits become MRC_DSCP_NO_TRIM, which "
     "wins where set. Without effect in a fabric, whose description gives the classes."},
    {"NCCL_MRC_QP_HINT_ENABLE", "0, 1", "1",
     "Take NCCL's numbers of peers and flows as hints for congestion control."},
    {"MRC_NCCL_EARLY_RECEIVES", "on, off", "off",
     "Let receives whose completion NCCL calls optional complete early."},
    {"MRC_NCCL_LISTEN", "an IP address of this host", "all",
     "Address at which listeners take the TCP connections that set up connections, and which peers "
     "are told. Without it: all addresses; peers are told those of planes."},
    {"MRC_NCCL_PORTS", "`N`, `N-M`, such as `50000-50999`", "any free port",
     "TCP ports of listeners, for firewalls. Each listener of each process needs one while NCCL "
     "sets "
     "up connections: some hundreds."},
    {"NCCL_MRC_STATS", "a file", "none",
     "Where finalize writes counters as JSON. `%h` and `%p` stand for host name and process id. A "
     "file that can't be written, a link, and a file of another user are errors at "
     "initialisation."},
    {"NCCL_IB_HCA", "any", "not set", "Chooses ports of InfiniBand verbs; planes do not use any."},
    {"NCCL_MRC_CC_INIT_RATE", "any", "not set", "Known from other plugins; no effect."},
    {"NCCL_MRC_CC_MIN_RATE", "any", "not set", "Known from other plugins; no effect."},
    {"NCCL_MRC_CC_MAX_RATE", "any", "not set", "Known from other plugins; no effect."},
};

bool is_ours(std::string_view name) {
  return name.starts_with("MRC_NCCL_") || name.starts_with("NCCL_MRC_");
}

}  // namespace

std::span<const Variable> variables() {
  return kVariables;
}

std::string variables_markdown() {
  std::string text = "| Variable | Allowed | Default | Meaning |\n|---|---|---|---|\n";
  for (const Variable& v : kVariables) {
    text.append("| `").append(v.name).append("` | ").append(v.allowed).append(" | ");
    text.append(v.standard).append(" | ").append(v.doc).append(" |\n");
  }
  return text;
}

std::vector<std::string> unknown_variables(const Environment& environment) {
  std::vector<std::string> known;
  for (const Variable& v : kVariables)
    if (is_ours(v.name)) known.emplace_back(v.name);
  std::vector<std::string> warnings;
  for (const std::string& name : environment.names()) {
    if (!is_ours(name) || std::count(known.begin(), known.end(), name) != 0) continue;
    std::string text = "unknown environment variable, ignored: " + name;
    const std::string similar = nearest(name, known);
    if (!similar.empty()) text += " (did you mean " + similar + "?)";
    warnings.push_back(text);
  }
  return warnings;
}

}  // namespace mrc_nccl
