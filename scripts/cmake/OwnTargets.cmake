# SPDX-License-Identifier: Apache-2.0
# What our own programs and tests link: the library, compiled once. fmt is for them only: no header
# of the library uses it.
find_package(fmt REQUIRED)
add_library(mrc_own INTERFACE)
target_link_libraries(mrc_own INTERFACE mrc_flags openmrc_static fmt::fmt
  Boost::headers nlohmann_json::nlohmann_json)
# As the library is compiled: a class is as visible as the public header makes those it holds.
target_compile_options(mrc_own INTERFACE -fvisibility=hidden)

# Puts a static library in front of a target's own objects. Inline functions of headers are in both,
# and the linker takes the first ones: these are to be the optimised ones, or the library would call
# the program's.
function(mrc_link_first target scope library)
  target_link_options(${target} ${scope}
    "SHELL:-Wl,--whole-archive $<TARGET_FILE:${library}> -Wl,--no-whole-archive")
endfunction()

# For programs that run for seconds at most: two thirds of a sanitizer's build would be optimising
# its checks away. Those with property MRC_COMPUTES are optimised all the same.
add_library(mrc_own_brief INTERFACE)
target_link_libraries(mrc_own_brief INTERFACE mrc_own)
if(MRC_SANITIZE)
  target_compile_options(mrc_own_brief INTERFACE
    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:MRC_COMPUTES>>>:-O0>)
  mrc_link_first(mrc_own_brief INTERFACE openmrc_static)
endif()

# A program with a command line (options.cpp) from its sources. Its folder of JSON files DATA is
# installed with it. WAITS: for others, most of the time, so that it needs no more than -O1.
function(mrc_add_tool name)
  cmake_parse_arguments(PARSE_ARGV 1 tool "WAITS" "DATA" "SOURCES")
  find_package(CLI11 REQUIRED)
  add_executable(${name} ${tool_SOURCES})
  target_link_libraries(${name} PRIVATE mrc_own_brief CLI11::CLI11)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tools)
  if(tool_WAITS)
    target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo>:-O1>)
  endif()
  # Most of the compiler's time goes into headers that the sources share, and into CLI11.
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 10)
  list(FILTER tool_SOURCES INCLUDE REGEX "/options\\.cpp$")
  set_source_files_properties(${tool_SOURCES} PROPERTIES
    COMPILE_OPTIONS -O0 SKIP_UNITY_BUILD_INCLUSION ON)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools OPTIONAL)
  if(tool_DATA)
    install(DIRECTORY ${tool_DATA} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/openmrc COMPONENT tools
      FILES_MATCHING PATTERN "*.json")
  endif()
endfunction()

# Tests, tools and examples compute nothing: the library does. clang takes six tenths of g++'s time
# for them; g++ compiles them in the debug build, and the tools where no tests are built. gold, a
# part of Debian's binutils, takes half of the time for linking.
find_program(MRC_QUICK_COMPILER clang++)
find_program(MRC_QUICK_LINKER ld.gold)
mark_as_advanced(MRC_QUICK_COMPILER MRC_QUICK_LINKER)
function(mrc_build_quickly target)
  if(MRC_QUICK_COMPILER AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
      AND CMAKE_BUILD_TYPE STREQUAL "RelWithDebInfo")
    set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER
      "${PROJECT_SOURCE_DIR}/scripts/cmake/clang_instead;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
  if(MRC_QUICK_LINKER AND NOT MRC_SANITIZE)
    target_link_options(${target} PRIVATE -fuse-ld=gold)
  endif()
endfunction()
