// SPDX-License-Identifier: Apache-2.0
// Contexts, queues, channels and hints: how long they live, and calls that make no sense.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

TEST_CASE("the device says what MRC it has, before a context is created and after") {
  Program program;
  mrc_device_attr attr;
  std::memset(&attr, 0xFF, sizeof attr);
  int supported = 0;
  REQUIRE(mrc_query_device(program.context, &attr, &supported) == 0);
  CHECK(supported == 1);
  CHECK(attr.mrc_protocol_version == MRC_PROTOCOL_VERSION_1);
  CHECK(attr.wimm_attr.max_wimm == 32768);
  CHECK(attr.wimm_attr.max_wimm_dest == 32768);
  CHECK(attr.mpr_attr.max_mpr == 255);
  CHECK(attr.mpr_attr.mpr_resolution == 1);
  CHECK(attr.qp_attr.max_qp_hint > 0);
  CHECK(attr.cap == (MRC_DEVICE_CAP_TRIM_NACK | MRC_DEVICE_CAP_DYNAMIC_MPR));
  CHECK(mrc_query_device_ex(program.context, nullptr, &attr, &supported) == 0);
  Mrc mrc(program);
  CHECK(mrc_query_device_ex(program.context, mrc.context, &attr, &supported) == 0);
  CHECK(mrc_query_device(nullptr, &attr, &supported) == -1);
  CHECK(errno == EINVAL);
  CHECK(mrc_query_device(program.context, nullptr, &supported) == -1);
  CHECK(mrc_query_device(program.context, &attr, nullptr) == -1);
}

TEST_CASE("a context that is not OpenMRC's has no MRC") {
  ibv_device device{};
  std::strcpy(device.name, "rxe0");
  ibv_context foreign{};
  foreign.device = &device;
  mrc_device_attr attr{};
  int supported = 7;
  CHECK(mrc_query_device(&foreign, &attr, &supported) == 0);
  CHECK(supported == 0);
  CHECK(mrc_create_context(&foreign, nullptr) == nullptr);
  CHECK(errno == ENOTSUP);
  mrc_ctl_device_attr control{};
  CHECK(mrc_ctl_query_device(&foreign, &control) == -1);
  CHECK(errno == ENOTSUP);
  CHECK(mrc_ctl_query_device_ex(&foreign, nullptr, &control, &supported) == 0);
  CHECK(supported == 0);
}

TEST_CASE("versions: what is no version is current, a later major is refused") {
  Program program;
  for (const std::uint32_t version :
       {0u, 1u, 0x00FFFFFFu, 0x01000000u, 0x01000001u, 0x01FF0000u, 0xFFFFFFFFu}) {
    CAPTURE(version);
    mrc_context_attr attr{version, 0};
    mrc_context* context = mrc_create_context(program.context, &attr);
    REQUIRE(context != nullptr);
    CHECK(mrc_destroy_context(context) == 0);
  }
  mrc_context_attr later{0x02000000u, 0};
  CHECK(mrc_create_context(program.context, &later) == nullptr);
  CHECK(errno == ENOTSUP);
  mrc_context_attr later_vendor{0, 0x02000000u};
  CHECK(mrc_create_context(program.context, &later_vendor) == nullptr);
  CHECK(errno == ENOTSUP);
}

TEST_CASE("creating a queue pair: what is needed, what is granted") {
  Program program;
  Mrc mrc(program);
  mrc_cq* cq = mrc_create_cq(mrc.context, 16, nullptr, nullptr, 0);
  REQUIRE(cq != nullptr);
  const auto refused = [&](auto change) {
    mrc_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = cq;
    wanted.pd = program.pd;
    wanted.cap = {16, 16, 1, 0, 0};
    change(wanted);
    errno = 0;
    CHECK(mrc_create_qp(mrc.context, &wanted) == nullptr);
    return errno;
  };
  CHECK(refused([](mrc_qp_init_attr& a) { a.pd = nullptr; }) == EINVAL);
  CHECK(refused([](mrc_qp_init_attr& a) { a.send_cq = nullptr; }) == EINVAL);
  CHECK(refused([](mrc_qp_init_attr& a) { a.recv_cq = nullptr; }) == EINVAL);
  CHECK(refused([](mrc_qp_init_attr& a) { a.send_ops_flags = IBV_QP_EX_WITH_SEND; }) == ENOTSUP);
  CHECK(refused([](mrc_qp_init_attr& a) {
          a.protocol_version = static_cast<mrc_protocol_version>(2);
        }) == ENOTSUP);
  CHECK(refused([](mrc_qp_init_attr& a) { a.cap.max_send_wr = 1u << 30; }) == EINVAL);
  CHECK(mrc_create_qp(mrc.context, nullptr) == nullptr);
  CHECK(mrc_create_qp(nullptr, nullptr) == nullptr);
  mrc_cq* events = mrc_ctl_create_ev_event_cq(mrc.context, 16, nullptr, nullptr, 0);
  REQUIRE(events != nullptr);
  CHECK(refused([&](mrc_qp_init_attr& a) { a.send_cq = events; }) == EINVAL);
  CHECK(mrc_destroy_cq(events) == 0);

  mrc_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.pd = program.pd;
  wanted.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
  wanted.protocol_version = MRC_PROTOCOL_VERSION_1;
  mrc_qp* qp = mrc_create_qp(mrc.context, &wanted);  // no sizes at all
  REQUIRE(qp != nullptr);
  CHECK(wanted.cap.max_send_wr >= 1);
  CHECK(mrc_destroy_cq(cq) == EBUSY);
  CHECK(ibv_dealloc_pd(program.pd) == EBUSY);
  CHECK(mrc_destroy_qp(qp) == 0);
  CHECK(mrc_destroy_cq(cq) == 0);
}

TEST_CASE("queues: sizes, vectors, and what poll refuses") {
  Program program;
  Mrc mrc(program);
  CHECK(mrc_create_cq(mrc.context, 0, nullptr, nullptr, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(mrc_create_cq(mrc.context, -3, nullptr, nullptr, 0) == nullptr);
  CHECK(mrc_create_cq(mrc.context, 16, nullptr, nullptr, 1) == nullptr);
  CHECK(errno == EINVAL);
  mrc_cq* cq = mrc_create_cq(mrc.context, 16, nullptr, nullptr, 0);
  REQUIRE(cq != nullptr);
  ibv_wc wc{};
  CHECK(mrc_poll_cq(cq, 1, &wc) == 0);
  CHECK(mrc_poll_cq(nullptr, 1, &wc) == -1);
  CHECK(mrc_poll_cq(cq, 1, nullptr) == -1);
  CHECK(mrc_poll_cq(cq, -1, &wc) == -1);
  mrc_ctl_ev_event event{};
  CHECK(mrc_ctl_poll_ev_event(cq, 1, &event) == -EINVAL);
  mrc_cq* events = mrc_ctl_create_ev_event_cq(mrc.context, 16, nullptr, nullptr, 0);
  REQUIRE(events != nullptr);
  CHECK(mrc_poll_cq(events, 1, &wc) == -1);
  CHECK(errno == EINVAL);
  CHECK(mrc_ctl_poll_ev_event(events, 1, &event) == 0);
  CHECK(mrc_ctl_poll_ev_event(events, -1, &event) == -EINVAL);
  CHECK(mrc_ctl_poll_ev_event(events, 1, nullptr) == -EINVAL);
  CHECK(mrc_destroy_cq(events) == 0);
  CHECK(mrc_destroy_cq(cq) == 0);
}

TEST_CASE("channels tell which queue has something") {
  Program program;
  Mrc mrc(program);
  Memory memory(program);
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(mrc.context, &channel) == 0);
  CHECK(mrc_create_comp_channel(mrc.context, nullptr) == EINVAL);
  int fd = -1;
  REQUIRE(mrc_get_comp_channel_fd(channel, &fd) == 0);
  REQUIRE(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) == 0);
  {
    const Pair a(program, mrc), b(program, mrc, channel);
    a.connect(program, b);
    b.connect(program, a);
    mrc_cq* found = nullptr;
    void* cq_context = nullptr;
    CHECK(mrc_get_cq_event(channel, &found, &cq_context) == -1);
    CHECK(errno == EAGAIN);
    CHECK(mrc_destroy_comp_channel(channel) == EBUSY);
    REQUIRE(mrc_req_notify_cq(b.cq, 0) == 0);
    REQUIRE(b.post_receive(1) == 0);
    ibv_sge sge = memory.sge(0, 64);
    ibv_send_wr request = verbs::write_request(1, sge, memory, 4096);
    request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    REQUIRE(a.post(request) == 0);
    pollfd ready{fd, POLLIN, 0};
    REQUIRE(::poll(&ready, 1, 30'000) == 1);
    REQUIRE(mrc_get_cq_event(channel, &found, &cq_context) == 0);
    CHECK(found == b.cq);
    CHECK(cq_context == &b);
    mrc_ack_cq_events(found, 1);
    CHECK(b.next().wr_id == 1);
    CHECK(a.next().wr_id == 1);
  }
  CHECK(mrc_destroy_comp_channel(channel) == 0);
}

TEST_CASE("hints: numbers are kept, a queue pair keeps its hint") {
  Program program;
  Mrc mrc(program);
  mrc_qp_hint_init_attr wanted{};
  wanted.attr.num_qps_per_peer = 2;
  wanted.attr.num_send_peers = 7;
  wanted.attr.vendor_cfg[0] = 1;  // of plugins that know rates: ignored
  mrc_qp_hint* hint = mrc_create_qp_hint(mrc.context, &wanted);
  REQUIRE(hint != nullptr);
  mrc_qp_hint_attr attr{};
  REQUIRE(mrc_query_qp_hint(hint, &attr, MRC_QP_HINT_NUM_SEND_PEERS) == 0);
  CHECK(attr.num_send_peers == 7);
  CHECK(attr.num_qps_per_peer == 0);  // not asked for
  attr.num_remote_recv_peers = 30;
  attr.num_send_peers = -1;  // outside the mask
  REQUIRE(mrc_modify_qp_hint(hint, &attr, MRC_QP_HINT_NUM_REMOTE_RECV_PEERS) == 0);
  CHECK(mrc_modify_qp_hint(hint, &attr, MRC_QP_HINT_NUM_SEND_PEERS) == -1);
  CHECK(errno == EINVAL);
  CHECK(mrc_modify_qp_hint(hint, &attr, 1 << 9) == -1);
  CHECK(mrc_query_qp_hint(hint, &attr, 1 << 9) == -1);
  CHECK(mrc_query_qp_hint(hint, nullptr, MRC_QP_HINT_NUM_SEND_PEERS) == -1);
  CHECK(mrc_query_qp_hint(hint, nullptr, 0) == 0);
  REQUIRE(mrc_query_qp_hint(hint, &attr,
                            MRC_QP_HINT_NUM_SEND_PEERS | MRC_QP_HINT_NUM_REMOTE_RECV_PEERS) == 0);
  CHECK(attr.num_send_peers == 7);
  CHECK(attr.num_remote_recv_peers == 30);
  {
    mrc_qp_attr own{};
    own.qp_hint = hint;
    const Pair first(program, mrc), second(program, mrc);
    first.to_init(&own, MRC_QP_HINT);
    second.to_init(&own, MRC_QP_HINT);
    CHECK(mrc_destroy_qp_hint(hint) == -1);
    CHECK(errno == EBUSY);
    CHECK(mrc_modify_qp_hint(hint, &attr, MRC_QP_HINT_NUM_SEND_PEERS) == 0);
  }
  CHECK(mrc_destroy_qp_hint(hint) == 0);
  CHECK(mrc_destroy_qp_hint(hint) == -1);  // once
  CHECK(errno == EINVAL);
  wanted.attr.num_send_peers = -2;
  CHECK(mrc_create_qp_hint(mrc.context, &wanted) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(mrc_create_qp_hint(mrc.context, nullptr) == nullptr);
}

TEST_CASE("a context takes with it what is left, and calls on that are refused") {
  Program program;
  Memory memory(program);
  mrc_context* context = mrc_create_context(program.context, nullptr);
  REQUIRE(context != nullptr);
  mrc_comp_channel* channel = nullptr;
  REQUIRE(mrc_create_comp_channel(context, &channel) == 0);
  mrc_cq* cq = mrc_create_cq(context, 16, nullptr, channel, 0);
  mrc_qp_hint_init_attr hinted{};
  mrc_qp_hint* hint = mrc_create_qp_hint(context, &hinted);
  mrc_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.pd = program.pd;
  mrc_qp* qp = mrc_create_qp(context, &wanted);
  REQUIRE(qp != nullptr);
  mrc_qp_attr own{};
  own.qp_hint = hint;
  REQUIRE(mrc_modify_qp(qp, nullptr, 0, &own, MRC_QP_HINT) == 0);
  CHECK(mrc_destroy_context(context) == 0);
  std::uint32_t qpn = 0;
  CHECK(mrc_get_qpn(qp, &qpn) == -1);
  CHECK(errno == EINVAL);
  CHECK(mrc_destroy_qp(qp) == EINVAL);
  CHECK(mrc_modify_qp(qp, nullptr, 0, nullptr, 0) == EINVAL);
  CHECK(mrc_query_qp(qp, nullptr, 0, nullptr, 0, nullptr) == EINVAL);
  CHECK(mrc_destroy_cq(cq) == EINVAL);
  CHECK(mrc_destroy_qp_hint(hint) == -1);
  CHECK(mrc_destroy_comp_channel(channel) == EINVAL);
  CHECK(mrc_destroy_context(context) == -1);
  CHECK(errno == EINVAL);
  CHECK(mrc_create_cq(context, 1, nullptr, nullptr, 0) == nullptr);
}

TEST_CASE("MRC keeps the device open when its verbs context goes first") {
  mrc_context* context = nullptr;
  {
    Program program;
    context = mrc_create_context(program.context, nullptr);
    REQUIRE(context != nullptr);
  }
  mrc_cq* cq = mrc_create_cq(context, 4, nullptr, nullptr, 0);
  CHECK(cq != nullptr);
  CHECK(mrc_destroy_cq(cq) == 0);
  CHECK(mrc_destroy_context(context) == 0);
}

TEST_CASE("several contexts of one device reach each other, and their events stay apart") {
  Program program;
  Memory memory(program);
  Mrc first(program), second(program);
  const Pair a(program, first), b(program, second);
  a.connect(program, b);
  b.connect(program, a);
  ibv_sge sge = memory.sge(0, 8);
  ibv_send_wr request = verbs::write_request(1, sge, memory, 64);
  REQUIRE(a.post(request) == 0);
  CHECK(a.next().status == IBV_WC_SUCCESS);
  request.wr.rdma.rkey ^= 0x5A5A5A;
  REQUIRE(a.post(request) == 0);
  CHECK(a.next().status == IBV_WC_REM_ACCESS_ERR);
  mrc_async_event event{};
  REQUIRE(mrc_get_async_event(second.context, &event) == 0);
  CHECK(event.element.qp == b.qp);
  mrc_ack_async_event(&event);
  // Nothing of it for the verbs context.
  REQUIRE(::fcntl(program.context->async_fd, F_SETFL,
                  ::fcntl(program.context->async_fd, F_GETFL) | O_NONBLOCK) == 0);
  ibv_async_event of_verbs{};
  CHECK(ibv_get_async_event(program.context, &of_verbs) == -1);
  CHECK(errno == EAGAIN);
}

TEST_CASE("destroying a queue pair waits until its event is acknowledged") {
  Connected c;
  ibv_sge sge = c.memory.sge(0, 8);
  ibv_send_wr request = verbs::write_request(1, sge, c.memory, 64);
  request.wr.rdma.rkey ^= 0x5A5A5A;
  REQUIRE(c.a.post(request) == 0);
  CHECK(c.a.next().status == IBV_WC_REM_ACCESS_ERR);
  mrc_async_event event{};
  REQUIRE(mrc_get_async_event(c.mrc.context, &event) == 0);
  std::atomic<bool> destroyed{false};
  std::thread waiting([&] {
    const int error = mrc_destroy_qp(c.b.qp);
    destroyed = true;
    CHECK(error == 0);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(destroyed.load());
  mrc_ack_async_event(&event);
  waiting.join();
  c.b.qp = nullptr;
}

TEST_CASE("pointers that are NULL are EINVAL in every call") {
  ibv_wc wc{};
  std::uint32_t number = 0;
  int fd = 0;
  void* data = nullptr;
  mrc_cq* cq = nullptr;
  mrc_qp_attr own{};
  mrc_async_event event{};
  Program program;  // so that there is a device behind the calls
  Mrc mrc(program);
  CHECK(mrc_destroy_context(nullptr) == -1);
  CHECK(mrc_create_comp_channel(nullptr, nullptr) == EINVAL);
  CHECK(mrc_get_comp_channel_fd(nullptr, &fd) == -1);
  CHECK(mrc_destroy_comp_channel(nullptr) == EINVAL);
  CHECK(mrc_create_cq(nullptr, 1, nullptr, nullptr, 0) == nullptr);
  CHECK(mrc_poll_cq(nullptr, 1, &wc) == -1);
  CHECK(mrc_req_notify_cq(nullptr, 0) == EINVAL);
  CHECK(mrc_get_cq_event(nullptr, &cq, &data) == -1);
  mrc_ack_cq_events(nullptr, 1);
  CHECK(mrc_destroy_cq(nullptr) == EINVAL);
  CHECK(mrc_create_qp_hint(nullptr, nullptr) == nullptr);
  CHECK(mrc_destroy_qp_hint(nullptr) == -1);
  CHECK(mrc_query_qp_hint(nullptr, nullptr, 0) == -1);
  CHECK(mrc_modify_qp_hint(nullptr, nullptr, 0) == -1);
  CHECK(mrc_destroy_qp(nullptr) == EINVAL);
  CHECK(mrc_query_qp(nullptr, nullptr, 0, &own, 0, nullptr) == EINVAL);
  CHECK(mrc_modify_qp(nullptr, nullptr, 0, nullptr, 0) == EINVAL);
  CHECK(mrc_get_qpn(nullptr, &number) == -1);
  CHECK(mrc_post_recv(nullptr, nullptr, nullptr) == EINVAL);
  CHECK(mrc_post_send(nullptr, nullptr, nullptr) == EINVAL);
  CHECK(mrc_get_async_event(nullptr, &event) == -1);
  mrc_ack_async_event(nullptr);
  CHECK(mrc_get_async_event(mrc.context, nullptr) == -1);
  const Pair pair(program, mrc);
  CHECK(mrc_modify_qp(pair.qp, nullptr, IBV_QP_STATE, nullptr, 0) == EINVAL);
  CHECK(mrc_modify_qp(pair.qp, nullptr, 0, nullptr, MRC_QP_HINT) == EINVAL);
  CHECK(mrc_get_qpn(pair.qp, nullptr) == -1);
  CHECK(mrc_post_recv(pair.qp, nullptr, nullptr) == 0);  // an empty list
}
