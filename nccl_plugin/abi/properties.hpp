// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "nccl_plugin/abi/types.hpp"

/// ncclNetProperties of each version: what NCCL wants to know of a net device.
namespace nccl_abi {

struct PropertiesV6 {
  const char* name;
  const char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int speed;  ///< Mb/s
  int port;
  float latency;  ///< us
  int max_comms;
  int max_receives;  ///< buffers of one grouped receive
};
static_assert(sizeof(PropertiesV6) == 48 && offsetof(PropertiesV6, pointer_support) == 24);
static_assert(offsetof(PropertiesV6, speed) == 28 && offsetof(PropertiesV6, max_receives) == 44);

struct PropertiesV7 {
  const char* name;
  const char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;  ///< see DeviceHandle::type
  int device_version;
};
static_assert(sizeof(PropertiesV7) == 56 && offsetof(PropertiesV7, device_type) == 48);

struct PropertiesV8 {
  const char* name;
  const char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;  ///< a registration serves all connections of the device
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
};
static_assert(sizeof(PropertiesV8) == 64 && offsetof(PropertiesV8, registration_is_global) == 28);
static_assert(offsetof(PropertiesV8, speed) == 32 && offsetof(PropertiesV8, device_type) == 52);

/// ncclNetVDeviceProps: the devices that make up a virtual one.
template <int Most>
struct VirtualDevice {
  int count = 0;
  int devices[Most] = {};
};
using VirtualDeviceV9 = VirtualDevice<kMaxDevicesPerNic>;
using VirtualDeviceV12 = VirtualDevice<kMaxDevicesPerNicV12>;
static_assert(sizeof(VirtualDeviceV9) == 20 && sizeof(VirtualDeviceV12) == 36);

struct PropertiesV9 {
  const char* name;
  const char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
  VirtualDeviceV9 virtual_device;
  std::size_t max_p2p_bytes;         ///< of one send
  std::size_t max_collective_bytes;  ///< of one collective request
};
static_assert(sizeof(PropertiesV9) == 104 && offsetof(PropertiesV9, force_flush) == 32);
static_assert(offsetof(PropertiesV9, speed) == 36 && offsetof(PropertiesV9, device_type) == 56);
static_assert(offsetof(PropertiesV9, virtual_device) == 64);
static_assert(offsetof(PropertiesV9, max_p2p_bytes) == 88);

struct PropertiesV11 {
  const char* name;
  const char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
  VirtualDeviceV9 virtual_device;
  std::size_t max_p2p_bytes;
  std::size_t max_collective_bytes;
  int max_multi_request_size;
};
static_assert(sizeof(PropertiesV11) == 112);
static_assert(offsetof(PropertiesV11, max_multi_request_size) == 104);

struct PropertiesV12 {
  const char* name;
  const char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_comms;
  int max_receives;
  int device_type;
  int device_version;
  VirtualDeviceV12 virtual_device;
  std::size_t max_p2p_bytes;
  std::size_t max_collective_bytes;
  int max_multi_request_size;
  std::int16_t rail;   ///< -1: not known
  std::int16_t plane;  ///< -1: not known
};
static_assert(sizeof(PropertiesV12) == 128 && offsetof(PropertiesV12, max_p2p_bytes) == 104);
static_assert(offsetof(PropertiesV12, max_multi_request_size) == 120);
static_assert(offsetof(PropertiesV12, rail) == 124 && offsetof(PropertiesV12, plane) == 126);

}  // namespace nccl_abi
