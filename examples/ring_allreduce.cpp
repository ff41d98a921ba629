// SPDX-License-Identifier: Apache-2.0
// Ring all-reduce: N processes on this machine add up their vectors of floats. Each writes only to
// its right neighbour. After N-1 steps of reduce-scatter every process has the full sum of one
// chunk; N-1 steps of all-gather distribute the sums. Each step is one write with immediate, whose
// completion notifies the neighbour.
//
//   ring_allreduce --ranks 4 --count 1M --iters 10
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <vector>

#include "mrc/device.hpp"

namespace {

constexpr auto kPatience = std::chrono::seconds(30);

struct Job {
  std::uint32_t ranks = 4;
  std::uint64_t count = 1 << 20;  // floats per process
  std::uint32_t iterations = 10;
};

// What neighbours exchange besides ConnectionInfo.
struct Memory {
  mrc::RemoteAddress scratch, data;
};

void give(int socket, mrc::Bytes bytes) {
  if (::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0)
    throw std::runtime_error("a neighbour is gone");
}

std::vector<std::uint8_t> get(int socket) {
  std::vector<std::uint8_t> bytes(64 << 10);
  const auto n = ::recv(socket, bytes.data(), bytes.size(), 0);
  if (n <= 0) throw std::runtime_error("a neighbour is gone");
  bytes.resize(static_cast<std::size_t>(n));
  return bytes;
}

// One process of the ring.
class Rank {
 public:
  Rank(const Job& job, std::uint32_t rank, int left, int right)
      : job_(job),
        rank_(rank),
        chunk_((job.count + job.ranks - 1) / job.ranks),
        data_(chunk_ * job.ranks),
        scratch_(chunk_ * (job.ranks - 1)) {
    const auto access = mrc::Access::local_write | mrc::Access::remote_write;
    data_region_ = device_.register_memory(std::span(data_), access);
    scratch_region_ = device_.register_memory(std::span(scratch_), access);
    const std::uint32_t steps = 2 * (job.ranks - 1);
    cq_ = device_.create_cq(4 * steps);
    mrc::QpOptions options;
    options.send_cq = &cq_;
    options.capacity.send = options.capacity.receive = steps;
    left_ = device_.create_qp(options);
    right_ = device_.create_qp(options);
    connect(left, right, steps);
  }

  // One all-reduce; returns the time that it took. Throws on failure or a wrong sum.
  mrc::Duration all_reduce() {
    for (std::uint64_t i = 0; i < data_.size(); ++i) data_[i] = term(i) + static_cast<float>(rank_);
    const auto start = mrc::monotonic_now();
    const std::uint32_t n = job_.ranks;
    for (std::uint32_t step = 0; step + 1 < n; ++step) {
      write(step, (rank_ + n - step) % n, right_memory_.scratch, step * chunk_);
      await(step);
      float* const sum = &data_[(rank_ + n - step - 1) % n * chunk_];
      for (std::uint64_t i = 0; i < chunk_; ++i) sum[i] += scratch_[step * chunk_ + i];
    }
    for (std::uint32_t step = 0; step + 1 < n; ++step) {
      const std::uint32_t chunk = (rank_ + 1 + n - step) % n;
      write(n - 1 + step, chunk, right_memory_.data, chunk * chunk_);
      await(n - 1 + step);
    }
    while (sent_ < posted_) poll();
    const auto time = mrc::monotonic_now() - start;
    check();
    return time;
  }

 private:
  // Small integers, whose sums are exact in floats in any order.
  static float term(std::uint64_t i) { return static_cast<float>(i % 1000); }

  void connect(int left, int right, std::uint32_t steps) {
    // Any channel can carry the exchange; here it is a pair of local sockets per neighbour.
    give(left, mrc::encode(left_.local_info()));
    give(right, mrc::encode(right_.local_info()));
    left_.connect(mrc::decode_connection_info(get(left)));
    right_.connect(mrc::decode_connection_info(get(right)));
    for (std::uint32_t i = 0; i < steps; ++i) post_receive();
    const Memory mine{scratch_region_.remote(), data_region_.remote()};
    give(left, {reinterpret_cast<const std::uint8_t*>(&mine), sizeof mine});
    const auto theirs = get(right);
    if (theirs.size() != sizeof right_memory_) throw std::runtime_error("bad neighbour");
    std::memcpy(&right_memory_, theirs.data(), sizeof right_memory_);
  }

  void post_receive() {
    if (left_.post_receive(0) != mrc::Errc::ok) throw std::runtime_error("can't post a receive");
  }

  void write(std::uint32_t step, std::uint32_t chunk, mrc::RemoteAddress to, std::uint64_t at) {
    const mrc::Sge sge{&data_[chunk * chunk_], static_cast<std::uint32_t>(chunk_ * sizeof(float)),
                       data_region_.lkey()};
    mrc::SendRequest request;
    request.sges = {&sge, 1};
    request.remote = {to.address + at * sizeof(float), to.rkey};
    request.opcode = mrc::SendOpcode::write_imm;
    request.immediate = step;
    if (right_.post_send(request) != mrc::Errc::ok)
      throw std::runtime_error("can't write to the right neighbour: " + right_.error_text());
    ++posted_;
  }

  // Waits for the left neighbour's message of this step. Messages arrive in order.
  void await(std::uint32_t step) {
    const std::uint64_t wanted = ++awaited_;
    while (received_ < wanted) poll();
    if (last_step_ != step && received_ == wanted) throw std::runtime_error("step out of order");
  }

  void poll() {
    std::array<mrc::Completion, 16> done;
    const std::size_t n = cq_.wait(done, kPatience);
    if (n == 0) throw std::runtime_error("nothing happens any more");
    for (std::size_t i = 0; i < n; ++i) {
      if (done[i].status != mrc::WcStatus::success)
        throw std::runtime_error("failed: " + left_.error_text() + right_.error_text());
      if (done[i].opcode != mrc::WcOpcode::recv_write_imm) {
        ++sent_;
        continue;
      }
      ++received_;
      last_step_ = done[i].immediate;
      post_receive();
    }
  }

  void check() const {
    const auto n = static_cast<float>(job_.ranks);
    for (std::uint64_t i = 0; i < data_.size(); ++i) {
      const float expected = n * term(i) + n * (n - 1) / 2;
      if (data_[i] != expected)
        throw std::runtime_error("sum " + std::to_string(i) + " is " + std::to_string(data_[i]) +
                                 ", not " + std::to_string(expected));
    }
  }

  Job job_;
  std::uint32_t rank_;
  std::uint64_t chunk_;  // floats
  // The peers write here, so all this must outlive the memory regions below.
  std::vector<float> data_, scratch_;
  mrc::Device device_;
  mrc::MemoryRegion data_region_, scratch_region_;
  mrc::CompletionQueue cq_;
  mrc::QueuePair left_, right_;
  Memory right_memory_;
  std::uint64_t posted_ = 0, sent_ = 0, awaited_ = 0, received_ = 0;
  std::uint32_t last_step_ = 0;
};

int run_rank(const Job& job, std::uint32_t rank, int left, int right) {
  try {
    Rank self(job, rank, left, right);
    mrc::Duration best = mrc::Duration::max();
    for (std::uint32_t i = 0; i < job.iterations; ++i) best = std::min(best, self.all_reduce());
    // No process exits while a neighbour may still wait for an acknowledgement.
    give(left, std::array<std::uint8_t, 1>{});
    give(right, std::array<std::uint8_t, 1>{});
    (void)get(left);
    (void)get(right);
    if (rank == 0) {
      const double bytes = static_cast<double>(job.count * sizeof(float));
      const double gbps = bytes * 8 / static_cast<double>(best.count());
      std::printf(
          "%u ranks, %.1f MB each: all sums right; best of %u: %.3f ms, %.2f Gb/s "
          "(%.2f Gb/s on each link)\n",
          job.ranks, bytes / 1e6, job.iterations, static_cast<double>(best.count()) / 1e6, gbps,
          gbps * 2 * (job.ranks - 1) / job.ranks);
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
    return 1;
  }
}

// Waits for all children; when one fails, ends the others, which would wait for it forever.
int wait_for(const std::vector<pid_t>& children) {
  int result = 0;
  for (std::size_t left = children.size(); left > 0; --left) {
    int status = 0;
    while (::wait(&status) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (result == 0) {
      for (const pid_t child : children) ::kill(child, SIGTERM);
    }
    result = 1;
  }
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Job job;
  CLI::App app("Adds up float vectors of N processes over MRC. Planes: see MRC_PLANES.",
               "ring_allreduce");
  app.add_option("--ranks", job.ranks, "Processes")
      ->check(CLI::Range(2, 64))
      ->capture_default_str();
  app.add_option("--count", job.count, "Floats per process; K and M allowed")
      ->transform(CLI::AsNumberWithUnit(
          std::map<std::string, std::uint64_t>{{"K", 1 << 10}, {"M", 1 << 20}}))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 28))
      ->capture_default_str();
  app.add_option("--iters", job.iterations, "Times")->check(CLI::Range(1, 1000000));
  CLI11_PARSE(app, argc, argv);

  // links[i] joins rank i (end 0) and its right neighbour (end 1).
  std::vector<std::array<int, 2>> links(job.ranks);
  for (auto& link : links) {
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link.data()) != 0) {
      std::perror("ring_allreduce: socketpair");
      return 1;
    }
  }
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < job.ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // children end with the parent
      const int left = links[(rank + job.ranks - 1) % job.ranks][1], right = links[rank][0];
      for (const auto& link :
           links) {  // close all other ends, so that a neighbour's exit closes its socket
        for (const int end : link) {
          if (end != left && end != right) ::close(end);
        }
      }
      std::exit(run_rank(job, rank, left, right));
    }
    if (child < 0) {
      std::perror("ring_allreduce: fork");
      for (const pid_t started : children) ::kill(started, SIGTERM);
      return 1;
    }
    children.push_back(child);
  }
  for (const auto& link : links) {
    for (const int end : link) ::close(end);
  }
  return wait_for(children);
}
