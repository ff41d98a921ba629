// SPDX-License-Identifier: Apache-2.0
#include "mrc_ctl/serve/http.hpp"

#include <fmt/format.h>
#include <httplib.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "mrc/core/error.hpp"

namespace mrc::ctl_tool {
namespace {

constexpr std::size_t kThreads = 16;
constexpr std::size_t kLongestHead = 12 << 10, kLongestBody = 4096, kLongestPath = 256;
constexpr Duration kStep = std::chrono::seconds(5);  ///< for a request, and parts of an answer
constexpr Duration kLongestAnswer = std::chrono::seconds(30);

/// A connection of which so many bytes are read, until so late. The library limits neither lines
/// nor headers, and waits for each byte anew.
class Connection : public httplib::Stream {
 public:
  Connection(int socket, std::size_t most, Duration patience)
      : socket_(socket), left_(most), read_by_(monotonic_now() + patience) {}

  ssize_t read(char* to, std::size_t size) override {
    if (next_ == end_) {
      const std::size_t most = std::min(left_, buffer_.size());
      if (most == 0 || !ready(POLLIN, read_by_)) return -1;
      const ssize_t n = ::recv(socket_, buffer_.data(), most, 0);
      if (n <= 0) return n;
      next_ = 0;
      end_ = static_cast<std::size_t>(n);
      left_ -= end_;
    }
    const std::size_t n = std::min(size, end_ - next_);
    std::copy_n(buffer_.data() + next_, n, to);
    next_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t write(const char* from, std::size_t size) override {
    if (!is_writable()) return -1;
    return ::send(socket_, from, size, MSG_NOSIGNAL);
  }
  [[nodiscard]] bool is_readable() const override {
    return next_ != end_ || (left_ > 0 && ready(POLLIN, read_by_));
  }
  /// So many more bytes may be read.
  void allow(std::size_t more) { left_ += more; }
  [[nodiscard]] bool is_writable() const override {
    return ready(POLLOUT, std::min(monotonic_now() + kStep, write_by_));
  }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    get_remote_ip_and_port(ip, port);
  }
  [[nodiscard]] socket_t socket() const override { return socket_; }

 private:
  [[nodiscard]] bool ready(short what, Time by) const {
    pollfd one{socket_, what, 0};
    int n = -1;
    do {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(by - monotonic_now());
      if (left.count() <= 0) return false;
      n = ::poll(&one, 1, static_cast<int>(left.count()));
    } while (n < 0 && errno == EINTR);
    return n == 1;
  }

  const int socket_;
  std::size_t left_;
  const Time read_by_, write_by_ = monotonic_now() + kLongestAnswer;
  std::array<char, 4096> buffer_;
  std::size_t next_ = 0, end_ = 0;  ///< of the buffer: what was not taken yet
};

class Server : public httplib::Server {
  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, kLongestHead + kLongestBody, kStep);
    bool closed = false;
    const bool answered = process_request(connection, true, closed, nullptr);
    ::shutdown(socket, SHUT_RDWR);
    ::close(socket);
    return answered;
  }
};

class Client : public httplib::ClientImpl {
 public:
  Client(const HostPort& at, Time end) : ClientImpl(at.host, at.port), end_(end) {}

  /// The answer's head is there, and so much may follow.
  void allow(std::size_t more) { connection_->allow(more); }

 private:
  bool process_socket(const Socket& socket,
                      std::function<bool(httplib::Stream&)> exchange) override {
    Connection connection(socket.sock, kLongestHead, end_ - monotonic_now());
    connection_ = &connection;
    return exchange(connection);
  }

  const Time end_;
  Connection* connection_ = nullptr;
};

HttpRequest request_of(const httplib::Request& r) {
  return {r.method,
          r.path,
          r.get_header_value_count("Host") == 1 ? r.get_header_value("Host") : std::string(),
          r.get_header_value("Content-Type"),
          r.get_header_value("X-OpenMRC-Token"),
          r.get_param_value("since"),
          r.body};
}

void fill(httplib::Response& out, HttpResponse&& answer) {
  out.status = answer.status;
  for (const auto& [name, value] : answer.headers) out.set_header(name, value);
  if (answer.body.empty()) return out.set_content("", answer.type);
  // Not copied, and not compressed, which takes as much memory again.
  const auto whole = std::make_shared<const HttpResponse>(std::move(answer));
  out.set_content_provider(
      whole->body.size(), whole->type,
      [whole](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
        return sink.write(whole->body.data() + offset, length);
      });
}

/// Not SO_REUSEPORT, the library's default: two servers would share the port.
void set_options(socket_t socket) {
  const int yes = 1;
  (void)::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
}

/// Threads that answer requests: as many of kThreads as there can be. The library's own pool ends
/// the program if one of them can't be started.
class Workers : public httplib::TaskQueue {
 public:
  Workers() {
    threads_.reserve(kThreads);
    try {
      while (threads_.size() < kThreads) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;
    }
  }
  ~Workers() override { shutdown(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  void enqueue(std::function<void()> job) override {
    {
      const std::lock_guard lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }
  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return !jobs_.empty() || ends_; });
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

[[noreturn]] void throw_no_listening(const HostPort& at, int error) {
  std::string why = "can't listen at " + to_string(at);
  if (error == EADDRINUSE)
    why +=
        ": another program does, perhaps another `mrc_ctl serve`; end it, or take another "
        "port with --listen";
  else if (error == EACCES)
    why += ": ports below 1024 are root's; take another one with --listen";
  else
    why += ": it must be an address of this host; --listen 127.0.0.1:9794 always is";
  throw Error(error == 0 ? std::make_error_code(std::errc::address_not_available)
                         : std::error_code(error, std::generic_category()),
              why);
}

}  // namespace

struct HttpServer::Implementation {
  Server server;
  std::unique_ptr<Workers> workers;  ///< the server's once it runs
  int port = 0;
  std::atomic<bool> ended{false};
  std::thread thread;
};

HttpServer::HttpServer(const HostPort& at, Answer answer)
    : implementation_(std::make_unique<Implementation>()) {
  using httplib::Request, httplib::Response;
  Server& server = implementation_->server;
  server.new_task_queue = [implementation = implementation_.get()] {
    return implementation->workers.release();
  };
  server.set_payload_max_length(kLongestBody);
  server.set_socket_options(set_options);
  const auto handle = [answer](const Request& request, Response& response) {
    fill(response, answer(request_of(request)));
  };
  server.set_pre_routing_handler([handle](const Request& request, Response& response) {
    // The library unpacks 203 bytes to 500 MB.
    if (request.path.size() > kLongestPath || request.has_header("Transfer-Encoding") ||
        request.has_header("Content-Encoding")) {
      fill(response, {400, "text/plain; charset=utf-8", "not such a request\n", {}});
      return httplib::Server::HandlerResponse::Handled;
    }
    if (request.method != "GET" && request.method != "HEAD")
      return httplib::Server::HandlerResponse::Unhandled;  // its body is to be read
    handle(request, response);
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Post(".*", handle).Put(".*", handle).Patch(".*", handle).Delete(".*", handle);
  server.Options(".*", handle);
  server.set_exception_handler([](const Request&, Response& response, std::exception_ptr) {
    fill(response, {500, "text/plain; charset=utf-8", "failed\n", {}});
  });
  errno = 0;
  if (at.port == 0)
    implementation_->port = server.bind_to_any_port(at.host);
  else
    implementation_->port = server.bind_to_port(at.host, at.port) ? at.port : -1;
  if (implementation_->port <= 0) throw_no_listening(at, errno);
  // Its own thread first: the others are as many as there can be.
  std::promise<bool> listens;
  try {
    implementation_->thread = std::thread(
        [implementation = implementation_.get(), may_listen = listens.get_future()]() mutable {
          if (may_listen.get()) (void)implementation->server.listen_after_bind();
          implementation->ended = true;
        });
    implementation_->workers = std::make_unique<Workers>();
    listens.set_value(true);
  } catch (const std::system_error&) {
    if (implementation_->thread.joinable()) {
      listens.set_value(false);
      implementation_->thread.join();
    }
    throw Error(Errc::no_resources,
                "no threads for the server: this user has too many processes and threads (ulimit "
                "-u)");
  }
  // stop() has no effect before.
  while (!server.is_running() && !implementation_->ended)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

HttpServer::~HttpServer() {
  implementation_->server.stop();
  implementation_->thread.join();
}

std::uint16_t HttpServer::port() const {
  return static_cast<std::uint16_t>(implementation_->port);
}

Fetched http_get(const HostPort& at, const std::string& path, Duration patience, std::size_t most) {
  const Time end = monotonic_now() + patience;
  Client client(at, end);
  client.set_connection_timeout(std::chrono::duration_cast<std::chrono::microseconds>(patience));
  client.set_decompress(false);
  Fetched fetched;
  fetched.body.reserve(most);  // a string that grows takes three times its size
  bool too_long = false;
  const auto take = [&](const char* data, std::size_t size) {
    too_long = fetched.body.size() + size > most;
    if (!too_long) fetched.body.append(data, size);
    return !too_long;
  };
  const auto begin = [&](const httplib::Response&) {
    client.allow(most);
    return true;
  };
  const httplib::Result result = client.Get(path, {{"Host", to_string(at)}}, begin, take);
  if (too_long)
    fetched.problem = fmt::format("its answer is longer than {} KiB", most >> 10);
  else if (!result)
    fetched.problem = result.error() == httplib::Error::Connection ||
                              result.error() == httplib::Error::ConnectionTimeout
                          ? "no `mrc_ctl serve` can be reached there"
                      : monotonic_now() < end ? kNoServe
                                              : "it does not answer in time";
  else if (result->status == 421)
    fetched.problem = fmt::format(
        "it does not go by the name {}: start it there with --allow-host {}", at.host, at.host);
  else if (result->status != 200)
    fetched.problem = fmt::format("it answers with HTTP status {}", result->status);
  if (!fetched.problem.empty()) fetched.body = {};
  return fetched;
}

}  // namespace mrc::ctl_tool
