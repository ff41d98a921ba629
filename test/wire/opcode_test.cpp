// SPDX-License-Identifier: Apache-2.0
// Opcodes: all 256 codes against a table of what MRC 1.0, docs/extensions.md and, for datagrams,
// RoCEv2 say of them.
#include "mrc/wire/opcode.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace mrc::wire::opcode_test {
namespace {

/// Letters for what holds of a code: d data, w Write, s SEND, q asks for a response, a atomic,
/// r response, f first, l last, i immediate, u unreliable datagram, k known.
struct CodeTraits {
  std::uint8_t code;
  std::string_view traits, name;
};
constexpr auto kCodes = std::to_array<CodeTraits>({
    {0x64, "ku", "UD SEND Only"},
    {0x65, "ku", "UD SEND Only with Immediate"},
    {0xC0, "kdsf", "SEND First"},
    {0xC1, "kds", "SEND Middle"},
    {0xC2, "kdsl", "SEND Last"},
    {0xC3, "kdsli", "SEND Last with Immediate"},
    {0xC4, "kdsfl", "SEND Only"},
    {0xC5, "kdsfli", "SEND Only with Immediate"},
    {0xC6, "kdwf", "WRITE First"},
    {0xC7, "kdw", "WRITE Middle"},
    {0xC8, "kdwl", "WRITE Last"},
    {0xC9, "kdwli", "WRITE Last with Immediate"},
    {0xCA, "kdwfl", "WRITE Only"},
    {0xCB, "kdwfli", "WRITE Only with Immediate"},
    {0xCC, "kdqfl", "READ Request"},
    {0xCD, "kdrf", "READ Response First"},
    {0xCE, "kdr", "READ Response Middle"},
    {0xCF, "kdrl", "READ Response Last"},
    {0xD0, "kdrfl", "READ Response Only"},
    {0xD1, "k", ""},
    {0xD2, "kdrfl", "ATOMIC Response"},
    {0xD3, "kdqafl", "CmpSwap"},
    {0xD4, "kdqafl", "FetchAdd"},
    {0xD7, "k", "Packet Part"},
    {0xD8, "k", ""},
    {0xD9, "k", ""},
    {0xDC, "k", ""},
    {0xDD, "k", ""},
    {0xDE, "k", ""},
    {0xDF, "k", ""},
});

TEST_CASE(
    "opcodes: every code is what MRC 1.0, the extension and datagrams say, and nothing else") {
  for (unsigned code = 0; code < 256; ++code) {
    CAPTURE(code);
    const CodeTraits* row = nullptr;
    for (const CodeTraits& c : kCodes)
      if (c.code == code) row = &c;
    const auto has = [row](char letter) {
      return row != nullptr && row->traits.find(letter) != std::string_view::npos;
    };
    const auto op = static_cast<Opcode>(code);
    CHECK(is_known(static_cast<std::uint8_t>(code)) == has('k'));
    CHECK(is_data(op) == has('d'));
    CHECK(is_write(op) == has('w'));
    CHECK(is_send(op) == has('s'));
    CHECK(is_request(op) == has('q'));
    CHECK(is_atomic(op) == has('a'));
    CHECK(is_response(op) == has('r'));
    CHECK(is_first(op) == has('f'));
    CHECK(is_last(op) == has('l'));
    CHECK(has_immediate(op) == has('i'));
    CHECK(is_datagram(op) == has('u'));
  }
}

TEST_CASE("opcodes: names are those of the operations, and all different") {
  std::set<std::string> names;
  for (const CodeTraits& c : kCodes) {
    const std::string name = to_string(static_cast<Opcode>(c.code));
    if (!c.name.empty()) CHECK(name == c.name);
    names.insert(name);
  }
  CHECK(names.size() == kCodes.size());
  CHECK(names.count(to_string(static_cast<Opcode>(0xD5))) == 0);
}

TEST_CASE("opcodes: the operation of RC is in the lower five bits") {
  // InfiniBand's reliable connection, 0x00 to 0x14: MRC's twelve and the extension keep to it.
  CHECK((static_cast<unsigned>(Opcode::send_first) & 31) == 0x00);
  CHECK((static_cast<unsigned>(Opcode::write_only_imm) & 31) == 0x0B);
  CHECK((static_cast<unsigned>(Opcode::read_request) & 31) == 0x0C);
  CHECK((static_cast<unsigned>(Opcode::read_response_only) & 31) == 0x10);
  CHECK((static_cast<unsigned>(Opcode::acknowledge) & 31) == 0x11);
  CHECK((static_cast<unsigned>(Opcode::atomic_response) & 31) == 0x12);
  CHECK((static_cast<unsigned>(Opcode::compare_swap) & 31) == 0x13);
  CHECK((static_cast<unsigned>(Opcode::fetch_add) & 31) == 0x14);
}

}  // namespace
}  // namespace mrc::wire::opcode_test
