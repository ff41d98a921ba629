// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dlfcn.h>

#include <string>

#include "mrc/core/error.hpp"
#include "mrc/plane/verbs/verbs_library.hpp"

namespace mrc::inline v0_1::port {

namespace detail {

/// Finds the functions of one library.
class VerbsSymbols {
 public:
  VerbsSymbols() : handle_(::dlopen(kName, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr)
      throw Error(Errc::unsupported,
                  "verbs planes need " + std::string(kName) + ": " + ::dlerror() +
                      "; install it (Debian: libibverbs1 and ibverbs-providers)");
    if (::dlsym(handle_, "mrc_verbs_shim") != nullptr)
      throw Error(Errc::unsupported,
                  "verbs planes need RDMA devices, and the " + std::string(kName) +
                      " of this program is the verbs shim (mrcrun), whose device is itself made of "
                      "planes; run the program without it, or set planes or fabric instead");
  }
  template <class Function>
  void find(Function& function, const char* name) const {
    // dlsym() gives the default version of a symbol, which is the one that the header declares.
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
    if (function == nullptr)
      throw Error(Errc::unsupported, std::string(kName) + " has no " + name +
                                         ": verbs planes need rdma-core 32 or later");
  }

 private:
  static constexpr const char* kName = "libibverbs.so.1";
  void* handle_;  // never closed
};

[[nodiscard]] inline VerbsLibrary find_verbs() {
  const VerbsSymbols symbols;
  VerbsLibrary v;
  symbols.find(v.get_device_list, "ibv_get_device_list");
  symbols.find(v.free_device_list, "ibv_free_device_list");
  symbols.find(v.get_device_name, "ibv_get_device_name");
  symbols.find(v.open_device, "ibv_open_device");
  symbols.find(v.close_device, "ibv_close_device");
  symbols.find(v.query_device, "ibv_query_device");
  symbols.find(v.query_port, "ibv_query_port");
  symbols.find(v.query_gid_ex, "_ibv_query_gid_ex");
  symbols.find(v.get_async_event, "ibv_get_async_event");
  symbols.find(v.ack_async_event, "ibv_ack_async_event");
  symbols.find(v.alloc_pd, "ibv_alloc_pd");
  symbols.find(v.dealloc_pd, "ibv_dealloc_pd");
  symbols.find(v.reg_mr_iova2, "ibv_reg_mr_iova2");
  symbols.find(v.dereg_mr, "ibv_dereg_mr");
  symbols.find(v.create_comp_channel, "ibv_create_comp_channel");
  symbols.find(v.destroy_comp_channel, "ibv_destroy_comp_channel");
  symbols.find(v.create_cq, "ibv_create_cq");
  symbols.find(v.destroy_cq, "ibv_destroy_cq");
  symbols.find(v.get_cq_event, "ibv_get_cq_event");
  symbols.find(v.ack_cq_events, "ibv_ack_cq_events");
  symbols.find(v.create_srq, "ibv_create_srq");
  symbols.find(v.destroy_srq, "ibv_destroy_srq");
  symbols.find(v.create_qp, "ibv_create_qp");
  symbols.find(v.modify_qp, "ibv_modify_qp");
  symbols.find(v.destroy_qp, "ibv_destroy_qp");
  symbols.find(v.create_ah, "ibv_create_ah");
  symbols.find(v.destroy_ah, "ibv_destroy_ah");
  return v;
}

}  // namespace detail

const VerbsLibrary& VerbsLibrary::get() {
  static const VerbsLibrary library = detail::find_verbs();
  return library;
}

}  // namespace mrc::inline v0_1::port
