// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/host/net.hpp"

#include "nccl_plugin/host/table_net.hpp"

namespace nccl_host {

namespace {

template <int Version, class Table>
std::unique_ptr<Net> over(void* table) {
  return std::make_unique<TableNet<Version, Table>>(static_cast<Table*>(table));
}

}  // namespace

std::unique_ptr<Net> make_net(int version, void* table) {
  switch (version) {
    case 6:
      return over<6, nccl_abi::NetV6>(table);
    case 7:
      return over<7, nccl_abi::NetV7>(table);
    case 8:
      return over<8, nccl_abi::NetV8>(table);
    case 9:
      return over<9, nccl_abi::NetV9>(table);
    case 10:
      return over<10, nccl_abi::NetV10>(table);
    case 11:
      return over<11, nccl_abi::NetV11>(table);
    case 12:
      return over<12, nccl_abi::NetV12>(table);
    default:
      return nullptr;
  }
}

std::string symbol_of(int version) {
  return "ncclNetPlugin_v" + std::to_string(version);
}

}  // namespace nccl_host
