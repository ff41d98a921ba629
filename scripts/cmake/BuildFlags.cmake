# SPDX-License-Identifier: Apache-2.0
# Flags of our own targets. They never reach users of the library: mrc_warnings and mrc_flags are
# linked PRIVATE and are not installed.
add_library(mrc_warnings INTERFACE)
target_compile_options(mrc_warnings INTERFACE
  -Wall -Wextra -Wshadow $<$<BOOL:${MRC_WERROR}>:-Werror>
  # g++ 12 is wrong about members of a std::variant that it knows not to be active, and about
  # vectors that it knows to be empty.
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-array-bounds;-Wno-stringop-overflow>")

add_library(mrc_flags INTERFACE)
target_link_libraries(mrc_flags INTERFACE mrc_warnings)
# A fused multiply-add rounds once where two instructions round twice: simulations would differ
# between machines.
target_compile_options(mrc_flags INTERFACE -ffp-contract=off)
if(MRC_NATIVE)
  target_compile_options(mrc_flags INTERFACE -march=native)
endif()
if(MRC_SANITIZE)
  # A finding ends the program, so that it fails the test.
  target_compile_options(mrc_flags INTERFACE
    -fsanitize=${MRC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(mrc_flags INTERFACE -fsanitize=${MRC_SANITIZE})
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(MRC_CCACHE ccache)
  mark_as_advanced(MRC_CCACHE)
  if(MRC_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${MRC_CCACHE})
  endif()
endif()
