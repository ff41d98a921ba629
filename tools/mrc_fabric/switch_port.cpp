// SPDX-License-Identifier: Apache-2.0
#include "mrc_fabric/switch_port.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/vfs.h>

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "mrc/fabric/packet.hpp"

// The object file of port.bpf.c, as part of this program.
asm(R"(
  .pushsection .rodata
  .balign 8
  mrc_port_object: .incbin ")" MRC_PORT_OBJECT R"("
  mrc_port_object_end: .byte 0
  .popsection
)");
extern "C" const char mrc_port_object[], mrc_port_object_end[];

namespace mrc::tools {
namespace {

static_assert(PORT_TRIM_KEEP == wire::kTrimKeep);

using Object = std::unique_ptr<bpf_object, void (*)(bpf_object*)>;

/// libbpf's messages, for use in errors rather than on the terminal.
std::string& log_text() {
  static std::string text;
  return text;
}

int keep_log(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_DEBUG) return 0;
  char line[512];
  const int length = vsnprintf(line, sizeof line, format, arguments);
  log_text() += line;
  return length;
}

/// The programs to and from the wire.
constexpr const char* kWirePrograms[] = {"to_wire", "from_wire"};

/// Loads the port's program of this name, and the wire's. Null if the kernel rejects them.
Object load(const char* program, std::size_t ports) {
  libbpf_set_print(keep_log);
  bpf_object_open_opts options{};
  options.sz = sizeof options;
  options.object_name = "mrc_fabric";
  Object object(bpf_object__open_mem(
                    mrc_port_object,
                    static_cast<std::size_t>(mrc_port_object_end - mrc_port_object), &options),
                bpf_object__close);
  if (!object) return object;
  bpf_program* p = nullptr;
  bpf_object__for_each_program(p, object.get()) {
    const std::string_view name = bpf_program__name(p);
    bpf_program__set_autoload(
        p, name == program || name == kWirePrograms[0] || name == kWirePrograms[1]);
  }
  bpf_map* map = nullptr;
  bpf_object__for_each_map(map, object.get())
      bpf_map__set_max_entries(map, SwitchPorts::class_of(ports));
  if (bpf_object__load(object.get()) != 0) object.reset();
  return object;
}

void mount_pins(const std::string& folder) {
  std::filesystem::create_directories(folder);
  struct statfs there;
  if (statfs(folder.c_str(), &there) == 0 && there.f_type == BPF_FS_MAGIC) return;
  if (mount("mrc_fabric", folder.c_str(), "bpf", 0, "mode=0700") != 0)
    throw_errno("can't mount a BPF file system on " + folder);
}

void pin(int fd, const std::string& file) {
  std::filesystem::remove(file);  // left by an interrupted start
  if (bpf_obj_pin(fd, file.c_str()) != 0) throw_errno("can't pin " + file);
}

UniqueFd open_pin(const std::string& file) {
  return UniqueFd(bpf_obj_get(file.c_str()));
}

template <class Value>
Value look_up(const UniqueFd& map, std::size_t port) {
  Value value{};
  const unsigned key = SwitchPorts::class_of(port);
  if (bpf_map_lookup_elem(map.fd(), &key, &value) != 0)
    throw_errno("can't read a table of the switch ports");
  return value;
}

template <class Value>
void update(const UniqueFd& map, std::size_t port, const Value& value) {
  const unsigned key = SwitchPorts::class_of(port);
  if (bpf_map_update_elem(map.fd(), &key, &value, BPF_ANY) != 0)
    throw_errno("can't write a table of the switch ports");
}

}  // namespace

std::optional<SwitchPorts> SwitchPorts::open(const std::string& folder) {
  SwitchPorts ports;
  ports.folder_ = folder;
  ports.configs_ = open_pin(folder + "/configs");
  ports.states_ = open_pin(folder + "/states");
  if (!ports.states_.open()) return std::nullopt;
  return ports;
}

SwitchPorts SwitchPorts::make(const std::string& folder, std::size_t ports) {
  if (ports > kMaxClass)
    throw Error(Errc::no_resources,
                fmt::format("the fabric has {} ports, conditions are possible with up to {}", ports,
                            kMaxClass));
  // The first one measures queues, which needs Linux 6.2; the other computes them.
  const char* program = "port";
  Object object = load(program, ports);
  if (!object) object = load(program = "port_reckoned", ports);
  if (!object)
    throw Error(Errc::unsupported,
                "the kernel does not take the switch port's program (Linux 6.1 with "
                "CONFIG_BPF_SYSCALL and CONFIG_DEBUG_INFO_BTF does):\n" +
                    log_text());
  mount_pins(folder);
  bpf_object* const o = object.get();
  pin(bpf_program__fd(bpf_object__find_program_by_name(o, program)), folder + "/port");
  for (const std::string name : kWirePrograms)
    pin(bpf_program__fd(bpf_object__find_program_by_name(o, name.c_str())), folder + "/" + name);
  pin(bpf_object__find_map_fd_by_name(o, "port_configs"), folder + "/configs");
  pin(bpf_object__find_map_fd_by_name(o, "port_states"), folder + "/states");
  return open(folder).value();
}

port_config SwitchPorts::config(std::size_t port) const {
  return look_up<port_config>(configs_, port);
}
void SwitchPorts::set_config(std::size_t port, const port_config& config) const {
  update(configs_, port, config);
}
port_state SwitchPorts::state(std::size_t port) const {
  return look_up<port_state>(states_, port);
}
void SwitchPorts::clear_state(std::size_t port) const {
  update(states_, port, port_state{});
}

}  // namespace mrc::tools
