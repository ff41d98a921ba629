// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "fuzz/fuzz.hpp"
#include "mrc/verbs/uc.hpp"

// Fuzzes the readers of what the two ends of a verbs port say about placed payload. The first input
// byte selects: bit 0 origins or headers. What was read lies inside the message; headers are the
// same when they are written again, apart from the reserved byte, and origins are no longer.

namespace {

using namespace mrc;
using namespace mrc::port;
using mrc::fuzz::require;
using Buffer = std::vector<std::uint8_t>;

void exercise_headers(Bytes message) {
  Buffer built(message.size());
  UcHeadersWriter writer(built);
  UcHeadersReader reader(message);
  UcHeader h;
  while (reader.next(h)) {
    require(h.header.data() ==
            message.data() + writer.size() + sizeof(mrc::port::detail::UcHeaderEntry));
    require(h.header.data() + h.header.size() <= message.data() + message.size());
    const std::size_t reserved =
        writer.size() + offsetof(mrc::port::detail::UcHeaderEntry, reserved);
    const std::size_t begin = writer.size();
    require(writer.append(h));
    built[reserved] = message[reserved];
    require(std::memcmp(&built[begin], &message[begin], writer.size() - begin) == 0);
  }
  require(reader.malformed() == (writer.size() < message.size()));
}

void exercise_origins(Bytes message) {
  UcOrigins origins;
  const std::size_t size = read_uc_origins(message, origins);
  require((size == 0) == origins.all().empty() && size <= message.size());
  if (size == 0) return;
  Buffer built(uc_origins_size(kMaxUcPaths));
  const std::size_t shortest = write_uc_origins(built, origins.all());
  require(shortest > 0 && shortest <= size);
  UcOrigins again;
  require(read_uc_origins(Bytes(built).first(shortest), again) == shortest);
  require(std::ranges::equal(again.all(), origins.all()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Buffer input(data + 1, data + size);  // its end is the end of an allocation
  if ((data[0] & 1) == 0)
    exercise_headers(input);
  else
    exercise_origins(input);
  return 0;
}
