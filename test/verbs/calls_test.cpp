// SPDX-License-Identifier: Apache-2.0
// Every exported symbol is called, under its version, as the loader would find it. Those that do
// something are tested elsewhere; here none may crash, and those that say "unsupported" say it.
#include <dlfcn.h>
#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

#include <fstream>
#include <functional>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include "verbs/verbs_rig.hpp"

using namespace mrc::test::verbs;

namespace calls_test {

std::string text_of(const std::string& name) {
  std::ifstream file(std::string(MRC_TEST_SHIM_FOLDER) + "/" + name);
  REQUIRE(file.good());
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Symbols of the version script, with their version.
std::vector<std::pair<std::string, std::string>> exported() {
  std::vector<std::pair<std::string, std::string>> symbols;
  std::istringstream lines(text_of("libibverbs.map"));
  std::string line, version;
  const std::regex node(R"(^(IBVERBS_[0-9.]+) \{)"), symbol(R"(^ +(\w*ibv\w+);)");
  for (std::smatch found; std::getline(lines, line);) {
    if (std::regex_search(line, found, node)) version = found[1];
    if (std::regex_search(line, found, symbol)) symbols.emplace_back(found[1], version);
  }
  return symbols;
}

void* look_up(const std::string& name, const std::string& version) {
  void* library = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(library != nullptr);
  void* found = ::dlvsym(library, name.c_str(), version.c_str());
  ::dlclose(library);
  return found;
}

/// The words of a text.
std::set<std::string> words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

/// The functions that do nothing but refuse: by what they return.
const std::set<std::string> kErrors{"ibv_set_ece",           "ibv_query_ece",
                                    "ibv_attach_mcast",      "ibv_detach_mcast",
                                    "ibv_dealloc_dmah",      "_ibv_query_comp_cntr_caps",
                                    "ibv_destroy_comp_cntr", "ibv_inc_comp_cntr",
                                    "ibv_inc_err_comp_cntr", "ibv_qp_attach_comp_cntr",
                                    "ibv_read_comp_cntr",    "ibv_read_err_comp_cntr",
                                    "ibv_set_comp_cntr",     "ibv_set_err_comp_cntr"};
const std::set<std::string> kNulls{"ibv_import_device",   "ibv_import_pd",  "ibv_import_mr",
                                   "ibv_import_dm",       "ibv_alloc_dmah", "ibv_reg_dmabuf_mr",
                                   "ibv_create_comp_cntr"};
const std::set<std::string> kMinusOnes{"ibv_resolve_eth_l2_from_gid", "ibv_dm_export_dmabuf_fd",
                                       "ibv_rereg_mr"};
const std::set<std::string> kNothings{"ibv_unimport_pd",     "ibv_unimport_mr",
                                      "ibv_unimport_dm",     "ibv_free_buf",
                                      "ibv_register_driver", "ibv_free_device_list"};
const std::set<std::string> kZeros{"ibv_fork_init", "ibv_dontfork_range", "ibv_dofork_range",
                                   "ibv_query_qp_data_in_order"};

/// Those that other test cases call, or that are called below.
const std::set<std::string> kCalledElsewhere = words(R"(
  ibv_ack_async_event ibv_ack_cq_events ibv_alloc_buf ibv_alloc_pd ibv_close_device
  ibv_copy_ah_attr_from_kern ibv_copy_path_rec_from_kern ibv_copy_path_rec_to_kern
  ibv_copy_qp_attr_from_kern ibv_create_ah ibv_create_ah_from_wc ibv_create_comp_channel
  ibv_create_cq ibv_create_qp ibv_create_srq ibv_dealloc_pd ibv_dereg_mr ibv_destroy_ah
  ibv_destroy_comp_channel ibv_destroy_cq ibv_destroy_qp ibv_destroy_srq ibv_event_type_str
  ibv_export_buf_dmabuf_fd ibv_get_async_event ibv_get_cq_event ibv_get_device_guid
  ibv_get_device_index ibv_get_device_list ibv_get_device_name ibv_get_pkey_index
  ibv_get_sysfs_path ibv_init_ah_from_wc ibv_is_fork_initialized ibv_modify_qp ibv_modify_srq
  ibv_node_type_str ibv_open_device ibv_port_state_str ibv_qp_to_qp_ex ibv_query_device
  ibv_query_gid _ibv_query_gid_ex _ibv_query_gid_table ibv_query_pkey ibv_query_port
  ibv_query_port_speed ibv_query_qp ibv_query_srq ibv_rate_to_mbps ibv_rate_to_mult
  ibv_read_sysfs_file ibv_reg_buf_mr ibv_reg_mr ibv_reg_mr_ex ibv_reg_mr_iova ibv_reg_mr_iova2
  ibv_resize_cq ibv_wc_status_str mbps_to_ibv_rate mult_to_ibv_rate)");

/// Room for any struct that a function without arguments of its own might touch.
alignas(16) std::array<std::uint8_t, 4096> call_room, other_call_room;

/// Calls a function whose type nobody knows here; it takes as many of the arguments as it has. That
/// clang's sanitizer finds the type wrong is right, and in C nobody would notice.
template <class Result>
#ifdef __clang__
[[clang::no_sanitize("function")]]
#endif
Result
call(void* function, void* first = call_room.data()) {
  errno = 0;
  return reinterpret_cast<Result (*)(void*, void*, long, long, long, long)>(function)(
      first, other_call_room.data(), 0, 0, 0, 0);
}

TEST_CASE("verbs calls: every exported symbol is there, under its version, and is called") {
  const auto symbols = exported();
  CHECK(symbols.size() > 80);
  for (const auto& [symbol, node] : symbols) {
    const std::string name = symbol, version = node;
    CAPTURE(name);
    CAPTURE(version);
    void* function = look_up(name, version);
    REQUIRE(function != nullptr);
    if (kErrors.count(name) > 0) {
      CHECK(call<int>(function) == EOPNOTSUPP);
    } else if (kNulls.count(name) > 0) {
      CHECK(call<void*>(function) == nullptr);
      CHECK(errno == EOPNOTSUPP);
    } else if (kMinusOnes.count(name) > 0) {
      CHECK(call<int>(function) == -1);
      CHECK(errno == EOPNOTSUPP);
    } else if (kZeros.count(name) > 0) {
      CHECK(call<int>(function) == 0);
    } else if (kNothings.count(name) > 0) {
      call<void>(function, nullptr);
    } else {
      CHECK(kCalledElsewhere.count(name) == 1);
    }
  }
}

TEST_CASE("verbs calls: the symbols between library and providers, in the node of every release") {
  const std::string text = text_of("exports/private.cpp");
  const std::regex error(R"(\nMRC_ERROR\((\w+)\))");
  std::vector<std::string> errors;
  for (std::sregex_iterator at(text.begin(), text.end(), error), end; at != end; ++at)
    errors.push_back((*at)[1]);
  CHECK(errors.size() > 55);
  const Program program;
  for (const char* number : {"22", "25", "33", "34", "57", "59", "60", "64", "65"}) {
    const std::string version = std::string("IBVERBS_PRIVATE_") + number;
    CAPTURE(version);
    for (const std::string& name : errors) {
      CAPTURE(name);
      void* function = look_up(name, version);
      REQUIRE(function != nullptr);
      CHECK(call<int>(function) == EOPNOTSUPP);
    }
    for (const std::string name : {"_verbs_init_and_alloc_context", "verbs_open_device"}) {
      void* function = look_up(name, version);
      REQUIRE(function != nullptr);
      CHECK(call<void*>(function) == nullptr);
    }
    for (const std::string& name :
         {std::string("__verbs_log"), std::string("verbs_init_cq"), std::string("verbs_set_ops"),
          std::string("verbs_uninit_context"), std::string("verbs_register_driver_") + number}) {
      CAPTURE(name);
      void* function = look_up(name, version);
      REQUIRE(function != nullptr);
      (void)call<int>(function);
    }
    CHECK(call<int>(look_up("ibv_read_ibdev_sysfs_file", version)) == -1);
    CHECK(call<unsigned>(look_up("__ioctl_final_num_attrs", version)) == 0);
    CHECK(look_up("verbs_allow_disassociate_destroy", version) != nullptr);
    const auto gid_type =
        reinterpret_cast<int (*)(ibv_context*, std::uint8_t, unsigned, unsigned*)>(
            look_up("ibv_query_gid_type", version));
    REQUIRE(reinterpret_cast<void*>(gid_type) != nullptr);
    unsigned type = 0;
    for (const unsigned index : {0u, 3u}) {
      CHECK(gid_type(program.context, 1, index, &type) == 0);
      CHECK(type == 1);
    }
    CHECK(gid_type(program.context, 1, 4, &type) == -1);
  }
}

TEST_CASE("verbs calls: names and rates") {
  CHECK(std::string(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)).find("retry") != std::string::npos);
  CHECK(ibv_wc_status_str(static_cast<ibv_wc_status>(99)) != nullptr);
  CHECK(std::string(ibv_event_type_str(IBV_EVENT_PORT_ERR)) == "port error");
  CHECK(ibv_event_type_str(static_cast<ibv_event_type>(-5)) != nullptr);
  CHECK(std::string(ibv_event_type_str(IBV_EVENT_WQ_FATAL)) == "WQ fatal");
  CHECK(std::string(ibv_node_type_str(IBV_NODE_RNIC)) == "iWARP NIC");
  CHECK(std::string(ibv_port_state_str(IBV_PORT_ACTIVE)) == "active");
  CHECK(ibv_port_state_str(static_cast<ibv_port_state>(77)) != nullptr);
  CHECK(ibv_rate_to_mult(IBV_RATE_10_GBPS) == 4);
  CHECK(mult_to_ibv_rate(4) == IBV_RATE_10_GBPS);
  CHECK(ibv_rate_to_mbps(IBV_RATE_100_GBPS) == 103125);
  CHECK(mbps_to_ibv_rate(103125) == IBV_RATE_100_GBPS);
  CHECK(ibv_rate_to_mult(static_cast<ibv_rate>(99)) == -1);
  CHECK(mult_to_ibv_rate(3) == IBV_RATE_MAX);
}

extern "C" {
const char* ibv_get_sysfs_path();
int ibv_read_sysfs_file(const char* folder, const char* file, char* out, std::size_t size);
void ibv_copy_qp_attr_from_kern(ibv_qp_attr* to, ib_uverbs_qp_attr* from);
void ibv_copy_ah_attr_from_kern(ibv_ah_attr* to, ib_uverbs_ah_attr* from);
void ibv_copy_path_rec_from_kern(ibv_sa_path_rec* to, ib_user_path_rec* from);
void ibv_copy_path_rec_to_kern(ib_user_path_rec* to, ibv_sa_path_rec* from);
}

TEST_CASE("verbs calls: what librdmacm gets from the kernel") {
  ib_uverbs_qp_attr kernel{};
  kernel.qp_state = IBV_QPS_RTR;
  kernel.dest_qp_num = 0x123456;
  kernel.timeout = 14;
  kernel.max_inline_data = 77;
  kernel.ah_attr.is_global = 1;
  kernel.ah_attr.port_num = 1;
  kernel.ah_attr.grh.dgid[15] = 9;
  kernel.alt_ah_attr.dlid = 5;
  ibv_qp_attr attributes{};
  ibv_copy_qp_attr_from_kern(&attributes, &kernel);
  CHECK(attributes.qp_state == IBV_QPS_RTR);
  CHECK(attributes.dest_qp_num == 0x123456);
  CHECK(attributes.timeout == 14);
  CHECK(attributes.cap.max_inline_data == 77);
  CHECK(attributes.ah_attr.grh.dgid.raw[15] == 9);
  CHECK(attributes.alt_ah_attr.dlid == 5);
  ibv_ah_attr address{};
  ibv_copy_ah_attr_from_kern(&address, &kernel.ah_attr);
  CHECK(address.is_global == 1);
  CHECK(address.port_num == 1);

  ib_user_path_rec path{}, back{};
  path.dgid[0] = 1;
  path.sgid[15] = 2;
  path.dlid = 3;
  path.flow_label = 4;
  path.packet_life_time = 5;
  path.preference = 6;
  ibv_sa_path_rec record{};
  ibv_copy_path_rec_from_kern(&record, &path);
  CHECK(record.dgid.raw[0] == 1);
  CHECK(record.packet_life_time == 5);
  ibv_copy_path_rec_to_kern(&back, &record);
  CHECK(std::memcmp(&path, &back, sizeof path) == 0);
}

TEST_CASE("verbs calls: files of the kernel") {
  CHECK(std::string(ibv_get_sysfs_path()) == "/sys");
  std::array<char, 64> text{};
  CHECK(ibv_read_sysfs_file("/proc/sys/kernel", "ostype", text.data(), text.size()) == 5);
  CHECK(std::string(text.data()) == "Linux");
  CHECK(ibv_read_sysfs_file("/proc/sys/kernel", "ostype", text.data(), 3) == -1);
  CHECK(ibv_read_sysfs_file("/nowhere", "at_all", text.data(), text.size()) == -1);
}

TEST_CASE("verbs calls: address handles") {
  Program program;
  ibv_ah_attr attributes = rtr_attributes(program.context, 1).ah_attr;
  ibv_ah* ah = ibv_create_ah(program.pd, &attributes);
  REQUIRE(ah != nullptr);
  CHECK(ibv_dealloc_pd(program.pd) == EBUSY);
  CHECK(ibv_destroy_ah(ah) == 0);
  attributes.is_global = 0;
  CHECK(ibv_create_ah(program.pd, &attributes) == nullptr);
  CHECK(errno == EINVAL);

  // RoCEv2 over IPv4: 20 bytes of nothing, then the IPv4 header of the datagram.
  std::array<std::uint8_t, 40> header{};
  header[20] = 0x45;
  header[21] = 0x60;
  const std::array<std::uint8_t, 4> source{192, 0, 2, 7};
  std::memcpy(&header[32], source.data(), 4);
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  auto* grh = reinterpret_cast<ibv_grh*>(header.data());
  REQUIRE(ibv_init_ah_from_wc(program.context, 1, &wc, grh, &attributes) == 0);
  CHECK(attributes.grh.dgid.raw[10] == 0xFF);
  CHECK(std::memcmp(attributes.grh.dgid.raw + 12, source.data(), 4) == 0);
  CHECK(attributes.grh.traffic_class == 0x60);
  ah = ibv_create_ah_from_wc(program.pd, &wc, grh, 1);
  REQUIRE(ah != nullptr);
  CHECK(ibv_destroy_ah(ah) == 0);
  header[20] = 0;
  CHECK(ibv_init_ah_from_wc(program.context, 1, &wc, grh, &attributes) == EINVAL);
}

TEST_CASE("verbs calls: resizing a completion queue") {
  const Program program;
  ibv_cq* cq = ibv_create_cq(program.context, 16, nullptr, nullptr, 0);
  REQUIRE(cq != nullptr);
  CHECK(cq->cqe >= 16);
  CHECK(ibv_resize_cq(cq, 8) == 0);
  CHECK(ibv_resize_cq(cq, 0) == EINVAL);
  CHECK(ibv_resize_cq(cq, 1000) == EOPNOTSUPP);
  CHECK(ibv_destroy_cq(cq) == 0);
  CHECK(ibv_create_cq(program.context, 0, nullptr, nullptr, 0) == nullptr);
  CHECK(errno == EINVAL);
  CHECK(ibv_create_cq(program.context, 1, nullptr, nullptr, 1) == nullptr);
  CHECK(errno == EINVAL);
}

}  // namespace calls_test
