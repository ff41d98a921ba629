// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "mrc/core/types.hpp"
#include "mrc/net/address.hpp"
#include "mrc/plane/verbs/verbs_addresses.hpp"
#include "mrc/plane/verbs/verbs_contact.hpp"
#include "mrc/plane/verbs/verbs_message.hpp"
#include "mrc/plane/verbs/verbs_placement.hpp"

namespace mrc::inline v0_1::port {

/// What a verbs port knows of one peer port: how to send to it, and how far the two have agreed.
/// Several peers of the engine can be one peer port. Guarded by the port's lock.
struct VerbsSession {
  PeerAddress address;                ///< its GID, and where it takes control messages
  std::uint64_t token = 0;            ///< its secret
  PeerId number{};                    ///< of the session, in UcSender
  unsigned uses = 0;                  ///< peers of the engine; 0: the session is to be closed
  bool placement_wanted = false;      ///< both ports offer placement
  unsigned failures = 0;              ///< to make what it needs, one after the other
  Time next_placement = Time::min();  ///< when to try again

  // For sending:
  std::uint32_t qkey = 0;                       ///< that its UD queue pairs expect
  std::vector<std::uint32_t> qpns;              ///< of its UD queue pairs, by path
  std::shared_ptr<const VerbsAddress> handles;  ///< null until known
  std::unique_ptr<VerbsPlacement> placement;    ///< null: all goes by UD
  /// A placement is being destroyed: until that is done, its queue pairs may still receive.
  bool closing = false;

  // Control messages:
  VerbsState own;                 ///< as sent last; version 0: never
  std::uint32_t incarnation = 0;  ///< random, of the own receiving UC paths
  std::uint32_t sender = 0;       ///< random, of the own sending ones
  bool renew = false;        ///< the peer's sending ones begin anew: so must the receiving ones
  std::uint32_t echoed = 0;  ///< version of `own` that it has echoed
  VerbsState peer;           ///< its newest; version 0: none
  bool owes_echo = false;    ///< it has asked
  Time next_state = Time::min();  ///< when to repeat the own one
  Duration pause{};               ///< between repetitions
  /// A key that the data path wants to know.
  struct KeyQuery {
    Time next = Time::min();  ///< when to ask again
    unsigned tries = 0;       ///< so far
  };
  std::map<std::uint32_t, KeyQuery> queries;  ///< by the program's key
  unsigned wrong_keys = 0;                    ///< of the peer's queries: no region has it

  static constexpr std::size_t kMaxQueries = 64;  ///< at a time
  static constexpr std::size_t kMaxKeys = 4096;   ///< known, of each session
  static constexpr unsigned kMaxTries = 8;        ///< of a query, or to make queue pairs
  /// Queries of wrong keys that are answered: a peer must not find keys by trying them all.
  static constexpr unsigned kMaxWrongKeys = 1024;
};

}  // namespace mrc::inline v0_1::port
