// SPDX-License-Identifier: Apache-2.0
#include "nccl_plugin/plugin.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include "nccl_plugin/result.hpp"
#include "nccl_plugin/settings/timeouts.hpp"
#include "nccl_plugin/stats_file.hpp"

namespace mrc_nccl {

namespace {

std::atomic<Plugin*> this_process{nullptr};

// The parent's plugin stays in a child's memory, untouched: threads that are not there any more may
// have been changing it.
void start_afresh() noexcept {
  this_process.store(nullptr);
}

// Attempts that NCCL has asked nothing about for so long were given up.
constexpr mrc::Duration kGivenUp = std::chrono::seconds(60);

/// While all of the program is still there: what static objects destroy comes later.
void leave_process() {
  if (Plugin* plugin = this_process.load(); plugin != nullptr) plugin->at_exit();
}

}  // namespace

Plugin& Plugin::get() noexcept {
  static const int watching = ::pthread_atfork(nullptr, nullptr, &start_afresh);
  (void)watching;
  Plugin* plugin = this_process.load(std::memory_order_acquire);
  if (plugin != nullptr) return *plugin;
  auto* made = new Plugin;  // for the life of the process: other threads may use it until its end
  if (this_process.compare_exchange_strong(plugin, made)) return *made;
  delete made;
  return *plugin;
}

// ----------------------------------------------------------------- initialisation and devices

ContextHandle* Plugin::init(int version, const nccl_abi::CommConfig& config,
                            nccl_abi::Logger logger, nccl_abi::ProfilerCallback profiler) {
  const std::lock_guard initialising(initialising_);
  log_.set(logger);
  const bool finalised = version > kLastUnfinalised;
  if (!finalised) forget_unfinalised();
  if (users_ == 0) {
    try {
      open_devices(version, config);
    } catch (...) {
      close_devices();
      throw;
    }
  }
  auto made = std::make_shared<Context>(log_, profiler, settings_.qp_hints);
  const std::lock_guard lock(mutex_);
  ++users_;
  if (!finalised) common_ = made;
  return new ContextHandle{std::move(made)};
}

/// NCCL initialises a plugin of an old version once for each time that it loads it, and never says
/// that it has unloaded it: a second time, without connections, is a fresh start.
void Plugin::forget_unfinalised() noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (users_ != 1 || common_ == nullptr || common_.use_count() > 1) return;
    users_ = 0;
  }
  close_devices();
}

void Plugin::open_devices(int version, const nccl_abi::CommConfig& config) {
  Settings settings = read_settings(Environment(), read_interfaces());
  require_writable_stats(settings.stats_file);
  if (std::getenv("MRC_LOG") == nullptr) settings.base.log = mrc::LogLevel::info;
  // Where nobody asked for a size of packets, that of the interfaces is nothing to warn of.
  const bool any_mtu = std::getenv("MRC_MTU") == nullptr;
  settings.base.log_sink = [this, any_mtu](mrc::LogLevel level, std::string_view line) {
    const bool expected = any_mtu && line.starts_with("mtu lowered");
    level == mrc::LogLevel::warn && !expected ? log_.warn(line) : log_.info(line);
  };
  if (!settings.traffic_class_set) {
    const std::string warning = apply_traffic_class(settings.base, config.traffic_class,
                                                    "the communicator's traffic class");
    if (!warning.empty()) settings.warnings.push_back(warning);
  }
  for (const std::string& line : settings.warnings) log_.warn(line);
  for (const std::string& line : settings.info) log_.init_info(line);

  static const int at_the_end = std::atexit(&leave_process);
  (void)at_the_end;
  auto worker = std::make_shared<Worker>(log_);
  worker->start();
  {
    const std::lock_guard lock(mutex_);
    settings_ = settings;
    worker_ = worker;
    report_ = std::make_shared<Report>(settings.stats_file, rank_of_process(Environment()));
  }
  std::string banner = "OpenMRC " OPENMRC_VERSION ", interface v" + std::to_string(version);
  for (std::size_t i = 0; i < settings.nics.size(); ++i) {
    const NicPlan& plan = settings.nics[i];
    auto opened = open_nic(plan, device_config(settings, plan), {static_cast<int>(i)});
    banner += "; " + opened->text();
    const std::lock_guard lock(mutex_);
    nics_.push_back(std::move(opened));
    physical_ = nics_.size();
  }
  log_.init_info(banner + "; planes: " + settings.planes_by + "; " + settings.patience);
}

std::shared_ptr<Nic> Plugin::open_nic(const NicPlan& plan, const mrc::Config& config,
                                      std::vector<int> members) {
  const int number = members.front();
  auto opened = std::make_shared<Nic>(settings_, plan, config, number, std::move(members));
  worker_->watch(opened);
  report_->add(opened);
  return opened;
}

void Plugin::finalize(ContextHandle* handle) {
  if (handle == nullptr) return;
  const std::lock_guard initialising(initialising_);
  delete handle;
  {
    const std::lock_guard lock(mutex_);
    if (users_ == 0 || --users_ > 0) return;
  }
  close_devices();
}

void Plugin::close_devices() noexcept {
  std::vector<std::shared_ptr<Nic>> nics;
  std::unordered_map<std::uint32_t, std::shared_ptr<Connector>> attempts;
  std::shared_ptr<Worker> worker;
  std::shared_ptr<Report> report;
  {
    const std::lock_guard lock(mutex_);
    nics.swap(nics_);
    attempts.swap(attempts_);
    worker.swap(worker_);
    report.swap(report_);
    common_.reset();
    physical_ = 0;
  }
  attempts.clear();
  if (report != nullptr) report->write(log_);
  report.reset();
  if (worker != nullptr) worker->finish();
}

void Plugin::at_exit() noexcept {
  std::shared_ptr<Worker> worker;
  std::shared_ptr<Report> report;
  {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || worker_ == nullptr) return;
    worker = worker_;
    report = report_;
  }
  // Peers of connections that were not closed may still ask whether their last message has come, or
  // lack a copied one.
  const mrc::Duration quiet = mrc::monotonic_now() - Connection::last_busy();
  if (quiet < Worker::kLinger) std::this_thread::sleep_for(Worker::kLinger - quiet);
  worker->finish();
  report->write(Log());  // NCCL's log may be closed by now
}

int Plugin::devices() {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(nics_.size());
}

std::shared_ptr<Nic> Plugin::nic(int device) {
  const std::lock_guard lock(mutex_);
  if (device < 0 || static_cast<std::size_t>(device) >= nics_.size())
    throw Failure(Result::invalid_argument, "there is no net device " + std::to_string(device) +
                                                ", only " + std::to_string(nics_.size()));
  return nics_[static_cast<std::size_t>(device)];
}

NicFacts Plugin::facts(int device) {
  return nic(device)->facts();
}

int Plugin::make_virtual(const std::vector<int>& members) {
  const std::lock_guard initialising(initialising_);
  if (members.empty()) throw Failure(Result::invalid_argument, "a virtual device of no devices");
  NicPlan plan = nic(members.front())->plan();
  if (members.size() == 1) return members.front();
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (std::find(members.begin(), members.begin() + static_cast<std::ptrdiff_t>(i), members[i]) !=
        members.begin() + static_cast<std::ptrdiff_t>(i))
      throw Failure(Result::invalid_argument, "a virtual device with the same device twice");
    const NicPlan& other = nic(members[i])->plan();
    plan.name += "+" + other.name;
    plan.planes.insert(plan.planes.end(), other.planes.begin(), other.planes.end());
    plan.interfaces.insert(plan.interfaces.end(), other.interfaces.begin(), other.interfaces.end());
    plan.plane_count += other.plane_count;
    plan.speed_mbps += other.speed_mbps;
    plan.speed_known = plan.speed_known && other.speed_known;
  }
  {
    const std::lock_guard lock(mutex_);
    for (const int member : members)
      if (static_cast<std::size_t>(member) >= physical_)
        throw Failure(Result::invalid_argument, "a virtual device can't be made of virtual ones");
    for (std::size_t i = physical_; i < nics_.size(); ++i)
      if (nics_[i]->facts().members == members) return static_cast<int>(i);
  }
  auto opened = open_nic(plan, device_config(settings_, plan), members);
  log_.init_info("virtual device " + opened->text());
  const std::lock_guard lock(mutex_);
  nics_.push_back(std::move(opened));
  return static_cast<int>(nics_.size()) - 1;
}

// ---------------------------------------------------------------------------------- connections

std::shared_ptr<Context> Plugin::context(ContextHandle* handle) {
  if (handle != nullptr) return handle->context;
  const std::lock_guard lock(mutex_);
  if (common_ == nullptr) throw Failure(Result::internal_error, "the plugin is not initialised");
  return common_;
}

Listener* Plugin::listen(ContextHandle* handle, int device, void* bytes) {
  auto* listener = new Listener(nic(device), context(handle));
  listener->handle().write(bytes);
  return listener;
}

Sender* Plugin::connect(ContextHandle* handle, int device, void* bytes) {
  const auto connector = attempt(handle, device, bytes);
  const std::uint32_t number = Handle::read(bytes)->attempt;
  try {
    auto sender = connector->proceed();
    if (sender != nullptr) forget(number);
    return sender.release();
  } catch (...) {
    forget(number);
    throw;
  }
}

/// The attempt that this handle has begun, or a new one.
std::shared_ptr<Connector> Plugin::attempt(ContextHandle* handle, int device, void* bytes) {
  auto read = Handle::read(bytes);
  if (!read) throw Failure(Result::invalid_argument, Handle::complaint(bytes));
  {
    const std::lock_guard lock(mutex_);
    const auto found = attempts_.find(read->attempt);
    if (read->attempt != 0 && found != attempts_.end() &&
        found->second->handle().secret == read->secret)
      return found->second;
  }
  auto made = std::make_shared<Connector>(nic(device), context(handle), *read);
  const std::lock_guard lock(mutex_);
  const mrc::Time now = mrc::monotonic_now();
  std::erase_if(attempts_,
                [now](const auto& entry) { return now - entry.second->asked() > kGivenUp; });
  if (++attempts_made_ == 0) ++attempts_made_;
  read->attempt = attempts_made_;
  read->write(bytes);
  attempts_[attempts_made_] = made;
  return made;
}

void Plugin::forget(std::uint32_t attempt) noexcept {
  const std::lock_guard lock(mutex_);
  attempts_.erase(attempt);
}

void Plugin::close(Connection* connection) noexcept {
  std::shared_ptr<Worker> worker;
  std::shared_ptr<Report> report;
  {
    const std::lock_guard lock(mutex_);
    worker = worker_;
    report = report_;
  }
  try {
    if (report != nullptr) report->add(*connection);
  } catch (const std::exception& error) {
    log_.warn(std::string("no statistics of a connection: ") + error.what());
  }
  try {
    auto endpoint = connection->close();
    if (endpoint != nullptr && worker != nullptr) worker->linger(std::move(endpoint));
  } catch (const std::exception& error) {
    log_.warn(std::string("closing a connection: ") + error.what());
  }
  delete connection;
}

}  // namespace mrc_nccl
