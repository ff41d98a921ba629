// SPDX-License-Identifier: Apache-2.0
#include "engine/rc_model/model.hpp"

#include <algorithm>
#include <cstring>

namespace mrc::test::rc {

std::string Op::text() const {
  constexpr const char* kNames[] = {
      "WRITE",   "WRITE with immediate", "SEND", "SEND with immediate", "READ", "CmpSwap",
      "FetchAdd"};
  std::string out = kNames[static_cast<unsigned>(opcode)];
  if (!is_send()) out += counter ? " counter" : " at " + std::to_string(remote);
  out += ", " + std::to_string(length) + " bytes";
  if (!flags.signaled) out += ", unsignaled";
  if (flags.inline_data) out += ", inline";
  if (flags.fence) out += ", fenced";
  if (wrong != Wrong::nothing) out += std::string(", ") + to_string(wrong);
  return out;
}

void execute(Memory& m, const Op& op, std::vector<Delivery>* deliveries, std::size_t index) {
  Buffer data;  // what is sent
  if (op.opcode <= SendOpcode::send_imm) {
    const Buffer& from = op.from_landing ? m.landing : m.source;
    for (const Slice& s : op.local)
      data.insert(data.end(), from.begin() + s.at, from.begin() + s.end());
  } else if (!op.counter) {
    data.assign(m.target.begin() + op.remote, m.target.begin() + op.target().end());
    std::size_t done = 0;
    for (const Slice& s : op.local) {
      std::copy_n(data.begin() + static_cast<std::ptrdiff_t>(done), s.length,
                  m.landing.begin() + s.at);
      done += s.length;
    }
  }
  if (is_write(op.opcode)) std::copy(data.begin(), data.end(), m.target.begin() + op.remote);
  if (op.is_atomic() && !op.counter) {
    std::uint64_t word = 0;
    std::memcpy(&word, data.data(), sizeof word);
    if (op.opcode == SendOpcode::fetch_add)
      word += op.compare_add;
    else if (word == op.compare_add)
      word = op.swap;
    std::memcpy(m.target.data() + op.remote, &word, sizeof word);
  }
  if (op.consumes() && deliveries != nullptr)
    deliveries->push_back({index, op.is_send() ? std::move(data) : Buffer{}, false});
}

Outcome execute(const Flow& flow) {
  Outcome out{flow.before, {}};
  for (std::size_t i = 0; i < flow.good(); ++i) execute(out.after, flow.ops[i], &out.deliveries, i);
  if (flow.fails && flow.ops[*flow.fails].wrong == Wrong::too_long)
    out.deliveries.push_back({*flow.fails, {}, true});
  return out;
}

}  // namespace mrc::test::rc
