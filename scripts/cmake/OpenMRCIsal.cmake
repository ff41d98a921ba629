# SPDX-License-Identifier: Apache-2.0
# Defines the target OpenMRC::isal when Intel ISA-L is on this machine. It computes the iCRC several
# times faster than the portable code, which is used without it. Used by OpenMRC's own build and by
# the installed package. Set MRC_WITH_ISAL to OFF to do without.
option(MRC_WITH_ISAL "Use ISA-L for the CRC when it is found" ON)

if(MRC_WITH_ISAL AND NOT TARGET OpenMRC::isal)
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(MRC_ISAL_PC QUIET libisal)
  endif()
  find_path(MRC_ISAL_INCLUDE_DIR isa-l/crc.h HINTS ${MRC_ISAL_PC_INCLUDE_DIRS})
  find_library(MRC_ISAL_LIBRARY isal HINTS ${MRC_ISAL_PC_LIBRARY_DIRS})
  mark_as_advanced(MRC_ISAL_INCLUDE_DIR MRC_ISAL_LIBRARY)
  if(MRC_ISAL_INCLUDE_DIR AND MRC_ISAL_LIBRARY)
    add_library(OpenMRC::isal UNKNOWN IMPORTED GLOBAL)
    set_target_properties(OpenMRC::isal PROPERTIES
      IMPORTED_LOCATION "${MRC_ISAL_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${MRC_ISAL_INCLUDE_DIR}")
  endif()
endif()
