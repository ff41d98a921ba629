// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "mrc/core/random.hpp"
#include "mrc/core/types.hpp"
#include "mrc/path/expand.hpp"
#include "mrc/path/path_set.hpp"

namespace mrc::inline v0_1::path {

/// EV profiles: the set of paths to a destination (mrc-1.0 §3.2). Set-up only.

/// Where a profile's EVs come from.
enum class ProfileMode : std::uint8_t {
  explicit_,  ///< listed by a controller
  generated,  ///< generated from fields
  auto_,      ///< chosen by the library: UDP source ports
};

/// Paths in AUTO mode unless the profile sets a number: about 128, one in eight a backup (more than
/// about a hundred active paths gain little).
inline constexpr unsigned kAutoPaths = 128;
/// First of AUTO's EVs, which are UDP source ports: start of the dynamic port range.
inline constexpr std::uint32_t kAutoFirstPort = 0xC000;
/// Number of ports in that range.
inline constexpr std::uint32_t kAutoPorts = 0x4000;

/// An EV profile. Counts are over all planes. Of GENERATED and AUTO paths each plane gets an equal
/// share; an EXPLICIT list says itself how many paths each has.
struct EvProfile {
  ProfileMode mode = ProfileMode::auto_;  ///< source of the EVs
  unsigned planes = 1;                    ///< planes (NIC ports) 0 .. planes-1
  /// Size of the active set. 0: EXPLICIT all paths except the backup, AUTO a default.
  unsigned active = 0;
  unsigned backup = 0;           ///< backup paths; EXPLICIT: 0 is the rest of the list
  std::uint16_t min_active = 1;  ///< see PathSetOptions
  std::uint8_t event_mask = kEventGood | kEventAssumedBad;  ///< see PathSetOptions
  std::uint64_t seed = 0;  ///< determines the order of GENERATED and AUTO values [O-24]
  /// EXPLICIT: the list. An EV that is in it several times has that weight: each copy is a path of
  /// its own in the spraying order (mrc-1.0 §7.7).
  std::vector<PathSpec> paths;
  EvFormatProfile format;       ///< GENERATED: the packet fields
  std::vector<EvField> fields;  ///< GENERATED: the contents of the packet fields
  /// EVs to deny. EXPLICIT: their entries exist and are DENIED; otherwise they are not generated.
  std::vector<Ev> denied;
};

/// The result of evaluating a profile.
struct EvPlan {
  /// Planes alternate as long as each has paths, so that any prefix is shared as evenly as
  /// possible.
  std::vector<PathSpec> universe;
  std::vector<EvValue> values;    ///< GENERATED: the expansion of each EV; else empty
  std::vector<PathIndex> denied;  ///< entries to be set DENIED
  PathSetOptions options;         ///< active, min_active and event_mask set
};

/// Evaluates a profile. Throws mrc::Error that names the field, its value and the rule:
/// invalid_argument, or no_resources when the profile needs more EVs or paths than possible.
[[nodiscard]] EvPlan make_plan(const EvProfile& profile);

/// The path set of a plan, with denied entries DENIED. `seed` sets the spraying order, not the EVs.
[[nodiscard]] PathSet make_path_set(const EvPlan& plan, std::uint64_t seed);

/// Generation of EVs from fields (mrc-1.0 §3.2 GENERATED, [O-24]). Set-up only.

/// The numbers 0 .. count-1 in shuffled order, one at a time, with memory only for those taken: a
/// Fisher-Yates shuffle over a sparse virtual table.
class SparseShuffle {
 public:
  /// count <= 2^63.
  SparseShuffle(std::uint64_t count, std::uint64_t seed) : count_(count), random_(seed) {}

  /// Whether all numbers are taken.
  [[nodiscard]] bool empty() const noexcept { return taken_ == count_; }
  /// The next number; needs !empty().
  [[nodiscard]] std::uint64_t next() {
    const std::uint64_t at = taken_ + random_.next() % (count_ - taken_);
    const std::uint64_t picked = cell(at);
    moved_[at] = cell(taken_);
    moved_.erase(taken_++);
    return picked;
  }

 private:
  [[nodiscard]] std::uint64_t cell(std::uint64_t i) const {
    const auto found = moved_.find(i);
    return found == moved_.end() ? i : found->second;
  }

  std::uint64_t count_;
  std::uint64_t taken_ = 0;
  Random random_;
  std::unordered_map<std::uint64_t, std::uint64_t> moved_;
};

/// Number of EVs that the fields' ranges allow. The fields must have passed check() and use at most
/// 32 bits of EV together, so the product stays below 2^33.
[[nodiscard]] inline std::uint64_t count_values(std::span<const EvField> fields) noexcept {
  std::uint64_t n = 1;
  for (const EvField& f : fields) n *= f.max_val - f.min_val + 1;
  return n;
}

/// The EV number `index` < count_values(fields) in lexicographic order: the last field varies
/// fastest.
[[nodiscard]] inline Result<EvValue> nth_value(std::uint64_t index,
                                               std::span<const EvField> fields) {
  std::vector<std::uint64_t> values(fields.size());
  for (std::size_t i = fields.size(); i > 0; --i) {
    const EvField& f = fields[i - 1];
    const std::uint64_t range = f.max_val - f.min_val + 1;
    values[i - 1] = f.min_val + index % range;
    index /= range;
  }
  return pack(values, fields);
}

}  // namespace mrc::inline v0_1::path
