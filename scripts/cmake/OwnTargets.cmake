# SPDX-License-Identifier: Apache-2.0
# What our own programs and tests link: the library, compiled once. fmt is for them only: no header
# of the library uses it.
find_package(fmt REQUIRED)
add_library(mrc_own INTERFACE)
target_link_libraries(mrc_own INTERFACE mrc_flags openmrc_static fmt::fmt
  Boost::headers nlohmann_json::nlohmann_json)

# For programs that run for seconds at most: two thirds of an address sanitizer's build would be
# optimising its checks away.
add_library(mrc_own_brief INTERFACE)
target_link_libraries(mrc_own_brief INTERFACE mrc_own)
if(MRC_SANITIZE MATCHES "address")
  target_compile_options(mrc_own_brief INTERFACE -O0)
endif()

# A program with a command line from its sources. NAME's folder of JSON files DATA is installed with
# it. HEADERS are compiled once for all of its units.
function(mrc_add_tool name)
  cmake_parse_arguments(PARSE_ARGV 1 tool "" "DATA" "SOURCES;HEADERS")
  find_package(CLI11 REQUIRED)
  add_executable(${name} ${tool_SOURCES})
  target_link_libraries(${name} PRIVATE mrc_own CLI11::CLI11)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tools)
  target_precompile_headers(${name} PRIVATE ${tool_HEADERS} <CLI/CLI.hpp>)
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tools OPTIONAL)
  if(tool_DATA)
    install(DIRECTORY ${tool_DATA} DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/openmrc COMPONENT tools
      FILES_MATCHING PATTERN "*.json")
  endif()
endfunction()
