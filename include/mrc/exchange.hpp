// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mrc/core/linkage.hpp"
#include "mrc/core/types.hpp"
#include "mrc/core/unique_fd.hpp"
#include "mrc/net/address.hpp"

/// Set-up of a connection between two programs: the data that a queue pair needs of its peer
/// (ConnectionInfo, as bytes for any transport), and a small exchange over TCP for programs that
/// have no other. Functions without an object: any thread.
namespace mrc::inline v0_1 {

/// What the peer needs to connect to a queue pair (mrc-1.0 §2.12): its identity, addresses and
/// limits.
struct ConnectionInfo {
  std::uint64_t device_guid = 0;      ///< tells devices apart; queue pairs of one share its paths
  Qpn qpn{};                          ///< number of the queue pair
  Psn start_psn;                      ///< first PSN that this side will send
  std::uint32_t mtu = 4096;           ///< payload bytes per packet (is_mtu()); the smaller counts.
                                      ///< 0: as this side's; such data can't be encoded
  std::uint8_t mpr_dest = 32;         ///< units of 128 PSNs that it tracks as responder
  std::uint16_t max_wimm_dest = 128;  ///< WriteImm in flight that it tracks as responder
  bool dynamic_mpr = false;           ///< takes part in Dynamic MPR
  bool trim_nack = false;             ///< answers trimmed packets
  bool icrc = true;                   ///< sends and checks the iCRC
  std::uint8_t slot = 0;              ///< which process of its host it is
  std::uint64_t receive_window = 0;   ///< bytes per plane that it can buffer; 0: not known
  /// Of another implementation of MRC; false in what OpenMRC devices say of themselves. A record
  /// that a program fills in itself is foreign, therefore: see foreign_peer().
  bool foreign = true;
  bool solicited = false;  ///< understands solicited events
  bool parts = false;      ///< takes packets in parts, and EV probes of full size (RemoteQp::parts)
  bool rc = false;         ///< offers SEND, READ and atomics (RemoteQp::rc)
  /// With `rc`: READs and atomics in flight that it tracks as responder, 0 .. 128. Not encoded
  /// without `rc`.
  std::uint8_t max_rd_atomic_dest = 0;
  /// Takes an MTU of any multiple of 128. Without it, `mtu` and what both agree on is a power of
  /// two (mrc-1.0 §2.3): so it is with other implementations.
  bool mtu_multiples = false;
  /// Verification tag for the packets sent to this queue pair (wire::Tag); 0: it has none. A secret
  /// between the two sides: who knows it can forge packets, so give this record to the peer alone.
  std::uint64_t tag = 0;
  /// port::network_namespace() of the device; 0: it wants the whole packet in the iCRC, whoever the
  /// peer is. Between two that have told the same, data packets that stay on the loopback interface
  /// may leave the payload out (wire::Bth::head_check()).
  std::uint64_t network_namespace = 0;
  std::vector<port::PeerAddress> planes;  ///< [i]: where it receives in plane i
  /// What the ports of a plane need to know beside the address, in their own form; [i]: of plane i.
  /// Shorter than `planes` if the last ones need nothing.
  std::vector<std::vector<std::uint8_t>> port_data{};

  /// Equal in every field.
  friend bool operator==(const ConnectionInfo&, const ConnectionInfo&) = default;
};

/// The bytes to give to the peer: an envelope with a checksum, and items of the form type, length,
/// value. A reader skips items of types that it does not know, unless they are marked as
/// indispensable; so later releases can add some. Throws mrc::Error (invalid_argument) when a field
/// is outside the range that a peer accepts.
[[nodiscard]] MRC_API std::vector<std::uint8_t> encode(const ConnectionInfo& info);

/// Reads what a peer has encoded. Any bytes are safe: throws mrc::Error (bad_message) that says
/// what is wrong with them, or names an indispensable item that this release does not know.
[[nodiscard]] MRC_API ConnectionInfo decode_connection_info(Bytes blob);

/// One line for logs and error messages.
[[nodiscard]] MRC_API std::string to_string(const ConnectionInfo& info);

/// A remote queue pair as verbs programs name it.
struct Destination {
  port::IpAddress gid{};  ///< an IP address of the remote device
  Qpn qpn{};              ///< its queue pair

  /// Equal in both.
  friend bool operator==(const Destination&, const Destination&) = default;
};

/// The ConnectionInfo of another implementation of MRC: what its queue pair is, which PSN it sends
/// first, and where it receives in each plane, with the UDP port (4791, 4971 or any other). The
/// rest is what MRC says of a peer that has told nothing: 32 x 128 PSNs and 128 WriteImm in flight
/// (mrc-1.0 §7.3), an MTU as this side's, or the power of two below it, and none of OpenMRC's
/// extensions: no tags, SENDs, READs or atomics, no solicited events. What is known better can be
/// changed in the result. Over IPv4 sockets its packets are sent one by one, with an iCRC that is
/// right for a NIC.
[[nodiscard]] inline ConnectionInfo foreign_peer(Qpn qpn, Psn start_psn,
                                                 std::vector<port::PeerAddress> planes) {
  ConnectionInfo info;
  if (!planes.empty()) info.device_guid = port::source_tag(planes.front().ip);
  info.qpn = qpn;
  info.start_psn = start_psn;
  info.mtu = 0;
  info.planes = std::move(planes);
  return info;
}

/// Messages over TCP, for two programs that have no other way to exchange ConnectionInfo and to
/// agree on parameters. Not for data. Each wait ends within 100 ms of *cancel becoming true, with
/// an mrc::Error of code std::errc::operation_canceled: a SIGINT handler that sets a
/// std::atomic<bool> stops a program cleanly. Other signals do not interrupt a wait.

/// "Without a limit", as a timeout.
inline constexpr Duration kForever = Duration::max();

/// A connection that carries messages of up to 16 MiB (4-byte big-endian length, then the bytes).
/// Move-only; one thread at a time. Errors are mrc::Error naming the peer and the cause:
/// Errc::timed_out, Errc::too_long and Errc::bad_message (a length over the limit, sent or
/// received), Errc::invalid_argument (no such host), operation_canceled, or the errno of the
/// socket. After an error, only close() and the destructor may be called, except after a receive
/// that timed out.
class MRC_API TcpChannel {
 public:
  /// Longest message.
  static constexpr std::size_t kMaxMessageBytes = std::size_t{16} << 20;
  /// Timeout of all calls that are given none.
  static constexpr Duration kDefaultTimeout = std::chrono::seconds(30);

  TcpChannel() = default;

  /// Connects. Tries again while the port refuses, until the timeout, so that either side may start
  /// first. `host` is a name or an address. Looking up a name can't be cancelled.
  [[nodiscard]] static TcpChannel connect(const std::string& host, std::uint16_t port,
                                          Duration timeout = kDefaultTimeout,
                                          const std::atomic<bool>* cancel = nullptr);

  /// Sends one message. Blocks while the peer does not read, up to the timeout.
  void send(Bytes message, Duration timeout = kDefaultTimeout);
  /// send() of the bytes of a text.
  void send_text(std::string_view text, Duration timeout = kDefaultTimeout);

  /// Waits for one message. A message that has arrived in part at the timeout is kept for the next
  /// call.
  [[nodiscard]] std::vector<std::uint8_t> receive(Duration timeout = kDefaultTimeout);
  /// receive() of a text.
  [[nodiscard]] std::string receive_text(Duration timeout = kDefaultTimeout);

  /// A message if one is there in full, nothing otherwise; never waits.
  [[nodiscard]] std::optional<std::vector<std::uint8_t>> try_receive();

  /// Refuses longer messages from the peer: for servers, whose clients may be anybody. At most
  /// kMaxMessageBytes, the default.
  void limit_messages(std::size_t bytes) noexcept { limit_ = std::min(bytes, kMaxMessageBytes); }

  /// True when the peer has closed or lost the connection and all that it sent has been received.
  [[nodiscard]] bool peer_closed() const noexcept;

  /// To wait for readability together with other things; -1 when there is no connection.
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  /// The peer, for messages.
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  /// Closes the connection; nothing happens if there is none.
  void close() noexcept { socket_ = {}; }

 private:
  friend class TcpListener;
  static constexpr std::size_t kHead = 4;
  static constexpr std::size_t kChunk = std::size_t{16} << 10;

  TcpChannel(UniqueFd socket, std::string peer, const std::atomic<bool>* cancel)
      : socket_(std::move(socket)), peer_(std::move(peer)), cancel_(cancel) {}

  /// Bytes of the frame being received: those of the length field until that has arrived. Throws
  /// when the length is over the limit.
  [[nodiscard]] std::size_t wanted() const;

  UniqueFd socket_;
  std::vector<std::uint8_t> inbox_;  // of the frame being received
  std::string peer_ = "nobody";
  std::size_t limit_ = kMaxMessageBytes;
  const std::atomic<bool>* cancel_ = nullptr;
};

/// Waits for connections on a TCP port. Move-only; one thread at a time. Errors as for TcpChannel.
class MRC_API TcpListener {
 public:
  /// `port` 0 takes a free one. `bind` is a local address or name; empty: every address, IPv4 and
  /// IPv6.
  explicit TcpListener(std::uint16_t port, const std::string& bind = "",
                       const std::atomic<bool>* cancel = nullptr);

  /// Waits for the next connection.
  [[nodiscard]] TcpChannel accept(Duration timeout = kForever);

  /// The port it listens on.
  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  /// To wait for connections together with other things.
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }

 private:
  UniqueFd socket_;
  std::uint16_t port_ = 0;
  const std::atomic<bool>* cancel_ = nullptr;
};

/// Exchanges connection data: sends mine, returns the peer's. Both sides call it. Throws as
/// TcpChannel and decode_connection_info() do.
[[nodiscard]] MRC_API ConnectionInfo exchange(TcpChannel& channel, const ConnectionInfo& mine,
                                              Duration timeout = TcpChannel::kDefaultTimeout);

}  // namespace mrc::inline v0_1
