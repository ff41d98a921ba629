// SPDX-License-Identifier: Apache-2.0
#include "verbs_shim/transport/transport.hpp"

#include "verbs_shim/errors.hpp"
#include "verbs_shim/transport/connected_transport.hpp"
#include "verbs_shim/transport/datagram_transport.hpp"

namespace mrc_verbs {

std::unique_ptr<Transport> Transport::make(ibv_qp_type type, const Parts& parts) {
  switch (type) {
    case IBV_QPT_RC:
      return std::make_unique<ConnectedTransport>(Operations::all, parts);
    case IBV_QPT_UC:
      return std::make_unique<ConnectedTransport>(Operations::without_response, parts);
    case IBV_QPT_UD:
      return std::make_unique<DatagramTransport>(parts);
    default:
      fail(EOPNOTSUPP,
           "queue pairs of type " + std::to_string(type) + " are not supported; RC, UC and UD are");
  }
}

}  // namespace mrc_verbs
