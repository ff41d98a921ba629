// SPDX-License-Identifier: Apache-2.0
/* Versions of the API in mrc_ctl.h. A program that wants to be compiled against an older one
 * defines MRC_CTL_API_VER_USED (and MRC_CTL_VENDOR_API_VER_USED) before it includes mrc_ctl.h. */
#pragma once

#define MRC_CTL_API_VER_MAJOR_OFFSET 24
#define MRC_CTL_API_VER_MINOR_OFFSET 16
#define MRC_CTL_API_VER_SUBMINOR_OFFSET 0

/* A version as a number: versions compare as their numbers do. */
#define MRC_CTL_API_VER(major, minor, subminor)                                            \
  (((major) << MRC_CTL_API_VER_MAJOR_OFFSET) | ((minor) << MRC_CTL_API_VER_MINOR_OFFSET) | \
   ((subminor) << MRC_CTL_API_VER_SUBMINOR_OFFSET))

#define MRC_CTL_API_VER_LATEST 0xFFFFFFFF /* whatever is current */
#define MRC_CTL_API_CURRENT_VERSION MRC_CTL_API_VER(1, 0, 1)
#define MRC_CTL_API_LAST_SUPPORTED_VERSION MRC_CTL_API_VER(0, 0, 0) /* the oldest that works */

#ifndef MRC_CTL_API_VER_USED
#define MRC_CTL_API_VER_USED MRC_CTL_API_CURRENT_VERSION
#elif MRC_CTL_API_VER_USED == MRC_CTL_API_VER_LATEST
#undef MRC_CTL_API_VER_USED
#define MRC_CTL_API_VER_USED MRC_CTL_API_CURRENT_VERSION
#elif MRC_CTL_API_VER_USED > MRC_CTL_API_CURRENT_VERSION
#error "MRC_CTL_API_VER_USED is newer than this header"
#elif MRC_CTL_API_VER_USED == 0
#warning \
    "MRC_CTL_API_VER_USED is 0.0.0, which is no version: leave it undefined for the current one"
#endif

/* The same for what a vendor adds. OpenMRC adds nothing. */
#define MRC_CTL_VENDOR_API_VER_MAJOR_OFFSET 24
#define MRC_CTL_VENDOR_API_VER_MINOR_OFFSET 16
#define MRC_CTL_VENDOR_API_VER_SUBMINOR_OFFSET 0
#define MRC_CTL_VENDOR_API_VER(major, minor, subminor) \
  (((major) << MRC_CTL_VENDOR_API_VER_MAJOR_OFFSET) |  \
   ((minor) << MRC_CTL_VENDOR_API_VER_MINOR_OFFSET) |  \
   ((subminor) << MRC_CTL_VENDOR_API_VER_SUBMINOR_OFFSET))

#define MRC_CTL_VENDOR_API_VER_LATEST 0xFFFFFFFF
#define MRC_CTL_VENDOR_API_CURRENT_VERSION MRC_CTL_VENDOR_API_VER(1, 0, 0)
#define MRC_CTL_VENDOR_API_LAST_SUPPORTED_VERSION MRC_CTL_VENDOR_API_VER(0, 0, 0)

#ifndef MRC_CTL_VENDOR_API_VER_USED
#define MRC_CTL_VENDOR_API_VER_USED MRC_CTL_VENDOR_API_CURRENT_VERSION
#elif MRC_CTL_VENDOR_API_VER_USED == MRC_CTL_VENDOR_API_VER_LATEST
#undef MRC_CTL_VENDOR_API_VER_USED
#define MRC_CTL_VENDOR_API_VER_USED MRC_CTL_VENDOR_API_CURRENT_VERSION
#elif MRC_CTL_VENDOR_API_VER_USED > MRC_CTL_VENDOR_API_CURRENT_VERSION
#error "MRC_CTL_VENDOR_API_VER_USED is newer than this header"
#elif MRC_CTL_VENDOR_API_VER_USED == 0
#warning "MRC_CTL_VENDOR_API_VER_USED is 0.0.0, which is no version"
#endif
