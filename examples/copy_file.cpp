// SPDX-License-Identifier: Apache-2.0
// Copies a file from one process to another. The receiver maps the output file and registers it, so
// that the sender writes directly into it; both sides compare their SHA-256.
//
//   copy_file --port 7000 --output COPY          the receiver
//   copy_file HOST --port 7000 FILE              the sender
#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <string>

#include "mrc/device.hpp"
#include "mrc/exchange.hpp"

namespace {

std::atomic<bool> interrupted{false};  // by Ctrl-C

constexpr std::uint64_t kChunk = std::uint64_t{1} << 20;  // bytes per write
constexpr std::uint32_t kDepth = 32;                      // writes in flight
constexpr auto kPoll = std::chrono::milliseconds(100);

[[noreturn]] void fail_errno(const std::string& what) {
  throw mrc::Error(std::error_code(errno, std::generic_category()), what);
}

// A file mapped into memory. An empty one has no mapping.
class MappedFile {
 public:
  explicit MappedFile(const std::string& name) : fd_(::open(name.c_str(), O_RDONLY)) {
    struct stat info {};
    if (fd_ < 0 || ::fstat(fd_, &info) != 0) fail_errno("can't open file '" + name + "'");
    map(static_cast<std::uint64_t>(info.st_size), PROT_READ, name);
  }
  MappedFile(const std::string& name, std::uint64_t size)
      : fd_(::open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0644)) {
    // Reserve the space now: a full disk would otherwise cause SIGBUS later.
    if (fd_ < 0) fail_errno("can't create file '" + name + "'");
    if (size > 0 && (errno = ::posix_fallocate(fd_, 0, static_cast<off_t>(size))) != 0)
      fail_errno("no room for file '" + name + "'");
    map(size, PROT_READ | PROT_WRITE, name);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (size_ > 0) ::munmap(data_, size_);
    ::close(fd_);
  }
  [[nodiscard]] std::uint8_t* data() const { return static_cast<std::uint8_t*>(data_); }
  [[nodiscard]] std::uint64_t size() const { return size_; }

 private:
  void map(std::uint64_t size, int rights, const std::string& name) {
    size_ = size;
    if (size > 0) data_ = ::mmap(nullptr, size, rights, MAP_SHARED, fd_, 0);
    if (data_ == MAP_FAILED) fail_errno("can't map file '" + name + "'");
  }
  int fd_;
  void* data_ = nullptr;
  std::uint64_t size_ = 0;
};

std::string sha256(const MappedFile& file) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned length = 0;
  if (EVP_Digest(file.data(), file.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 failed");
  std::string text;
  for (unsigned i = 0; i < length; ++i) {
    constexpr const char* kHex = "0123456789abcdef";
    text += kHex[digest[i] >> 4];
    text += kHex[digest[i] & 15];
  }
  return text;
}

// Prints a line that overwrites itself, a few times a second.
class Progress {
 public:
  explicit Progress(std::uint64_t size) : size_(size) {}
  void show(std::uint64_t done, bool last = false) {
    const auto now = mrc::monotonic_now();
    if (!last && now < next_) return;
    next_ = now + kPoll;
    const double seconds = std::chrono::duration<double>(now - start_).count() + 1e-9;
    const double all = size_ == 0 ? 1 : static_cast<double>(size_);
    std::printf("\r%6.1f %%  %.1f of %.1f MB  %.3f Gb/s%s",
                size_ == 0 ? 100 : 100 * static_cast<double>(done) / all,
                static_cast<double>(done) / 1e6, static_cast<double>(size_) / 1e6,
                static_cast<double>(done) * 8e-9 / seconds, last ? "\n" : "");
    std::fflush(stdout);
  }

 private:
  std::uint64_t size_;
  mrc::Time start_ = mrc::monotonic_now();
  mrc::Time next_{};
};

// Polls completions; throws on an error completion.
std::size_t take(mrc::CompletionQueue& cq, const mrc::QueuePair& qp,
                 std::array<mrc::Completion, 16>& done) {
  const std::size_t n = cq.wait(done, kPoll);
  for (std::size_t i = 0; i < n; ++i) {
    if (done[i].status != mrc::WcStatus::success)
      throw std::runtime_error("transfer failed: " + qp.error_text());
  }
  if (interrupted) throw std::runtime_error("interrupted");
  return n;
}

void send_file(const std::string& host, std::uint16_t port, const std::string& name) {
  MappedFile file(name);
  mrc::Device device;
  auto channel = mrc::TcpChannel::connect(host, port, std::chrono::seconds(10), &interrupted);
  channel.send_text(std::to_string(file.size()));

  auto cq = device.create_cq(kDepth + 1);
  mrc::QpOptions options;
  options.send_cq = &cq;
  options.capacity.send = kDepth + 1;
  auto qp = device.create_qp(options);
  qp.connect(mrc::exchange(channel, qp.local_info()));
  // The receiver sends the address and key of its mapping: "address key".
  const std::string where = channel.receive_text();
  char* rest = nullptr;
  mrc::RemoteAddress remote;
  remote.address = std::strtoull(where.c_str(), &rest, 10);
  remote.rkey = static_cast<std::uint32_t>(std::strtoul(rest, nullptr, 10));

  mrc::MemoryRegion region;
  if (file.size() > 0) region = device.register_memory(file.data(), file.size(), mrc::Access::none);
  Progress progress(file.size());
  std::array<mrc::Completion, 16> done;
  std::uint64_t posted = 0, completed = 0;
  const std::uint64_t chunks = (file.size() + kChunk - 1) / kChunk;
  // The last request is empty and carries an immediate: it is delivered after all earlier ones.
  while (completed < chunks + 1) {
    while (posted < chunks + 1 && posted - completed < kDepth) {
      const std::uint64_t at = posted * kChunk;
      mrc::Sge sge;
      mrc::SendRequest write;
      if (posted < chunks) {
        sge = {file.data() + at, static_cast<std::uint32_t>(std::min(kChunk, file.size() - at)),
               region.lkey()};
        write.sges = {&sge, 1};
        write.remote = {remote.address + at, remote.rkey};
      }
      if (posted == chunks) write.opcode = mrc::SendOpcode::write_imm;
      if (qp.post_send(write) != mrc::Errc::ok)
        throw std::runtime_error("transfer failed: " + qp.error_text());
      ++posted;
    }
    completed += take(cq, qp, done);
    progress.show(std::min(completed * kChunk, file.size()));
  }
  progress.show(file.size(), true);

  const std::string mine = sha256(file);
  channel.send_text(mine);
  if (channel.receive_text(std::chrono::minutes(10)) != "same")
    throw std::runtime_error("the copy differs from the file");
  std::printf("sha256 %s on both sides\n", mine.c_str());
}

void receive_file(std::uint16_t port, const std::string& name) {
  mrc::Device device;
  mrc::TcpListener listener(port, "", &interrupted);
  auto channel = listener.accept();
  const std::uint64_t size = std::stoull(channel.receive_text());
  const std::string part = name + ".part";  // until it is verified
  MappedFile file(part, size);

  mrc::MemoryRegion region;
  if (size > 0)
    region = device.register_memory(
        file.data(), size,
        mrc::Access::local_write | mrc::Access::remote_write | mrc::Access::relaxed_ordering);
  auto cq = device.create_cq(16);
  mrc::QpOptions options;
  options.send_cq = &cq;
  options.capacity.receive = 1;
  auto qp = device.create_qp(options);
  qp.connect(mrc::exchange(channel, qp.local_info()));
  if (qp.post_receive(0) != mrc::Errc::ok) throw std::runtime_error("can't post a receive");
  const mrc::RemoteAddress remote = region.remote();
  channel.send_text(std::to_string(remote.address) + " " + std::to_string(remote.rkey));

  Progress progress(size);
  std::array<mrc::Completion, 16> done;
  while (take(cq, qp, done) == 0) {
    progress.show(qp.stats().rx_bytes);
    if (channel.peer_closed()) throw std::runtime_error("the sender is gone");
  }
  progress.show(size, true);

  const std::string theirs = channel.receive_text(std::chrono::minutes(10));
  const std::string mine = sha256(file);
  channel.send_text(mine == theirs ? "same" : "different");
  if (mine != theirs) throw std::runtime_error("the copy differs from the file: left as " + part);
  if (std::rename(part.c_str(), name.c_str()) != 0) fail_errno("can't rename '" + part + "'");
  std::printf("sha256 %s on both sides\n", mine.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> host_and_file;
  std::string output;
  std::uint16_t port = 7000;
  CLI::App app("Copies a file to another process over MRC. Planes: see MRC_PLANES.", "copy_file");
  app.add_option("host_and_file", host_and_file, "Sender: the receiver's host, and the file")
      ->expected(0, 2);
  app.add_option("--output", output, "Receiver: where the copy goes");
  app.add_option("--port", port, "TCP port of the receiver")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (output.empty() ? host_and_file.size() != 2 : !host_and_file.empty()) {
    std::fprintf(stderr, "copy_file: give either HOST and FILE, or --output FILE\n");
    return 2;
  }
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { interrupted = true; });
  try {
    if (output.empty()) {
      send_file(host_and_file[0], port, host_and_file[1]);
    } else {
      receive_file(port, output);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "\ncopy_file: %s\n", interrupted ? "interrupted" : error.what());
    return interrupted ? 130 : 1;
  }
}
