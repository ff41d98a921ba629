// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "nccl_plugin/host/net.hpp"

/// The adapters from the tables of all versions to Net.
namespace nccl_host {

/// Net over a table of version `Version`.
template <int Version, class Table>
class TableNet final : public Net {
 public:
  explicit TableNet(Table* table) : table_(table) {}

  [[nodiscard]] int version() const override { return Version; }
  [[nodiscard]] const char* name() const override { return table_->name; }

  Result init(const CommunicatorInit& init, void** context) override {
    nccl_abi::CommConfig config{init.traffic_class};
    if constexpr (Version >= 11) {
      return table_->init(context, init.comm_id, &config, init.logger, init.profiler);
    } else {
      *context = nullptr;
      if (communicators_ == 0) {
        Result result{};
        if constexpr (Version == 10) {
          result = table_->init(init.logger, init.profiler);
        } else {
          result = table_->init(init.logger);
        }
        if (result != Result::success) return result;
      }
      ++communicators_;
      *context = new nccl_abi::CommConfig(config);
      return Result::success;
    }
  }

  Result finalize(void* context) override {
    if constexpr (Version >= 11) {
      return table_->finalize(context);
    } else {
      if (context != nullptr) --communicators_;
      delete static_cast<nccl_abi::CommConfig*>(context);
      return Result::success;
    }
  }

  Result set_attributes(void* context, nccl_abi::Attributes* attributes) override {
    if constexpr (Version >= 11) {
      if (table_->set_net_attributes) return table_->set_net_attributes(context, attributes);
    }
    return Result::success;
  }

  Result devices(int* count) override { return table_->devices(count); }

  Result properties(int device, Properties* properties) override {
    typename Table::Properties from{};
    const Result result = table_->get_properties(device, &from);
    if (result == Result::success) *properties = common(from, device);
    return result;
  }

  Result make_virtual_device(const std::vector<int>& members, int* device) override {
    if constexpr (Version >= 9) {
      using Virtual = decltype(typename Table::Properties{}.virtual_device);
      Virtual from;
      if (table_->make_virtual_device && members.size() <= std::size(from.devices)) {
        from.count = static_cast<int>(members.size());
        std::copy(members.begin(), members.end(), from.devices);
        return table_->make_virtual_device(device, &from);
      }
    }
    return Result::internal_error;
  }

  Result listen(void* context, int device, void* handle, void** listen_comm) override {
    if constexpr (Version >= 11) {
      return table_->listen(context, device, handle, listen_comm);
    } else {
      return table_->listen(device, handle, listen_comm);
    }
  }

  Result connect(void* context, int device, void* handle, void** send_comm) override {
    nccl_abi::DeviceHandle* device_handle = nullptr;
    if constexpr (Version >= 11) {
      return table_->connect(context, device, handle, send_comm, &device_handle);
    } else if constexpr (Version == 10) {
      auto* config = static_cast<nccl_abi::CommConfig*>(context);
      return table_->connect(device, config, handle, send_comm, &device_handle);
    } else if constexpr (Version >= 7) {
      return table_->connect(device, handle, send_comm, &device_handle);
    } else {
      return table_->connect(device, handle, send_comm);
    }
  }

  Result accept(void* listen_comm, void** receive_comm) override {
    nccl_abi::DeviceHandle* device_handle = nullptr;
    if constexpr (Version >= 7) {
      return table_->accept(listen_comm, receive_comm, &device_handle);
    } else {
      return table_->accept(listen_comm, receive_comm);
    }
  }

  Result reg(void* comm, void* data, std::size_t size, int type, void** mr) override {
    if constexpr (Version >= 8) {
      return table_->reg_mr(comm, data, size, type, mr);
    } else {
      if (size >= std::size_t{1} << 31) return Result::internal_error;
      return table_->reg_mr(comm, data, static_cast<int>(size), type, mr);
    }
  }
  Result reg_dma_buf(void* comm, void* data, std::size_t size, int type, std::uint64_t offset,
                     int fd, void** mr) override {
    if (!table_->reg_mr_dma_buf) return Result::invalid_usage;
    return table_->reg_mr_dma_buf(comm, data, size, type, offset, fd, mr);
  }
  Result dereg(void* comm, void* mr) override { return table_->dereg_mr(comm, mr); }

  Result isend(void* send_comm, void* data, std::size_t size, int tag, void* mr, void* parent,
               void** request) override {
    if constexpr (Version >= 10) {
      return table_->isend(send_comm, data, size, tag, mr, parent, request);
    } else if constexpr (Version == 9) {
      return table_->isend(send_comm, data, size, tag, mr, request);
    } else {
      if (size > kMostBytesOfOldApi) return Result::internal_error;
      return table_->isend(send_comm, data, static_cast<int>(size), tag, mr, request);
    }
  }

  Result irecv(void* receive_comm, int n, void** data, std::size_t* sizes, int* tags, void** mrs,
               void** parents, void** request) override {
    if constexpr (Version >= 10) {
      return table_->irecv(receive_comm, n, data, sizes, tags, mrs, parents, request);
    } else if constexpr (Version == 9) {
      return table_->irecv(receive_comm, n, data, sizes, tags, mrs, request);
    } else {
      if (*request == nccl_abi::optional_receive_completion()) *request = nullptr;
      std::vector<int> counts(sizes, sizes + std::max(n, 0));
      if (std::any_of(sizes, sizes + counts.size(),
                      [](std::size_t size) { return size > kMostBytesOfOldApi; })) {
        return Result::internal_error;
      }
      return table_->irecv(receive_comm, n, data, counts.data(), tags, mrs, request);
    }
  }

  Result iflush(void* receive_comm, int n, void** data, int* sizes, void** mrs,
                void** request) override {
    return table_->iflush(receive_comm, n, data, sizes, mrs, request);
  }
  Result test(void* request, int* done, int* sizes) override {
    return table_->test(request, done, sizes);
  }

  Result close_send(void* send_comm) override { return table_->close_send(send_comm); }
  Result close_receive(void* receive_comm) override { return table_->close_receive(receive_comm); }
  Result close_listen(void* listen_comm) override { return table_->close_listen(listen_comm); }

 private:
  static Properties common(const typename Table::Properties& from, int device) {
    Properties to;
    if (from.name) to.name = from.name;
    if (from.pci_path) to.pci_path = from.pci_path;
    to.guid = from.guid;
    to.pointer_support = from.pointer_support;
    to.speed = from.speed;
    to.port = from.port;
    to.latency = from.latency;
    to.max_comms = from.max_comms;
    to.max_receives = from.max_receives;
    to.members = {device};
    if constexpr (Version >= 7) {
      to.device_type = from.device_type;
      to.device_version = from.device_version;
    }
    if constexpr (Version >= 8) to.registration_is_global = from.registration_is_global;
    if constexpr (Version >= 9) {
      to.force_flush = from.force_flush;
      const auto& members = from.virtual_device;
      const int most = static_cast<int>(std::size(members.devices));
      to.members.assign(members.devices, members.devices + std::clamp(members.count, 0, most));
      to.max_p2p_bytes = from.max_p2p_bytes;
      to.max_collective_bytes = from.max_collective_bytes;
    }
    if constexpr (Version >= 11) to.max_multi_request_size = from.max_multi_request_size;
    if constexpr (Version >= 12) {
      to.rail = from.rail;
      to.plane = from.plane;
    }
    return to;
  }

  Table* table_;
  int communicators_ = 0;  // up to version 10, whose plugins are initialised for the first only
};

}  // namespace nccl_host
