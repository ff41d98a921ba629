// SPDX-License-Identifier: Apache-2.0
// Address handles: what programs say where a datagram goes.
#include <arpa/inet.h>

#include <cstring>

#include "verbs_shim/address.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/context.hpp"

using namespace mrc_verbs;

extern "C" {

ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attributes) {
  return pointer_or_errno("ibv_create_ah", [&]() -> ibv_ah* {
    check_address(*attributes);
    if (attributes->port_num != 1) fail(EINVAL, "there is one port, of number 1");
    mrc::AddressHandle destination;
    destination.gid = address_of(attributes->grh.dgid);
    destination.traffic_class = attributes->grh.traffic_class;
    destination.hop_limit = attributes->grh.hop_limit;
    destination.flow_label = attributes->grh.flow_label;
    Context::of(pd->context).device().prepare(destination);
    auto ah = std::make_unique<Ah>();
    ah->context = pd->context;
    ah->pd = pd;
    ah->handle = next_handle();
    ah->destination = destination;
    ++Pd::of(pd).users;
    return ah.release();
  });
}

/// The address of the sender of a datagram, from the 40 bytes before its data. RoCEv2 over IPv4
/// leaves an IPv4 header in the second half of them.
int ibv_init_ah_from_wc(ibv_context*, std::uint8_t port, ibv_wc* wc, ibv_grh* grh,
                        ibv_ah_attr* attributes) {
  *attributes = {};
  attributes->dlid = wc->slid;
  attributes->sl = wc->sl;
  attributes->src_path_bits = wc->dlid_path_bits;
  attributes->port_num = port;
  if ((wc->wc_flags & IBV_WC_GRH) == 0) return 0;
  attributes->is_global = 1;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(grh);
  if (bytes[0] >> 4 == 6) {
    const std::uint32_t flow = ntohl(grh->version_tclass_flow);
    attributes->grh.dgid = grh->sgid;
    attributes->grh.flow_label = flow & 0xFFFFF;
    attributes->grh.traffic_class = static_cast<std::uint8_t>(flow >> 20);
    attributes->grh.hop_limit = 0xFF;
    return 0;
  }
  constexpr std::size_t kIpv4 = 20, kSource = 12, kTos = 1;
  if (bytes[kIpv4] >> 4 != 4)
    return refuse(EINVAL, "ibv_init_ah_from_wc", "neither IPv6 nor IPv4 in the GRH");
  std::uint8_t* gid = attributes->grh.dgid.raw;
  gid[10] = gid[11] = 0xFF;
  std::memcpy(gid + 12, bytes + kIpv4 + kSource, 4);
  attributes->grh.traffic_class = bytes[kIpv4 + kTos];
  attributes->grh.hop_limit = 0xFF;
  return 0;
}

ibv_ah* ibv_create_ah_from_wc(ibv_pd* pd, ibv_wc* wc, ibv_grh* grh, std::uint8_t port) {
  ibv_ah_attr attributes;
  if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attributes) != 0) return nullptr;
  return ibv_create_ah(pd, &attributes);
}

int ibv_destroy_ah(ibv_ah* ah) {
  --Pd::of(ah->pd).users;
  delete static_cast<Ah*>(ah);
  return 0;
}

int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*, std::uint16_t*) {
  (void)decline(EOPNOTSUPP, "ibv_resolve_eth_l2_from_gid", "the host's network stack does that");
  return -1;
}

}  // extern "C"
