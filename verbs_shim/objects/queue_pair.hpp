// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "mrc/mrc.hpp"
#include "verbs_shim/abi.hpp"
#include "verbs_shim/objects/completion_queue.hpp"
#include "verbs_shim/objects/context.hpp"
#include "verbs_shim/objects/shared_receive_queue.hpp"
#include "verbs_shim/transport/request_list.hpp"
#include "verbs_shim/transport/transport.hpp"

namespace mrc_verbs {

/// A queue pair of any type, always in its extended form. The device's queue pair (transport.hpp)
/// knows the states RESET, INIT, RTR, RTS and ERR; SQD and SQE are made here, by what happens to
/// requests that are posted. Any thread.
class Qp : public ibv_qp_ex {
 public:
  /// Throws mrc::Error that names what is out of range. Writes to `wanted` what was granted.
  Qp(Context& owner, Pd& pd, ibv_qp_init_attr_ex& wanted)
      : Qp(owner, pd, wanted, Transport::make(wanted.qp_type, parts_of(owner, pd, wanted))) {}
  /// The queue pair of the device may linger on (linger.hpp).
  ~Qp();
  Qp(const Qp&) = delete;
  Qp& operator=(const Qp&) = delete;

  [[nodiscard]] static Qp& of(ibv_qp_ex* verbs) noexcept { return *static_cast<Qp*>(verbs); }
  [[nodiscard]] static Qp& of(ibv_qp* verbs) noexcept {
    return of(reinterpret_cast<ibv_qp_ex*>(verbs));
  }
  [[nodiscard]] Context& context() noexcept { return owner_; }
  [[nodiscard]] const Transport& transport() const noexcept { return *transport_; }

  // work_requests.cpp. 0, or an errno value; then `bad` is the first request not posted.
  int post_send(ibv_send_wr* request, ibv_send_wr** bad) noexcept;
  int post_receive(ibv_recv_wr* request, ibv_recv_wr** bad) noexcept;

  // modify.cpp.
  /// As ibv_modify_qp(). Throws mrc::Error that names what does not fit.
  void modify(const ibv_qp_attr& wanted, int mask);
  /// As ibv_query_qp().
  void query(ibv_qp_attr& attributes, ibv_qp_init_attr& initial);
  /// The device has moved it to ERR.
  void on_error(mrc::QpErrorCause cause);
  /// Before it is destroyed: nobody is given events of it any more. Sleeps until the program has
  /// acknowledged those that it was given.
  void withdraw();
  /// In SQD: reports once that all requests posted before are complete.
  void check_drained();

  /// Created for ibv_qp_to_qp_ex().
  bool may_be_extended = false;
  /// Requests under construction by ibv_wr_start() and its kin (extended_qp.cpp).
  RequestList requests;
  /// Asynchronous events taken by the program; each has to be acknowledged. Under `mutex`.
  std::uint32_t events_given = 0;

 protected:
  /// With a transport of its own, made of parts_of().
  Qp(Context& owner, Pd& pd, ibv_qp_init_attr_ex& wanted, std::unique_ptr<Transport> transport);
  [[nodiscard]] Transport& own_transport() noexcept { return *transport_; }
  /// What the device's queue pair is to be made of. Throws mrc::Error.
  [[nodiscard]] static Parts parts_of(Context& owner, const Pd& pd,
                                      const ibv_qp_init_attr_ex& wanted);
  /// A step to another state with attributes that are allowed there, which change nothing if it
  /// fails. Under modify_lock().
  void step(ibv_qp_state to, const ibv_qp_attr& wanted, int mask);
  /// Attributes that may change without step. Under modify_lock().
  void change(const ibv_qp_attr& wanted, int mask);
  [[nodiscard]] std::unique_lock<std::mutex> modify_lock() {
    return std::unique_lock(modify_mutex_);
  }
  /// The present one, also if the device has moved it to ERR. Under modify_lock().
  [[nodiscard]] ibv_qp_state state() noexcept;
  /// Ranges of the attributes that are given. Throws mrc::Error.
  void check_values(const ibv_qp_attr& wanted, int mask) const;

 private:
  /// What happens to requests for the send queue.
  enum class Gate : std::uint8_t {
    open,     ///< the device takes them
    held,     ///< SQD: kept until it is RTS again
    flushed,  ///< SQE: complete with wr_flush_err
  };

  int post_openly(ibv_send_wr*& next) noexcept;
  int post_slowly(ibv_send_wr*& next) noexcept;
  int after_refusal(const ibv_send_wr& request, mrc::Errc error) noexcept;
  void stop_sending() noexcept;
  int complete(const ibv_send_wr& request, mrc::WcStatus status) noexcept;
  [[nodiscard]] std::optional<mrc::Errc> hold(const ibv_send_wr& request);

  /// The state that programs see. Writers have state_mutex_.
  [[nodiscard]] ibv_qp_state shown() const noexcept {
    return std::atomic_ref(const_cast<ibv_qp_state&>(qp_base.state)).load();
  }
  void show(ibv_qp_state state) noexcept { std::atomic_ref(qp_base.state).store(state); }
  /// The end of a step: shows the state, or SQE if the send queue was stopped meanwhile.
  void settle(ibv_qp_state state) noexcept;
  void store(const ibv_qp_attr& wanted, int mask);
  void enter(ibv_qp_state next, const ibv_qp_attr& wanted, int mask);
  void to_init();
  void to_reset();
  void to_error();
  void leave_sqd();
  void flush_held();
  void forget_draining();
  [[nodiscard]] bool all_sent() const;

  Context& owner_;
  Pd& pd_;
  std::unique_ptr<Transport> transport_;
  Cq& send_cq_;
  Cq& receive_cq_;
  Srq* srq_ = nullptr;
  ibv_qp_cap capacity_{};
  bool signal_all_ = false;

  std::mutex modify_mutex_;
  ibv_qp_attr attributes_{};     ///< as given; under modify_mutex_
  bool notify_drained_ = false;  ///< under modify_mutex_
  std::mutex state_mutex_;       ///< taken last
  std::atomic<Gate> gate_{Gate::open};
  /// Requests that the device has taken since the last RESET, and what its counter of completed
  /// ones was then.
  std::atomic<std::uint64_t> posted_{0};
  std::uint64_t completed_before_ = 0;

  std::mutex held_mutex_;
  std::deque<std::unique_ptr<RequestList>> held_;
};

/// Sets the functions of ibv_qp_ex (extended_qp.cpp).
void set_request_operations(ibv_qp_ex& qp) noexcept;

}  // namespace mrc_verbs
