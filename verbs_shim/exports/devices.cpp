// SPDX-License-Identifier: Apache-2.0
// The list of devices, contexts, and what they say about themselves.
#include <cstdlib>
#include <cstring>

#include "verbs_shim/address.hpp"
#include "verbs_shim/errors.hpp"
#include "verbs_shim/objects/attributes.hpp"
#include "verbs_shim/objects/context.hpp"
#include "verbs_shim/transport/operations.hpp"

using namespace mrc_verbs;

extern "C" {

ibv_device** ibv_get_device_list(int* count) {
  constexpr int kDevices = 1;
  auto** list = static_cast<ibv_device**>(std::calloc(kDevices + 1, sizeof(ibv_device*)));
  if (count != nullptr) *count = list != nullptr ? kDevices : 0;
  if (list != nullptr) list[0] = &listed_device();
  return list;
}

void ibv_free_device_list(ibv_device** list) {
  std::free(list);
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

int ibv_get_device_index(ibv_device*) {
  return 0;
}

/// 0 if it can't be told.
__be64 ibv_get_device_guid(ibv_device*) {
  const mrc::Uncancelled here;
  try {
    return Host::guid_of(Host::first_plane());
  } catch (const std::exception& error) {
    warn(std::string("device mrc0: ") + error.what());
    return 0;
  }
}

ibv_context* ibv_open_device(ibv_device*) {
  const mrc::Uncancelled here;
  try {
    return &(new Context(Host::open()))->context;
  } catch (const std::exception& error) {
    warn(std::string("device mrc0 can't be opened: ") + error.what());
    errno = errno_of(error);
    return nullptr;
  }
}

int ibv_close_device(ibv_context* context) {
  const mrc::Uncancelled here;
  delete &Context::of(context);
  return 0;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  return status_of("ibv_query_device", [&] {
    *out = device_attributes(Context::of(context).host());
    return 0;
  });
}

/// For callers without the extended form. Theirs is shorter: it ends before port_cap_flags2.
int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* out) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(out),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

// --------------------------------------------------------------------------------- GIDs, P_Keys

int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  const Host& host = Context::of(context).host();
  const auto wanted = static_cast<std::uint32_t>(index);
  const bool known = has_port(host.device(), port);
  if (!known || wanted >= kGidIndices) {
    (void)refuse(EINVAL, "ibv_query_gid", known ? no_gid(wanted) : no_port(host.device(), port));
    return -1;
  }
  *gid = host.gid();
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t size) {
  const Host& host = Context::of(context).host();
  if (flags != 0) return refuse(EINVAL, "ibv_query_gid_ex", "there are no flags");
  if (!has_port(host.device(), port))
    return refuse(EINVAL, "ibv_query_gid_ex", no_port(host.device(), port));
  if (index >= kGidIndices) return refuse(EINVAL, "ibv_query_gid_ex", no_gid(index));
  ibv_gid_entry known{};
  known.gid_index = index;
  known.gid = host.gid();
  known.port_num = port;
  known.gid_type = IBV_GID_TYPE_ROCE_V2;
  std::memset(entry, 0, size);
  std::memcpy(entry, &known, size < sizeof known ? size : sizeof known);
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t room,
                             std::uint32_t flags, std::size_t size) {
  if (room == 0) return -EINVAL;
  const int error = _ibv_query_gid_ex(context, 1, 0, entries, flags, size);
  return error != 0 ? -error : 1;
}

int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  const mrc::Device& device = Context::of(context).device();
  const bool known = has_port(device, port);
  if (!known || index != 0) {
    (void)refuse(EINVAL, "ibv_query_pkey",
                 known ? "there is one P_Key, of index 0" : no_port(device, port));
    return -1;
  }
  *pkey = 0xFFFF;
  return 0;
}

int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  return has_port(Context::of(context).device(), port) && pkey == 0xFFFF ? 0 : -1;
}

// ------------------------------------------------------------------------------- another process

ibv_context* ibv_import_device(int) {
  (void)decline(EOPNOTSUPP, "ibv_import_device", "objects can't be shared with other processes");
  return nullptr;
}

}  // extern "C"
