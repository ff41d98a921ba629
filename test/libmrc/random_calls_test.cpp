// SPDX-License-Identifier: Apache-2.0
// Random calls of all functions, with random attributes, masks and operations, in any order:
// nothing crashes or hangs, errors are errno values, and what fails changes nothing.
#include <algorithm>
#include <random>

#include "libmrc/mrc_rig.hpp"

using namespace mrc::test;
using namespace mrc::test::libmrc;

namespace random_calls_test {

class RandomProgram {
 public:
  explicit RandomProgram(std::uint64_t seed) : random_(seed) {
    contexts_.push_back(mrc_create_context(program_.context, nullptr));
    REQUIRE(contexts_.front() != nullptr);
  }
  ~RandomProgram() {
    for (mrc_context* context : contexts_) (void)mrc_destroy_context(context);
  }
  RandomProgram(const RandomProgram&) = delete;
  RandomProgram& operator=(const RandomProgram&) = delete;

  void step() {
    switch (below(22)) {
      case 0:
        return create_context();
      case 1:
        return destroy_context();
      case 2:
      case 3:
        return create_cq();
      case 4:
      case 5:
        return create_qp();
      case 6:
        return keep(hints_, make_hint());
      case 7:
        return end(cqs_, [](mrc_cq* cq) { return mrc_destroy_cq(cq); });
      case 8:
        return end(qps_, [](mrc_qp* qp) { return mrc_destroy_qp(qp); });
      case 9:
        return end(hints_, [](mrc_qp_hint* hint) { return mrc_destroy_qp_hint(hint); });
      case 10:
        return change_hint();
      case 11:
      case 12:
      case 13:
        return modify_qp();
      case 14:
        return query_qp();
      case 15:
        return post();
      case 16:
        return poll();
      case 17:
        return format_profile();
      case 18:
      case 19:
        return ev_profile();
      case 20:
        return cc_profile();
      default:
        return port();
    }
  }

 private:
  [[nodiscard]] std::uint32_t below(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random_);
  }
  [[nodiscard]] bool chance(std::uint32_t percent) { return below(100) < percent; }
  template <class T>
  void scramble(T& value) {
    auto* bytes = reinterpret_cast<std::uint8_t*>(&value);
    for (std::size_t i = 0; i < sizeof value; ++i)
      bytes[i] = static_cast<std::uint8_t>(chance(50) ? 0 : below(chance(50) ? 4 : 256));
  }
  /// Most bits of a mask are known ones; some masks have others.
  [[nodiscard]] int mask(int known) {
    auto out = static_cast<int>(below(0xFFFFFFFFu)) & known;
    if (chance(10)) out |= static_cast<int>(1u << below(32));
    return chance(5) ? 0 : out;
  }
  template <class T>
  [[nodiscard]] T* any(const std::vector<T*>& some) {
    return some.empty() || chance(3) ? nullptr
                                     : some[below(static_cast<std::uint32_t>(some.size()))];
  }
  template <class T>
  static void keep(std::vector<T*>& some, T* made) {
    if (made != nullptr) some.push_back(made);
  }
  template <class T, class End>
  void end(std::vector<T*>& some, End&& destroy) {
    T* one = any(some);
    const int error = destroy(one);
    if (error == 0) std::erase(some, one);
    CHECK((error == 0 || error == -1 || error == EINVAL || error == EBUSY));
  }
  static void check_a(int result) { CHECK((result == 0 || (result == -1 && errno > 0))); }
  static void check_e(int result) { CHECK((result == 0 || (result > 0 && result < 200))); }

  void create_context() {
    mrc_context_attr attr{};
    scramble(attr);
    if (contexts_.size() < 4)
      keep(contexts_, mrc_create_context(program_.context, chance(50) ? &attr : nullptr));
  }
  /// With all that is left in it, of which the program forgets half.
  void destroy_context() {
    if (contexts_.size() < 2) return;
    mrc_context* gone = contexts_.back();
    contexts_.pop_back();
    CHECK(mrc_destroy_context(gone) == 0);
    // Whose they were is not known here: calls on those that went with it are refused. Their
    // addresses may be used again by others, so they are looked up before they are used.
    std::uint32_t qpn = 0;
    std::erase_if(qps_, [&](mrc_qp* qp) { return mrc_get_qpn(qp, &qpn) != 0; });
    std::erase_if(hints_,
                  [&](mrc_qp_hint* hint) { return mrc_query_qp_hint(hint, nullptr, 0) != 0; });
    std::erase_if(cqs_, [&](mrc_cq* cq) {
      const int error = mrc_destroy_cq(cq);
      CHECK((error == 0 || error == EBUSY || error == EINVAL));
      return error != EBUSY;
    });
  }
  void create_cq() {
    if (cqs_.size() >= 12) return;
    const int size = static_cast<int>(below(300)) - 20, vector = chance(90) ? 0 : 1;
    if (chance(70))
      keep(cqs_, mrc_create_cq(any(contexts_), size, this, nullptr, vector));
    else
      (void)mrc_ctl_create_ev_event_cq(any(contexts_), size, this, nullptr, vector);
  }
  void create_qp() {
    if (qps_.size() >= 12) return;
    mrc_qp_init_attr attr{};
    scramble(attr);
    attr.send_cq = any(cqs_);
    attr.recv_cq = any(cqs_);
    attr.pd = chance(95) ? program_.pd : nullptr;
    attr.cap = {below(70), below(70), below(3), below(3), below(100)};
    if (chance(5)) scramble(attr.cap);
    if (chance(80)) attr.send_ops_flags = 0;
    if (chance(80)) attr.protocol_version = MRC_PROTOCOL_VERSION_1;
    keep(qps_, mrc_create_qp(any(contexts_), chance(97) ? &attr : nullptr));
  }
  [[nodiscard]] mrc_qp_hint* make_hint() {
    mrc_qp_hint_init_attr attr{};
    scramble(attr);
    return hints_.size() < 8 ? mrc_create_qp_hint(any(contexts_), &attr) : nullptr;
  }
  void change_hint() {
    mrc_qp_hint_attr attr{};
    scramble(attr);
    const int some = mask(7 | MRC_QP_HINT_VENDOR_CFG);
    check_a(chance(50) ? mrc_modify_qp_hint(any(hints_), &attr, some)
                       : mrc_query_qp_hint(any(hints_), &attr, some));
  }
  void modify_qp() {
    mrc_qp* qp = any(qps_);
    ibv_qp_attr before{}, after{}, attr{};
    mrc_qp_attr own_before{}, own_after{}, own{};
    scramble(attr);
    scramble(own);
    own.qp_hint = any(hints_);
    // A wrong state is one bit, so that queue pairs get somewhere.
    attr.qp_state = static_cast<ibv_qp_state>(below(chance(95) ? 7 : 300));
    int bits = mask(IBV_QP_STATE | IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX |
                    IBV_QP_PORT | IBV_QP_TIMEOUT);
    const bool known = qp != nullptr && mrc_query_qp(qp, &before, 0, &own_before, 0, nullptr) == 0;
    if (known && chance(60)) {  // the next step, as it should be
      bits = IBV_QP_STATE;
      attr.qp_state = before.qp_state == IBV_QPS_RESET  ? IBV_QPS_INIT
                      : before.qp_state == IBV_QPS_INIT ? IBV_QPS_RTR
                      : before.qp_state == IBV_QPS_RTR  ? IBV_QPS_RTS
                                                        : IBV_QPS_RESET;
    }
    if (attr.qp_state == IBV_QPS_RTR && known) {
      std::uint32_t qpn = 0;
      if (mrc_qp* peer = any(qps_); peer != nullptr) (void)mrc_get_qpn(peer, &qpn);
      const ibv_qp_attr good = verbs::rtr_attributes(program_.context, qpn);
      attr.ah_attr = good.ah_attr;
      attr.dest_qp_num = qpn;
      attr.path_mtu = IBV_MTU_1024;
      bits |= IBV_QP_AV | IBV_QP_DEST_QPN | (chance(50) ? IBV_QP_PATH_MTU | IBV_QP_RQ_PSN : 0);
    }
    const int own_bits = chance(50) ? 0 : mask(0x3FF | MRC_QP_VENDOR_CFG);
    const int error = mrc_modify_qp(qp, chance(97) ? &attr : nullptr, bits,
                                    chance(97) ? &own : nullptr, own_bits);
    check_e(error);
    if (!known || error == 0) return;
    if (mrc_query_qp(qp, &after, 0, &own_after, 0, nullptr) != 0) return;
    if (after.qp_state == IBV_QPS_ERR) return;  // the device has failed it meanwhile
    CHECK(after.qp_state == before.qp_state);
    CHECK(after.qp_access_flags == before.qp_access_flags);
    CHECK(after.dest_qp_num == before.dest_qp_num);
    CHECK(std::memcmp(&own_before, &own_after, sizeof own_after) == 0);
  }
  void query_qp() {
    ibv_qp_attr attr{};
    mrc_qp_attr own{};
    mrc_qp_init_attr initial{};
    check_e(mrc_query_qp(any(qps_), chance(80) ? &attr : nullptr, mask(0xFFFF),
                         chance(80) ? &own : nullptr, mask(0x3FF),
                         chance(80) ? &initial : nullptr));
  }
  void post() {
    mrc_qp* qp = any(qps_);
    std::array<ibv_send_wr, 4> chain{};
    std::array<ibv_sge, 4> sges{};
    for (std::size_t i = 0; i < chain.size(); ++i) {
      sges[i] = memory_.sge(below(1000), below(2000));
      if (chance(10)) sges[i].lkey ^= 1u << below(32);
      chain[i].wr_id = i;
      chain[i].sg_list = &sges[i];
      chain[i].num_sge = static_cast<int>(below(2));
      chain[i].opcode = static_cast<ibv_wr_opcode>(chance(90) ? below(2) : below(20));
      chain[i].send_flags = below(16);
      chain[i].wr.rdma.remote_addr = memory_.address(1 << 19) + below(1000);
      chain[i].wr.rdma.rkey = memory_.mr->rkey;
      if (i > 0 && chance(70)) chain[i - 1].next = &chain[i];
    }
    ibv_send_wr* bad = nullptr;
    check_e(mrc_post_send(qp, chain.data(), chance(90) ? &bad : nullptr));
    ibv_recv_wr receive{}, *bad_receive = nullptr;
    check_e(mrc_post_recv(qp, &receive, &bad_receive));
  }
  void poll() {
    std::array<ibv_wc, 8> wc{};
    const int got = mrc_poll_cq(any(cqs_), static_cast<int>(below(9)) - 1, wc.data());
    CHECK((got >= -1 && got <= 8));
    check_e(mrc_req_notify_cq(any(cqs_), static_cast<int>(below(2))));
  }
  void format_profile() {
    mrc_ctl_ev_fmt_profile_attr attr{};
    std::array<mrc_ctl_ev_fmt_field, 40> fields{};
    scramble(attr);
    scramble(fields);
    attr.ev_fmt_op.fmt_fields = chance(90) ? fields.data() : nullptr;
    attr.ev_fmt_op.fmt_field_count = static_cast<int>(below(42)) - 1;
    attr.ev_fmt_op.fmt_field_count = std::min(attr.ev_fmt_op.fmt_field_count, 40);
    if (chance(90)) std::fill(std::begin(attr.vendor_cfg), std::end(attr.vendor_cfg), 0);
    const auto call = chance(70) ? &mrc_ctl_modify_ev_fmt_profile : &mrc_ctl_query_ev_fmt_profile;
    check_a(call(any(contexts_), below(3), &attr, mask(15 | MRC_CTL_EV_FMT_VENDOR_CFG)));
  }
  void ev_profile() {
    mrc_ctl_ev_profile_attr attr{};
    std::array<mrc_ctl_ev_op_entry, 20> entries{};
    std::array<mrc_ctl_ev_field, 20> fields{};
    scramble(attr);
    scramble(entries);
    scramble(fields);
    attr.ev_count = below(chance(90) ? 30 : 100'000);
    attr.ev_fmt_profile_id = below(3);
    attr.ev_op.entries = chance(90) ? entries.data() : nullptr;
    attr.ev_op.entry_count = static_cast<int>(below(22)) - 1;
    attr.ev_op.entry_count = std::min(attr.ev_op.entry_count, 20);
    attr.ev_fields_op.fields = chance(90) ? fields.data() : nullptr;
    attr.ev_fields_op.field_count = static_cast<int>(below(22)) - 1;
    attr.ev_fields_op.field_count = std::min(attr.ev_fields_op.field_count, 20);
    if (chance(90)) std::fill(std::begin(attr.vendor_cfg), std::end(attr.vendor_cfg), 0);
    const auto call = chance(70) ? &mrc_ctl_modify_ev_profile : &mrc_ctl_query_ev_profile;
    check_a(call(any(contexts_), below(4), &attr, mask(0x1FF | MRC_CTL_EV_PROFILE_VENDOR_CFG)));
  }
  void cc_profile() {
    mrc_ctl_cc_profile_attr attr{};
    mrc_ctl_cc_nscc_cfg config{};
    scramble(attr);
    scramble(config);
    constexpr std::array<const char*, 5> kNames{"uet-1.0-nscc", "fixed", "", "cubic", nullptr};
    attr.algorithm = kNames[below(kNames.size())];
    attr.cc_config = chance(80) ? &config : nullptr;
    if (chance(90)) std::fill(std::begin(attr.vendor_cfg), std::end(attr.vendor_cfg), 0);
    const auto call = chance(70) ? &mrc_ctl_modify_cc_profile : &mrc_ctl_query_cc_profile;
    check_a(call(any(contexts_), below(4), &attr, mask(15 | MRC_CTL_CC_PROFILE_VENDOR_CFG)));
  }
  void port() {
    mrc_ctl_port_attr attr{static_cast<mrc_ctl_port_admin_state>(below(3))};
    const auto number = static_cast<std::uint8_t>(below(4));
    const auto call = chance(50) ? &mrc_ctl_modify_port : &mrc_ctl_query_port;
    check_a(call(any(contexts_), number, &attr, mask(1)));
    attr.port_admin_state = MRC_CTL_PORT_ADMIN_ENABLED;
    if (number == 1 || number == 2)
      (void)mrc_ctl_modify_port(contexts_.front(), number, &attr, MRC_CTL_PORT_ADMIN_STATE);
  }

  std::mt19937_64 random_;
  Program program_;
  Memory memory_{program_};
  std::vector<mrc_context*> contexts_;
  std::vector<mrc_cq*> cqs_;
  std::vector<mrc_qp*> qps_;
  std::vector<mrc_qp_hint*> hints_;
};

TEST_CASE("random calls with random attributes leave everything usable") {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    CAPTURE(seed);
    RandomProgram program(seed);
    for (int i = 0; i < 3000; ++i) program.step();
    Connected fresh;  // and the device still works
    ibv_sge sge = fresh.memory.sge(0, 1000);
    ibv_send_wr request = verbs::write_request(1, sge, fresh.memory, 1 << 19);
    REQUIRE(fresh.a.post(request) == 0);
    CHECK(fresh.a.next().status == IBV_WC_SUCCESS);
  }
}

}  // namespace random_calls_test
