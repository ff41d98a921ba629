// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <system_error>
#include <utility>

#include "mrc/core/linkage.hpp"

namespace mrc::inline v0_1 {

/// Result of a call. Data-path calls return it (they never throw); set-up calls throw `mrc::Error`,
/// which carries one.
enum class [[nodiscard]] Errc : std::uint8_t{
    ok = 0,
    invalid_argument,  ///< a value outside its documented range
    invalid_state,     ///< the QP's state does not allow the call
    queue_full,        ///< send, receive or completion queue has no room
    too_many_sges,     ///< more scatter-gather entries than the QP was created for
    too_long,          ///< message over 2^31 bytes, or inline data over the QP's limit
    invalid_lkey,      ///< local key unknown, or the entry lies outside its memory region
    access_denied,     ///< the memory region lacks the required access right
    wrong_pd,          ///< objects of different protection domains
    in_use,            ///< another object still refers to it
    not_found,         ///< no such object
    no_resources,      ///< a limit set at creation is reached
    unreachable,       ///< the peer shares no plane with this device
    incompatible,      ///< the peer's parameters can't be met
    bad_message,       ///< a connection blob that is malformed or of another version
    timed_out,         ///< no answer from the peer in time
    unsupported,       ///< not available in this build or on this machine
    forked,            ///< this process is a fork of the one that opened the device
};

/// Short English text for an error, without a full stop; static storage.
[[nodiscard]] constexpr const char* to_string(Errc e) noexcept {
  constexpr const char* kTexts[] = {"ok",
                                    "invalid argument",
                                    "not allowed in the queue pair's state",
                                    "queue full",
                                    "too many scatter-gather entries",
                                    "message or inline data too long",
                                    "local key unknown or SGE outside its memory region",
                                    "memory region lacks the access right",
                                    "objects belong to different protection domains",
                                    "object is in use",
                                    "no such object",
                                    "limit reached",
                                    "peer shares no plane with this device",
                                    "peer's parameters are incompatible",
                                    "malformed connection data",
                                    "timed out",
                                    "not supported here",
                                    "this process is a fork of the one that opened the device"};
  static_assert(std::size(kTexts) == static_cast<std::size_t>(Errc::forked) + 1);
  return e <= Errc::forked ? kTexts[static_cast<std::size_t>(e)] : "unknown error";
}

/// The category of error codes made from Errc, named "mrc".
class MRC_API ErrorCategory final : public std::error_category {
 public:
  /// "mrc".
  [[nodiscard]] const char* name() const noexcept override;
  /// to_string() of the Errc with this value.
  [[nodiscard]] std::string message(int e) const override;
};

/// The one object of that category. Any thread.
[[nodiscard]] MRC_API const std::error_category& error_category() noexcept;

/// An Errc as the code of a std::system_error.
[[nodiscard]] inline std::error_code make_error_code(Errc e) noexcept {
  return {static_cast<int>(e), error_category()};
}

/// Thrown by set-up calls. what() names the operation, its object and the cause; code() is an Errc
/// or the errno value of the system call.
class MRC_API Error : public std::system_error {
 public:
  /// With an Errc.
  Error(Errc code, const std::string& what) : std::system_error(make_error_code(code), what) {}
  /// With the error of a system call.
  Error(std::error_code code, const std::string& what) : std::system_error(code, what) {}
};

namespace detail {

/// What an error says, without the name of its code, which what() adds: for people, and for errors
/// that are made of it. The reason of a failed system call stays, once.
[[nodiscard]] inline std::string words_of(const Error& error) {
  std::string words = error.what();
  const std::string reason = ": " + error.code().message();
  while (words.ends_with(reason)) words.resize(words.size() - reason.size());
  return error.code().category() == error_category() ? words : words + reason;
}

}  // namespace detail

/// A value, or the reason why there is none. Reading the value of a failed result is undefined:
/// test first.
template <class T>
class [[nodiscard]] Result {
 public:
  /// A success.
  Result(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor)
  /// A failure; `error` is not Errc::ok.
  Result(Errc error) : error_(error) {}  // NOLINT(google-explicit-constructor)
  /// Whether there is a value.
  [[nodiscard]] bool ok() const noexcept { return error_ == Errc::ok; }
  /// The same as ok().
  explicit operator bool() const noexcept { return ok(); }
  /// Errc::ok when there is a value.
  [[nodiscard]] Errc error() const noexcept { return error_; }
  /// The value; needs ok().
  [[nodiscard]] T& value() noexcept { return value_; }
  /// The value; needs ok().
  [[nodiscard]] const T& value() const noexcept { return value_; }
  /// The value; needs ok().
  [[nodiscard]] T& operator*() noexcept { return value_; }
  /// The value's members; needs ok().
  [[nodiscard]] T* operator->() noexcept { return &value_; }

 private:
  T value_{};
  Errc error_ = Errc::ok;
};

}  // namespace mrc::inline v0_1

template <>
struct std::is_error_code_enum<mrc::Errc> : std::true_type {};

namespace mrc::inline v0_1 {

/// Throws Error for a failed system call: "<what>: <reason>". `error` is its errno value. Where the
/// process has no room for another descriptor, the text names its limit.
[[noreturn]] inline void throw_errno(const std::string& what, int error = errno) {
  std::string text = what;
  rlimit files{};
  if (error == EMFILE && ::getrlimit(RLIMIT_NOFILE, &files) == 0)
    text += " (this process may have " + std::to_string(files.rlim_cur) +
            " files open; raise ulimit -n)";
  throw Error(std::error_code(error, std::generic_category()), text);
}

}  // namespace mrc::inline v0_1
