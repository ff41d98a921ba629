# SPDX-License-Identifier: Apache-2.0
# Run after a unit test executable was linked: writes LIST_FILE, which gives ctest one entry per
# test case of EXECUTABLE, named "LAYER: name", run by LAUNCHER if there is one, with PROPERTIES.
# With GROUPED one entry for consecutive cases whose names begin with the same words before a colon.
# One that skipped itself would be the result of all, so those that may are left alone.
#
# Cases are run by their number, not by name: doctest's name filter gives a meaning to commas, stars
# and backslashes, and a filter that matches nothing counts as success.
cmake_minimum_required(VERSION 3.25)

execute_process(COMMAND ${EXECUTABLE} --list-test-cases --no-colors=1
  OUTPUT_VARIABLE output RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${EXECUTABLE} --list-test-cases failed (${result}):\n${output}")
endif()

# Characters that mean something to CMake's lists and strings.
foreach(pair "[=(" "]=)" ";=," "\\=/" "\"='" "$=S")
  string(SUBSTRING "${pair}" 0 1 from)
  string(SUBSTRING "${pair}" 2 1 to)
  string(REPLACE "${from}" "${to}" output "${output}")
endforeach()
string(REPLACE "\n" ";" lines "${output}")

set(script "")
set(names "")
set(number 0)
set(command "[==[${EXECUTABLE}]==]")
if(LAUNCHER)
  string(PREPEND command "[==[${LAUNCHER}]==] ")
endif()

function(add_entry name first last)
  string(APPEND script
    "add_test([==[${name}]==] ${command} --first=${first} --last=${last})\n"
    "set_tests_properties([==[${name}]==] PROPERTIES")
  foreach(property IN LISTS PROPERTIES)
    string(APPEND script " [==[${property}]==]")
  endforeach()
  string(APPEND script ")\n")
  set(script "${script}" PARENT_SCOPE)
endfunction()

set(group "")
set(first 1)
foreach(line IN LISTS lines)
  if(line MATCHES "^\\(doctest\\)|^=====" OR line STREQUAL "")
    continue()
  endif()
  math(EXPR number "${number} + 1")
  set(name "${LAYER}: ${line}")
  if(GROUPED AND NOT line MATCHES "^(line ordering|questions): ")
    string(REGEX REPLACE "^([^:]*: [^:]*): .*" "\\1" name "${name}")
  endif()
  if(group STREQUAL name)
    continue()
  endif()
  if(name IN_LIST names)
    string(APPEND name " (case ${number})")
  endif()
  list(APPEND names "${name}")
  if(number GREATER 1)
    math(EXPR last "${number} - 1")
    add_entry("${entry}" ${first} ${last})
  endif()
  set(entry "${name}")
  set(first ${number})
  if(GROUPED)
    string(REGEX REPLACE " \\(case [0-9]+\\)$" "" group "${name}")
  endif()
endforeach()
if(number GREATER 0)
  add_entry("${entry}" ${first} ${number})
endif()

# A line that was lost or split would shift the numbers.
if(NOT output MATCHES "current filters: ([0-9]+)" OR NOT CMAKE_MATCH_1 EQUAL number)
  message(FATAL_ERROR "${EXECUTABLE}: can't make out its list of test cases:\n${output}")
endif()
file(WRITE ${LIST_FILE} "${script}")
