// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mrc/core/types.hpp"
#include "mrc/core/uncancelled.hpp"
#include "mrc/net/socket.hpp"

/// Questions to rtnetlink, for the implementation of netlink.hpp and way.hpp.
namespace mrc::inline v0_1::port::detail {

/// Calls visit(type, value) for each of the attributes (rtattr) in `bytes`.
template <class Visit>
void for_each_attribute(Bytes bytes, Visit visit) {
  rtattr attribute;
  while (bytes.size() >= sizeof attribute) {
    std::memcpy(&attribute, bytes.data(), sizeof attribute);
    if (attribute.rta_len < sizeof attribute || attribute.rta_len > bytes.size()) return;
    visit(static_cast<unsigned>(attribute.rta_type & NLA_TYPE_MASK),
          bytes.first(attribute.rta_len).subspan(RTA_LENGTH(0)));
    bytes = bytes.subspan(std::min<std::size_t>(bytes.size(), RTA_ALIGN(attribute.rta_len)));
  }
}

/// A request to rtnetlink with IPv6 addresses and numbers as attributes, and its one answer.
class NetlinkRequest {
 public:
  template <class Header>
  NetlinkRequest(std::uint16_t type, const Header& header) {
    head().nlmsg_len = NLMSG_LENGTH(sizeof header);
    head().nlmsg_type = type;
    head().nlmsg_flags = NLM_F_REQUEST;
    std::memcpy(data(), &header, sizeof header);
  }

  void add(std::uint16_t type, const void* data, std::size_t size) noexcept {
    const rtattr attribute{static_cast<unsigned short>(RTA_LENGTH(size)), type};
    std::uint8_t* at = buffer_.data() + NLMSG_ALIGN(head().nlmsg_len);
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), data, size);
    head().nlmsg_len =
        static_cast<std::uint32_t>(NLMSG_ALIGN(head().nlmsg_len) + RTA_ALIGN(attribute.rta_len));
  }

  /// Sends it and reads the answer. 0, or the errno that the kernel answered.
  [[nodiscard]] int send() noexcept {
    const Uncancelled asking;
    const Socket socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!socket.open()) return errno;
    if (::send(socket.fd(), buffer_.data(), head().nlmsg_len, 0) < 0) return errno;
    const ssize_t n = ::recv(socket.fd(), buffer_.data(), buffer_.size(), 0);
    if (n < 0) return errno;
    if (!NLMSG_OK(&head(), static_cast<std::size_t>(n))) return EBADMSG;
    if (head().nlmsg_type != NLMSG_ERROR) return 0;
    nlmsgerr error;
    if (head().nlmsg_len < NLMSG_LENGTH(sizeof error)) return EBADMSG;
    std::memcpy(&error, data(), sizeof error);
    return -error.error;
  }

  /// The answer's header.
  template <class Header>
  [[nodiscard]] Header header() noexcept {
    Header header{};
    if (head().nlmsg_len >= NLMSG_LENGTH(sizeof header))
      std::memcpy(&header, data(), sizeof header);
    return header;
  }

  /// The answer's attributes, behind a header of `header` bytes.
  [[nodiscard]] Bytes attributes(std::size_t header) noexcept {
    return attributes_of(buffer_.data(), header);
  }
  /// Copies the answer's attribute behind a header of `header` bytes; false if there is none of
  /// that type and size.
  [[nodiscard]] bool get(std::size_t header, std::uint16_t type, void* data,
                         std::size_t size) noexcept {
    bool found = false;
    for_each_attribute(attributes(header), [&](unsigned its, Bytes value) {
      if (found || its != type || value.size() != size) return;
      std::memcpy(data, value.data(), size);
      found = true;
    });
    return found;
  }

  /// Sends it as a question for everything, and calls visit(header, attributes) for each message of
  /// the answer, `most` at most.
  template <class Header, class Visit>
  void send_for_all(std::size_t most, Visit visit) {
    head().nlmsg_flags |= NLM_F_DUMP;
    const Socket socket(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!socket.open() || ::send(socket.fd(), buffer_.data(), head().nlmsg_len, 0) < 0) return;
    alignas(nlmsghdr) std::array<std::uint8_t, 32 << 10> answer;
    for (std::size_t seen = 0; seen < most;) {
      const ssize_t n = ::recv(socket.fd(), answer.data(), answer.size(), 0);
      if (n <= 0) return;
      const auto size = static_cast<std::size_t>(n);
      nlmsghdr of;
      for (std::size_t at = 0; at + sizeof of <= size; at += NLMSG_ALIGN(of.nlmsg_len), ++seen) {
        std::memcpy(&of, answer.data() + at, sizeof of);
        if (of.nlmsg_len < NLMSG_LENGTH(sizeof(Header)) || of.nlmsg_len > size - at ||
            of.nlmsg_type == NLMSG_DONE || of.nlmsg_type == NLMSG_ERROR)
          return;
        Header header;
        std::memcpy(&header, answer.data() + at + NLMSG_HDRLEN, sizeof header);
        visit(header, attributes_of(answer.data() + at, sizeof header));
      }
    }
  }

 private:
  [[nodiscard]] static Bytes attributes_of(const std::uint8_t* message,
                                           std::size_t header) noexcept {
    nlmsghdr head;
    std::memcpy(&head, message, sizeof head);
    const std::size_t begin = NLMSG_ALIGN(NLMSG_LENGTH(header));
    return {message + begin, head.nlmsg_len - std::min<std::size_t>(head.nlmsg_len, begin)};
  }
  [[nodiscard]] std::uint8_t* data() noexcept { return buffer_.data() + NLMSG_LENGTH(0); }
  [[nodiscard]] nlmsghdr& head() noexcept { return *reinterpret_cast<nlmsghdr*>(buffer_.data()); }

  alignas(nlmsghdr) std::array<std::uint8_t, 4096> buffer_{};
};

}  // namespace mrc::inline v0_1::port::detail
