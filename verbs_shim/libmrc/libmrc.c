// SPDX-License-Identifier: Apache-2.0
/* libmrc.so.1: the functions of mrc.h and mrc_ctl.h, which call those of the library whose device
 * the program has opened (provider.h). */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_shim/libmrc/provider.h"

#define EXPORTED __attribute__((visibility("default")))

/* What failed, in a line on standard error, the first time only. */
static void say_once(const char* line) {
  static _Atomic(bool) said;
  const char* level = getenv("MRC_LOG");
  if (level != NULL && strcmp(level, "off") == 0) return;
  if (said) return;
  said = true;
  const int kept = errno;
  (void)fprintf(stderr, "openmrc: libmrc: %s\n", line);
  errno = kept;
}

/* The provider of the contexts that the program has opened: a process has one. */
static _Atomic(const struct mrc_provider*) known;

/* That of a device; NULL if it is not one of OpenMRC. */
static const struct mrc_provider* own_provider(const struct ibv_device* device) {
  const struct mrc_provider* provider = NULL;
  if (device != NULL) memcpy(&provider, &device->_ops._dummy1, sizeof provider);
  /* A device of an rdma-core of old has a function there: its code is not the magic. */
  if (provider != NULL &&
      memcmp(provider->magic, MRC_PROVIDER_MAGIC, sizeof MRC_PROVIDER_MAGIC) == 0)
    return provider;
  return NULL;
}

/* The same, for a context, which makes it known. */
static const struct mrc_provider* provider_of(const struct ibv_context* context) {
  const struct mrc_provider* provider = context != NULL ? own_provider(context->device) : NULL;
  if (provider != NULL) {
    known = provider;
    return provider;
  }
  char line[256];
  (void)snprintf(line, sizeof line,
                 "device %.64s does not belong to this libmrc.so.1, so it has no MRC; run the "
                 "program with mrcrun, which gives it device mrc0",
                 context != NULL && context->device != NULL ? context->device->name : "(null)");
  say_once(line);
  return NULL;
}

static int invalid(void) {
  errno = EINVAL;
  return EINVAL;
}

/* ------------------------------------------------------- functions that work without a device */

EXPORTED void mrc_query_version(uint32_t* current, uint32_t* oldest, uint32_t* vendor_current,
                                uint32_t* vendor_oldest) {
  if (current != NULL) *current = MRC_API_CURRENT_VERSION;
  if (oldest != NULL) *oldest = MRC_API_LAST_SUPPORTED_VERSION;
  if (vendor_current != NULL) *vendor_current = MRC_VENDOR_API_CURRENT_VERSION;
  if (vendor_oldest != NULL) *vendor_oldest = MRC_VENDOR_API_LAST_SUPPORTED_VERSION;
}

EXPORTED void mrc_ctl_query_version(uint32_t* current, uint32_t* oldest, uint32_t* vendor_current,
                                    uint32_t* vendor_oldest) {
  if (current != NULL) *current = MRC_CTL_API_CURRENT_VERSION;
  if (oldest != NULL) *oldest = MRC_CTL_API_LAST_SUPPORTED_VERSION;
  if (vendor_current != NULL) *vendor_current = MRC_CTL_VENDOR_API_CURRENT_VERSION;
  if (vendor_oldest != NULL) *vendor_oldest = MRC_CTL_VENDOR_API_LAST_SUPPORTED_VERSION;
}

/* -------------------------------------------------------------- functions that take a context */

EXPORTED int mrc_query_device(struct ibv_context* context, struct mrc_device_attr* attr,
                              int* supported) {
  if (context == NULL || attr == NULL || supported == NULL) return invalid(), -1;
  const struct mrc_provider* provider = provider_of(context);
  memset(attr, 0, sizeof *attr);
  *supported = 0;
  return provider != NULL ? provider->mrc_query_device(context, attr, supported) : 0;
}

EXPORTED int mrc_query_device_ex(struct ibv_context* context, struct mrc_context* mrc,
                                 struct mrc_device_attr* attr, int* supported) {
  (void)mrc;
  return mrc_query_device(context, attr, supported);
}

EXPORTED int mrc_ctl_query_device(struct ibv_context* context, struct mrc_ctl_device_attr* attr) {
  if (context == NULL || attr == NULL) return invalid(), -1;
  const struct mrc_provider* provider = provider_of(context);
  memset(attr, 0, sizeof *attr);
  if (provider != NULL) return provider->mrc_ctl_query_device(context, attr);
  errno = ENOTSUP;
  return -1;
}

EXPORTED int mrc_ctl_query_device_ex(struct ibv_context* context, struct mrc_context* mrc,
                                     struct mrc_ctl_device_attr* attr, int* supported) {
  (void)mrc;
  if (supported == NULL) return invalid(), -1;
  *supported = 0;
  if (mrc_ctl_query_device(context, attr) == 0) {
    *supported = 1;
    return 0;
  }
  return errno == ENOTSUP ? 0 : -1;
}

EXPORTED struct mrc_context* mrc_create_context(struct ibv_context* context,
                                                struct mrc_context_attr* attr) {
  if (context == NULL) return invalid(), NULL;
  const struct mrc_provider* provider = provider_of(context);
  if (provider != NULL) return provider->mrc_create_context(context, attr);
  errno = ENOTSUP;
  return NULL;
}

/* -------------------------------------------------------------- functions that take an object */

EXPORTED void mrc_ack_cq_events(struct mrc_cq* cq, unsigned int nevents) {
  const struct mrc_provider* provider = known;
  if (provider != NULL) provider->mrc_ack_cq_events(cq, nevents);
}

EXPORTED void mrc_ack_async_event(struct mrc_async_event* event) {
  const struct mrc_provider* provider = known;
  if (provider != NULL) provider->mrc_ack_async_event(event);
}

/* Before a context was opened there are no objects, and whatever is passed is none. */
#define FORWARD(result, otherwise, name, parameters, arguments) \
  EXPORTED result name parameters {                             \
    const struct mrc_provider* provider = known;                \
    if (provider != NULL) return provider->name arguments;      \
    (void)invalid();                                            \
    return otherwise;                                           \
  }
MRC_PROVIDER_OBJECT_CALLS(FORWARD)

/* ------------------------------------------------ what plugins for network cards import besides */

/* Plugins that were written for NVIDIA's cards take these from the libraries that a vendor's libmrc
 * depends on, and ask them for each device. A device of OpenMRC is no such card. For others the
 * card's own library answers, if the process has it: behind this one, or loaded by libibverbs. */

static void* of_cards(const char* name) {
  void* function = dlsym(RTLD_NEXT, name);
  if (function != NULL) return function;
  void* library = dlopen("libmlx5.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == NULL) return NULL;
  function = dlsym(library, name);
  (void)dlclose(library); /* it stays loaded as long as the context that is asked about */
  return function;
}

/* The same for an object of a device; NULL if the device is OpenMRC's. A pointer to data becomes
 * one to a function by its bytes. */
#define OF_CARD(type, function, name, device) \
  type function = NULL;                       \
  if (own_provider(device) == NULL) {         \
    void* found = of_cards(name);             \
    memcpy(&function, &found, sizeof found);  \
  }

EXPORTED bool mlx5dv_is_supported(struct ibv_device* device) {
  typedef bool (*Asked)(struct ibv_device*);
  OF_CARD(Asked, ask, "mlx5dv_is_supported", device)
  return ask != NULL && ask(device);
}

EXPORTED struct ibv_mr* mlx5dv_reg_dmabuf_mr(struct ibv_pd* pd, uint64_t offset, size_t length,
                                             uint64_t iova, int fd, int access, int mlx5_access) {
  typedef struct ibv_mr* (*Asked)(struct ibv_pd*, uint64_t, size_t, uint64_t, int, int, int);
  OF_CARD(Asked, ask, "mlx5dv_reg_dmabuf_mr",
          pd != NULL && pd->context != NULL ? pd->context->device : NULL)
  if (ask != NULL) return ask(pd, offset, length, iova, fd, access, mlx5_access);
  errno = EOPNOTSUPP;
  return NULL;
}

EXPORTED int mlx5dv_get_data_direct_sysfs_path(struct ibv_context* context, char* buffer,
                                               size_t length) {
  typedef int (*Asked)(struct ibv_context*, char*, size_t);
  OF_CARD(Asked, ask, "mlx5dv_get_data_direct_sysfs_path", context != NULL ? context->device : NULL)
  if (ask != NULL) return ask(context, buffer, length);
  errno = ENODEV;
  return ENODEV;
}
