# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2154
# The virtual machine's kernel and initramfs, made once from two Debian packages that are downloaded
# and unpacked, never installed. Sourced by rxe_vm, which has set $here, $cache and $kernel, and has
# die() and say(). Sets $vmlinux and $initrd.

# In the initramfs with everything they depend on, and loaded in this order.
boot_modules=(virtio_mmio virtio_pci 9pnet_virtio 9p overlay)
rdma_modules=(crc32_generic crc32-pclmul ib_uverbs ib_umad rdma_cm rdma_ucm rdma_rxe veth bridge)
# To lose, delay, mark and match packets: tc (netem, clsact, u32, bpf) and nft.
fault_modules=(crc32c_generic libcrc32c dummy ifb sch_netem sch_ingress sch_tbf cls_bpf cls_matchall
  cls_u32 act_gact act_bpf act_mirred nf_tables nft_numgen nft_limit nfnetlink)

apt_get() {
  timeout 300 env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" >>"$cache/apt.log" 2>&1
}

newest_kernel() {  # the package that linux-image-amd64 stands for, if apt knows
  apt-cache depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | sed -n 1p
}

download() {  # download PACKAGE: its .deb, in the cache; the package lists are fetched when needed
  local part=$cache/download.$$
  mkdir -p "$part"
  if ! (cd "$part" && apt_get download "$1"); then
    apt_get update || true
    (cd "$part" && apt_get download "$1") ||
      { rm -rf "$part" && die "cannot download the package $1, see $cache/apt.log"; }
  fi
  mv "$part"/*.deb "$cache/$1.deb"
  rmdir "$part"
}

find_kernel() {  # sets $kernel: what was asked for, what is there, or what Debian has now
  local file
  if [[ -z $kernel ]]; then
    file=$(find "$cache" -maxdepth 1 -name 'linux-image-[0-9]*.deb' | sort -V | tail -n 1)
    kernel=$(basename "$file" .deb)
  fi
  if [[ -z $kernel ]]; then kernel=$(newest_kernel); fi
  if [[ -z $kernel ]]; then
    apt_get update || true
    kernel=$(newest_kernel)
  fi
  [[ -n $kernel ]] || die 'apt knows no package linux-image-amd64 (apt-get update?)'
}

unpack_kernel() {  # unpack_kernel BOOT_FILE TO: the uncompressed kernel, which QEMU enters directly
  local offset
  for offset in $(LC_ALL=C grep -aboP '\xFD7zXZ\x00' "$1" | cut -d: -f1); do
    tail -c +$((offset + 1)) "$1" | xz -dc 2>/dev/null >"$2" || true
    if [[ $(head -c 4 "$2" | tail -c 3) == ELF ]]; then return; fi
  done
  cp "$1" "$2"  # packed in another way: slower to boot
}

# modules_of FOLDER NAME...: the modules' files and those that they need, in the order to load them.
modules_of() {
  local folder=$1 name path line
  shift
  for name; do
    path=$(sed -n "s#^\([^:]*/${name//[-_]/[-_]}\.ko\(\.[xzst]*\)\{0,1\}\):.*#\1#p" \
      "$folder/modules.dep" | sed -n 1p)
    if [[ -z $path ]]; then
      say "no module $name in $kernel: built in, or not there"
      continue
    fi
    line=$(grep -m1 "^$path:" "$folder/modules.dep")
    # busybox writes all dependencies, the nearest first.
    tr ' ' '\n' <<<"${line#*:}" | sed '/^$/d' | tac
    echo "$path"
  done | awk '!seen[$0]++'
}

add_module() {  # add_module FILE TO
  case $1 in
    *.xz) xz -dc "$1" ;;
    *.zst) zstd -qdc "$1" ;;
    *) cat "$1" ;;
  esac >"$2" || die "cannot unpack ${1##*/}"
}

make_initramfs() {  # make_initramfs MODULES_FOLDER BUSYBOX TO
  local folder=$1 busybox=$2 root=$work/root path
  mkdir -p "$root"/{bin,dev,proc,sys,lower,over,new,modules}
  cp "$busybox" "$root/bin/busybox"
  cp "$here/guest_init" "$root/init"
  chmod 755 "$root/init"
  modules_of "$folder" "${boot_modules[@]}" >"$work/boot"
  modules_of "$folder" "${boot_modules[@]}" "${rdma_modules[@]}" "${fault_modules[@]}" >"$work/all"
  while IFS= read -r path; do
    add_module "$folder/$path" "$root/modules/$(sed 's#.*/##; s#\.ko.*##' <<<"$path").ko"
  done <"$work/all"
  sed 's#.*/##; s#\.ko.*#.ko#' "$work/boot" >"$root/modules/boot"
  grep -vxFf "$work/boot" "$work/all" | sed 's#.*/##; s#\.ko.*#.ko#' >"$root/modules/others"
  (cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$3"
}

prepare_image() {
  mkdir -p "$cache" || die "cannot make the folder $cache"
  exec 8>"$cache/lock"
  flock -w 600 8 || die "another program has held $cache/lock for 10 minutes"
  find_kernel
  local version=${kernel#linux-image-} recipe tree modules busybox
  recipe=$(cat "$here/image.sh" "$here/guest_init" | cksum | cut -d' ' -f1)
  vmlinux=$cache/$version.vmlinux initrd=$cache/$version.$recipe.cpio.gz
  if [[ ! -s $vmlinux || ! -s $initrd ]]; then
    say "making kernel and initramfs of $kernel in $cache"
    [[ -s $cache/$kernel.deb ]] || download "$kernel"
    [[ -s $cache/busybox-static.deb ]] || download busybox-static
    tree=$work/tree
    mkdir "$tree"
    dpkg-deb -x "$cache/$kernel.deb" "$tree" || die "$cache/$kernel.deb is damaged: remove it"
    dpkg-deb -x "$cache/busybox-static.deb" "$tree" || die "$cache/busybox-static.deb: remove it"
    busybox=$tree/bin/busybox modules=$tree/lib/modules/$version
    if [[ ! -x $busybox ]]; then busybox=$tree/usr/bin/busybox; fi
    if [[ ! -d $modules ]]; then modules=$tree/usr/lib/modules/$version; fi
    "$busybox" depmod -b "${modules%/lib/modules/*}" "$version" || die 'depmod failed'
    unpack_kernel "$tree/boot/vmlinuz-$version" "$work/vmlinux"
    make_initramfs "$modules" "$busybox" "$work/initrd"
    rm -f "$cache/$version".*.cpio.gz  # of other recipes
    cp "$work/vmlinux" "$vmlinux.part" && mv "$vmlinux.part" "$vmlinux"
    cp "$work/initrd" "$initrd.part" && mv "$initrd.part" "$initrd"
    rm -rf "$tree" "$work/root"
  fi
  exec 8>&-
}
