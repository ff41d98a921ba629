// SPDX-License-Identifier: Apache-2.0
// Loses what a program hands to the kernel in one piece, to be cut into packets (UDP_SEGMENT), as
// broken kernels, broken NICs and full queues do: to be preloaded. LOSE says what:
//   equal  pieces whose packets have one length
//   all    all pieces
//   ends   the second half of every eighth piece, but never the first packet
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

static size_t length_of(const struct msghdr* message) {
  size_t bytes = 0;
  for (size_t i = 0; i < message->msg_iovlen; ++i) bytes += message->msg_iov[i].iov_len;
  return bytes;
}

// Bytes of a packet of the piece; 0: it is one packet.
static size_t segment_of(struct msghdr* message) {
  for (struct cmsghdr* c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
    unsigned short segment;
    if (c->cmsg_level != SOL_UDP || c->cmsg_type != UDP_SEGMENT) continue;
    memcpy(&segment, CMSG_DATA(c), sizeof segment);
    return length_of(message) > segment ? segment : 0;
  }
  return 0;
}

// Sends one message less what is lost; the bytes that were given, or -1.
static ssize_t send_one(int fd, struct msghdr* message, int flags) {
  static ssize_t (*real)(int, const struct msghdr*, int);
  if (real == NULL) real = (ssize_t(*)(int, const struct msghdr*, int))dlsym(RTLD_NEXT, "sendmsg");
  const char* lose = getenv("LOSE");
  const size_t bytes = length_of(message), segment = segment_of(message);
  if (segment == 0 || lose == NULL) return real(fd, message, flags);
  const int gone = strcmp(lose, "all") == 0 || (strcmp(lose, "equal") == 0 && bytes % segment == 0);
  if (gone) return (ssize_t)bytes;
  static _Atomic unsigned pieces;
  if (strcmp(lose, "ends") != 0 || pieces++ % 8 != 7) return real(fd, message, flags);
  struct iovec parts[1024];
  struct msghdr rest = *message;
  size_t left = (bytes + segment - 1) / segment / 2 * segment;
  rest.msg_iov = parts;
  for (rest.msg_iovlen = 0; left > 0; ++rest.msg_iovlen) {
    parts[rest.msg_iovlen] = message->msg_iov[rest.msg_iovlen];
    if (parts[rest.msg_iovlen].iov_len > left) parts[rest.msg_iovlen].iov_len = left;
    left -= parts[rest.msg_iovlen].iov_len;
  }
  return real(fd, &rest, flags) < 0 ? -1 : (ssize_t)bytes;
}

ssize_t sendmsg(int fd, const struct msghdr* message, int flags) {
  struct msghdr copy = *message;
  return send_one(fd, &copy, flags);
}

int sendmmsg(int fd, struct mmsghdr* messages, unsigned count, int flags) {
  for (unsigned i = 0; i < count; ++i) {
    const ssize_t sent = send_one(fd, &messages[i].msg_hdr, flags);
    if (sent < 0) return i > 0 ? (int)i : -1;
    messages[i].msg_len = (unsigned)sent;
  }
  return (int)count;
}
