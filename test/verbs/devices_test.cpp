// SPDX-License-Identifier: Apache-2.0
// What a device says about itself, and what calls answer that it does not support.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>
#include <unistd.h>

#include <string>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

TEST_CASE("verbs devices: one, with a name, and no provider's operations behind it") {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  REQUIRE(count == 1);
  CHECK(list[1] == nullptr);
  CHECK(std::string(ibv_get_device_name(list[0])) == "mrc0");
  CHECK(std::string(list[0]->dev_name) == "mrc0");
  CHECK(list[0]->node_type == IBV_NODE_CA);
  CHECK(list[0]->transport_type == IBV_TRANSPORT_IB);
  // Providers look there for operations of their own.
  const void* operations = list[0];
  std::memcpy(&operations, reinterpret_cast<const char*>(list[0]) + sizeof(ibv_device),
              sizeof operations);
  CHECK(operations == nullptr);
  CHECK(ibv_get_device_guid(list[0]) != 0);
  ibv_free_device_list(list);
}

TEST_CASE("verbs devices: OpenMRC's own verbs ports know the shim by a symbol") {
  CHECK(::dlsym(RTLD_DEFAULT, "mrc_verbs_shim") != nullptr);
}

TEST_CASE("verbs devices: not on RDMA devices, whose library this one stands in for") {
  ibv_device** list = ibv_get_device_list(nullptr);
  REQUIRE(list != nullptr);
  ::setenv("MRC_VERBS", "rxe1", 1);
  errno = 0;
  ibv_context* refused = ibv_open_device(list[0]);
  const int error = errno;
  ::unsetenv("MRC_VERBS");
  CHECK(refused == nullptr);
  CHECK(error == EOPNOTSUPP);  // and not that there is no rxe1 in its own list of devices
  ibv_context* context = ibv_open_device(list[0]);  // without the variable
  REQUIRE(context != nullptr);
  CHECK(ibv_close_device(context) == 0);
  ibv_free_device_list(list);
}

TEST_CASE("verbs devices: attributes are those of the device") {
  const Program program;
  ibv_device_attr a{};
  REQUIRE(ibv_query_device(program.context, &a) == 0);
  CHECK(a.node_guid == ibv_get_device_guid(program.context->device));
  CHECK(a.phys_port_cnt == 1);
  CHECK(a.max_qp >= 4096);
  CHECK(a.max_cqe >= 65536);
  CHECK(a.vendor_id != 0x2c9);
  CHECK(a.max_qp_rd_atom == 128);
  CHECK(a.atomic_cap == IBV_ATOMIC_HCA);
  CHECK(a.max_srq_wr >= 4096);
  ibv_device_attr_ex extended{};
  REQUIRE(ibv_query_device_ex(program.context, nullptr, &extended) == 0);
  CHECK(std::memcmp(&extended.orig_attr, &a, sizeof a) == 0);
  CHECK(extended.completion_timestamp_mask == 0);
}

TEST_CASE("verbs devices: the port, for callers of every age") {
  const Program program;
  verbs_context* context = verbs_get_ctx(program.context);
  REQUIRE(context != nullptr);
  CHECK(context->sz == sizeof(verbs_context));
  struct {
    ibv_port_attr attributes;
    std::array<std::uint8_t, 16> behind;
  } place;
  for (const std::size_t size : {std::size_t{48}, sizeof(ibv_port_attr), std::size_t{56}}) {
    CAPTURE(size);
    std::memset(&place, 0xAA, sizeof place);
    REQUIRE(context->query_port(program.context, 1, &place.attributes, size) == 0);
    CHECK(place.attributes.state == IBV_PORT_ACTIVE);
    CHECK(place.attributes.link_layer == IBV_LINK_LAYER_ETHERNET);
    CHECK(place.attributes.gid_tbl_len == 1);
    CHECK(place.attributes.pkey_tbl_len == 1);
    CHECK(place.attributes.active_mtu == IBV_MTU_4096);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(&place);
    CHECK(bytes[size] == 0xAA);  // exactly so many
    if (size > 48) CHECK(bytes[size - 1] == 0);
  }
  // The exported function, of old callers.
  std::memset(&place, 0xAA, sizeof place);
  REQUIRE((ibv_query_port)(program.context, 1,
                           reinterpret_cast<_compat_ibv_port_attr*>(&place.attributes)) == 0);
  CHECK(reinterpret_cast<const std::uint8_t*>(&place)[48] == 0xAA);
  CHECK(place.attributes.state == IBV_PORT_ACTIVE);
  // As MRC counts, each plane is a port: here there are two.
  CHECK(context->query_port(program.context, 2, &place.attributes, 52) == 0);
  CHECK(place.attributes.state == IBV_PORT_ACTIVE);
  CHECK(context->query_port(program.context, 3, &place.attributes, 52) == EINVAL);
  CHECK(context->query_port(program.context, 0, &place.attributes, 52) == EINVAL);
}

TEST_CASE("verbs devices: GID and P_Key") {
  const Program program;
  ibv_gid gid{};
  ibv_gid_entry entry{};
  const std::array<std::uint8_t, 16> loopback{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1};
  // One GID, by each of the indices that scripts pass.
  for (const unsigned index : {0u, 1u, 2u, 3u}) {
    CAPTURE(index);
    gid = {};
    REQUIRE(ibv_query_gid(program.context, 1, static_cast<int>(index), &gid) == 0);
    CHECK(std::memcmp(gid.raw, loopback.data(), 16) == 0);
    REQUIRE(ibv_query_gid_ex(program.context, 1, index, &entry, 0) == 0);
    CHECK(std::memcmp(entry.gid.raw, loopback.data(), 16) == 0);
    CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2);
    CHECK(entry.gid_index == index);
  }
  CHECK(ibv_query_gid(program.context, 1, 4, &gid) == -1);
  CHECK(ibv_query_gid(program.context, 1, -1, &gid) == -1);
  CHECK(ibv_query_gid_ex(program.context, 1, 4, &entry, 0) == EINVAL);
  CHECK(ibv_query_gid_table(program.context, &entry, 1, 0) == 1);
  __be16 pkey = 0;
  REQUIRE(ibv_query_pkey(program.context, 1, 0, &pkey) == 0);
  CHECK(pkey == 0xFFFF);
  CHECK(ibv_get_pkey_index(program.context, 1, pkey) == 0);
  CHECK(ibv_query_pkey(program.context, 1, 1, &pkey) == -1);

  // The ports that ibv_query_port() knows have the same: one for each of the two planes.
  const auto query_gid_type =
      reinterpret_cast<int (*)(ibv_context*, std::uint8_t, unsigned, unsigned*)>(
          ::dlvsym(RTLD_DEFAULT, "ibv_query_gid_type", "IBVERBS_PRIVATE_34"));
  REQUIRE((query_gid_type != nullptr));
  for (const std::uint8_t port : {std::uint8_t{0}, std::uint8_t{2}, std::uint8_t{3}}) {
    CAPTURE(int{port});
    const bool there = port == 2;
    gid = {};
    pkey = 0;
    unsigned type = 0;
    CHECK(ibv_query_gid(program.context, port, 0, &gid) == (there ? 0 : -1));
    CHECK((std::memcmp(gid.raw, loopback.data(), 16) == 0) == there);
    CHECK(ibv_query_gid_ex(program.context, port, 0, &entry, 0) == (there ? 0 : EINVAL));
    CHECK((entry.port_num == port) == there);
    CHECK(query_gid_type(program.context, port, 0, &type) == (there ? 0 : -1));
    CHECK(type == (there ? 1u : 0u));
    CHECK(ibv_query_pkey(program.context, port, 0, &pkey) == (there ? 0 : -1));
    CHECK(ibv_get_pkey_index(program.context, port, 0xFFFF) == (there ? 0 : -1));
  }
}

TEST_CASE("verbs devices: questions about a device that is not open do not open it") {
  // Descriptors for a few questions, and not for a device.
  const auto lowest_free = [] {
    const int fd = ::dup(0);
    ::close(fd);
    return static_cast<rlim_t>(fd);
  };
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{lowest_free() + 4, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  ibv_device** list = ibv_get_device_list(nullptr);
  const __be64 guid = ibv_get_device_guid(list[0]);
  const auto device_folder =
      reinterpret_cast<const char* (*)()>(::dlsym(RTLD_DEFAULT, "mrc_verbs_device_folder"));
  REQUIRE((device_folder != nullptr));
  const char* folder = device_folder();
  ibv_context* context = ibv_open_device(list[0]);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(context == nullptr);
  CHECK(guid != 0);
  REQUIRE(folder != nullptr);
  CHECK(std::string(folder) == "/sys/devices/virtual/net/lo");

  const Program program;  // which says the same
  CHECK(ibv_get_device_guid(list[0]) == guid);
  ibv_free_device_list(list);
  ibv_device_attr attributes{};
  REQUIRE(ibv_query_device(program.context, &attributes) == 0);
  CHECK(attributes.node_guid == guid);
}

TEST_CASE("verbs devices: the GUID is made of plane 0's address, or of its interface's") {
  ifaddrs* all = nullptr;
  REQUIRE(::getifaddrs(&all) == 0);
  std::string name;
  in_addr address{};
  for (const ifaddrs* i = all; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_LOOPBACK) != 0 || (i->ifa_flags & IFF_UP) == 0) continue;
    name = i->ifa_name;
    address = reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr;
    break;
  }
  ::freeifaddrs(all);
  if (name.empty()) return;  // not every test has a host of its own
  std::array<std::uint8_t, 8> expected{2, 'M', 'R', 'C'};
  std::memcpy(&expected[4], &address, 4);
  char text[INET_ADDRSTRLEN];
  REQUIRE(::inet_ntop(AF_INET, &address, text, sizeof text) != nullptr);
  const std::string before = ::getenv("MRC_PLANES");
  ibv_device** list = ibv_get_device_list(nullptr);
  for (const std::string& plane : {std::string(text), name}) {
    CAPTURE(plane);
    ::setenv("MRC_PLANES", (plane + ",127.0.0.1").c_str(), 1);
    const __be64 guid = ibv_get_device_guid(list[0]);
    CHECK(std::memcmp(&guid, expected.data(), sizeof guid) == 0);
    ibv_context* context = ibv_open_device(list[0]);
    REQUIRE(context != nullptr);
    CHECK(ibv_get_device_guid(list[0]) == guid);
    CHECK(ibv_close_device(context) == 0);
  }
  ::setenv("MRC_PLANES", before.c_str(), 1);
  ibv_free_device_list(list);
}

TEST_CASE("verbs devices: contexts of a process share the device") {
  const Program one, two;
  CHECK(one.context != two.context);
  CHECK(one.context->async_fd != two.context->async_fd);
  Program three;
  Program four;
  const Queues a(three), b(four);
  CHECK((a.qp->qp_num >> 16) == (b.qp->qp_num >> 16));  // one slot of the host
}

TEST_CASE("verbs devices: what there is not") {
  Program program;
  errno = 0;
  CHECK(ibv_alloc_mw(program.pd, IBV_MW_TYPE_1) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  ibv_xrcd_init_attr xrcd{};
  CHECK(ibv_open_xrcd(program.context, &xrcd) == nullptr);
  ibv_alloc_dm_attr dm{};
  CHECK(ibv_alloc_dm(program.context, &dm) == nullptr);
  CHECK(errno == EOPNOTSUPP);
  errno = 0;
  CHECK(ibv_reg_dmabuf_mr(program.pd, 0, 4096, 0, -1, 0) == nullptr);
  CHECK(errno == EOPNOTSUPP);  // NCCL takes other values for "supported"
  const Queues queues(program);
  ibv_ece ece{};
  CHECK(ibv_query_ece(queues.qp, &ece) == EOPNOTSUPP);
  CHECK(ibv_qp_to_qp_ex(queues.qp) == nullptr);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queues.cq;
  wanted.qp_type = IBV_QPT_RAW_PACKET;
  errno = 0;
  CHECK(ibv_create_qp(program.pd, &wanted) == nullptr);
  CHECK(errno == EOPNOTSUPP);
}
