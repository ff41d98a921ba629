// SPDX-License-Identifier: Apache-2.0
/* What the controllers in this folder share: traffic of their own to control, between two queue
 * pairs of one program, and the profiles that most of them begin with. */
#pragma once

#include <mrc_ctl.h>

#include "program.h"

/* Two queue pairs that are connected to each other, and a buffer. */
struct traffic {
  struct mrc_cq* cq;
  struct mrc_qp *a, *b;
  struct ibv_mr* mr;
  uint8_t* memory;
};

enum { kTrafficBytes = 1 << 20 };

/* Both use that EV profile (0: none) and that CC profile. */
void open_traffic(struct traffic* traffic, struct program* program, uint64_t ev_profile,
                  uint64_t cc_profile);
/* Writes a buffer from the start of `mr` to memory of the peer, and waits until it is there. */
void write_to(uint64_t memory, uint32_t rkey, struct mrc_qp* qp, struct mrc_cq* cq,
              struct ibv_mr* mr);
/* Writes so many buffers from a to b, and checks that they arrive. */
void move(struct traffic* traffic, int buffers);
void close_traffic(struct traffic* traffic);

/* The EVs that UDP planes can send: those of profile 0. Returns how many, at most `room`; 0 where
 * planes can send any. */
int own_evs(struct program* program, struct mrc_ctl_ev* evs, int room);

/* Takes a format profile from INIT to ONLINE: fields of these widths. */
void make_format(struct program* program, uint64_t id, enum mrc_ctl_ev_fmt_mode mode,
                 struct mrc_ctl_ev_fmt_field* fields, int count);

/* Takes an EXPLICIT profile of these EVs from INIT to ONLINE. */
void make_explicit(struct program* program, uint64_t id, uint64_t format,
                   const struct mrc_ctl_ev* evs, int count);

/* Prints the array of a profile. */
void print_profile(struct program* program, uint64_t id);

/* Takes an EV profile from ONLINE to INIT, and its format. */
void end_profiles(struct program* program, uint64_t id, uint64_t format);
