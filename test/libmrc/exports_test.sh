#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# libmrc.so.1: what it exports and needs, the names under which programs look for it, and the files
# that they look for beside the device.
. "$(dirname "${BASH_SOURCE[0]}")/../verbs/verbs_lib.sh"
need_tool nm readelf
libmrc=$build/verbs_shim/libmrc.so.1
[[ -e $libmrc ]] || skip 'libmrc was not built'
headers=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../verbs_shim/libmrc" && pwd)

say 'all functions of the headers, what plugins for network cards import, and nothing else'
sed -E '/^ *(\/\*| \*)/d' "$headers/mrc.h" "$headers/mrc_ctl.h" | grep -oE '\bmrc_[a-z_]+\(' |
  tr -d '(' | sort -u >"$work/declared"
printf 'mlx5dv_%s\n' get_data_direct_sysfs_path is_supported reg_dmabuf_mr >>"$work/declared"
sort -u "$work/declared" -o "$work/declared"
nm -D --defined-only "$libmrc" | awk '{ print $3 }' | sort >"$work/exported"
missing=$(comm -23 "$work/declared" "$work/exported")
more=$(comm -13 "$work/declared" "$work/exported")
[[ -z $missing ]] || fail "missing: $missing"
[[ -z $more ]] || fail "exports besides: $more"
expect '41 functions, and three' [ "$(wc -l <"$work/exported")" -eq 44 ]

say 'its name, and what it needs'
dynamic=$(readelf -dW "$libmrc")
grep_all 'SONAME.*\[libmrc\.so\.1\]' <<<"$dynamic" || fail 'another soname'
needed=$(sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p' <<<"$dynamic" |
  grep -vE '^(libc|ld-linux-[a-z0-9-]+)\.so\.[0-9]+$' || true)
[[ -z $needed ]] || fail "needs $needed"
for name in libmrc.so lib_mrc.so libnv_mrc.so; do
  [[ $(readlink -f "$build/verbs_shim/$name") == "$(readlink -f "$libmrc")" ]] ||
    fail "$name is another library"
done

say 'a program that loads it by all names meets one state'
cat >"$work/names.py" <<'PY'
import ctypes

verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
context = verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0])
libraries = [ctypes.CDLL(name) for name in
             ("libmrc.so.1", "libmrc.so", "lib_mrc.so", "libnv_mrc.so")]
for library in libraries:
    library.mrc_create_context.restype = ctypes.c_void_p
    library.mrc_create_context.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    library.mrc_create_cq.restype = ctypes.c_void_p
    library.mrc_create_cq.argtypes = [ctypes.c_void_p, ctypes.c_int] + 2 * [ctypes.c_void_p] + [
        ctypes.c_int]
    library.mrc_destroy_cq.argtypes = [ctypes.c_void_p]
    library.mrc_destroy_context.argtypes = [ctypes.c_void_p]
mrc = libraries[0].mrc_create_context(context, None)
assert mrc
for maker in libraries:
    cq = maker.mrc_create_cq(mrc, 16, None, None, 0)
    assert cq
    for other in libraries:
        if other is not maker:
            assert other.mrc_destroy_cq(cq) == 0
            break
assert libraries[2].mrc_destroy_context(mrc) == 0
PY
"$mrcrun" --quiet python3 "$work/names.py" || fail 'names.py'

say 'of a card that is no OpenMRC device, its own library answers'
cat >"$work/mlx5.c" <<'C'
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
/* What stands for the library of a card. */
bool mlx5dv_is_supported(struct ibv_device *device) { return device->node_type == IBV_NODE_CA; }
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access, int mlx5_access) {
  (void)offset, (void)length, (void)iova, (void)fd, (void)access, (void)mlx5_access;
  return (struct ibv_mr *)pd;
}
int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *buffer, size_t length) {
  (void)context, (void)buffer;
  return (int)length;
}
C
cat >"$work/cards.c" <<'C'
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
bool mlx5dv_is_supported(struct ibv_device *device);
struct ibv_mr *mlx5dv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                    uint64_t iova, int fd, int access, int mlx5_access);
int mlx5dv_get_data_direct_sysfs_path(struct ibv_context *context, char *buffer, size_t length);

int main(int argc, char **argv) {
  struct ibv_device card = {.node_type = IBV_NODE_CA};
  struct ibv_context open_card = {.device = &card};
  struct ibv_pd pd = {.context = &open_card};
  char path[8];
  if (argc > 1) { /* not there yet */
    if (mlx5dv_is_supported(&card)) return 2;
    if (mlx5dv_reg_dmabuf_mr(&pd, 0, 1, 0, -1, 0, 0) != NULL || errno != EOPNOTSUPP) return 3;
    if (mlx5dv_get_data_direct_sysfs_path(&open_card, path, 8) != ENODEV) return 4;
    if (dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) == NULL) return 5;
  }
  if (!mlx5dv_is_supported(&card)) return 6;
  if (mlx5dv_reg_dmabuf_mr(&pd, 0, 1, 0, -1, 0, 0) != (struct ibv_mr *)&pd) return 7;
  if (mlx5dv_get_data_direct_sysfs_path(&open_card, path, 8) != 8) return 8;
  struct ibv_device *own = ibv_get_device_list(NULL)[0];
  struct ibv_context *context = ibv_open_device(own);
  struct ibv_pd *own_pd = ibv_alloc_pd(context);
  if (mlx5dv_is_supported(own)) return 9;
  if (mlx5dv_reg_dmabuf_mr(own_pd, 0, 1, 0, -1, 0, 0) != NULL || errno != EOPNOTSUPP) return 10;
  return mlx5dv_get_data_direct_sysfs_path(context, path, 8) == ENODEV ? 0 : 11;
}
C
if command -v cc >/dev/null; then
  mkdir "$work/card"
  cc -shared -fPIC -Wl,-soname,libmlx5.so.1 "$work/mlx5.c" -o "$work/card/libmlx5.so.1"
  verbs=("-L$build/verbs_shim" -libverbs)
  cc "$work/cards.c" -o "$work/linked" "-Wl,--no-as-needed,-rpath,$work/card" "${verbs[@]}" -lmrc \
    "$work/card/libmlx5.so.1"
  "$mrcrun" --quiet "$work/linked" || fail "linked in front of the card's library: $?"
  cc "$work/cards.c" -o "$work/loaded" "${verbs[@]}" -lmrc
  "$mrcrun" --quiet "$work/loaded" "$work/card/libmlx5.so.1" || fail "loaded by libibverbs: $?"
else
  say 'no C compiler: left out'
fi

say 'the files beside the device'
cat >"$work/files.c" <<'C'
#define _GNU_SOURCE
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  if (list == NULL || ibv_open_device(list[0]) == NULL) return 2;
  char path[PATH_MAX] = "";
  if (realpath("/sys/class/infiniband/mrc0/device", path) == NULL) return 3;
  if (access(path, R_OK) != 0 || strlen(path) < 8) return 4;
  puts(path);
  for (int index = 0; index < 4; ++index) {
    char name[128], type[32] = "";
    snprintf(name, sizeof name, "/sys/class/infiniband/mrc0/ports/1/gid_attrs/types/%d", index);
    if (access(name, R_OK) != 0) return 5;
    const int fd = open(name, O_RDONLY);
    if (fd < 0 || read(fd, type, sizeof type - 1) <= 0 || strcmp(type, "RoCE v2\n") != 0) return 6;
    close(fd);
    FILE *file = fopen(name, "r");
    if (file == NULL || fgets(type, sizeof type, file) == NULL) return 7;
    if (strncmp(type, "RoCE v2", 7) != 0) return 8;
    fclose(file);
  }
  if (open("/sys/class/infiniband/mrc0/ports/1/gid_attrs/types/4", O_RDONLY) >= 0) return 9;
  if (open("/sys/class/infiniband/mrc0/nothing", O_RDONLY) >= 0) return 10;
  /* A file may still be made. */
  const int made = open("made", O_RDWR | O_CREAT | O_EXCL, 0640);
  return made < 0 ? 11 : 0;
}
C
if command -v cc >/dev/null; then
  for options in '-O0' '-O2 -D_FORTIFY_SOURCE=2'; do
    # shellcheck disable=SC2086  # several options
    cc $options "$work/files.c" -o "$work/files" -L"$build/verbs_shim" -libverbs
    (cd "$work" && rm -f made && "$mrcrun" --quiet ./files) >"$work/files.out" 2>&1 ||
      fail "files.c ($options) ended with $?"
    expect 'the interface of plane 0' grep -q '^/sys/devices/virtual/net/lo$' "$work/files.out"
    expect 'its rights' [ "$(stat -c %a "$work/made")" = 640 ]
  done
else
  say 'no C compiler: left out'
fi
