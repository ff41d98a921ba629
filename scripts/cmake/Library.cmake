# SPDX-License-Identifier: Apache-2.0
# The library's targets (include/mrc/core/linkage.hpp):
#   OpenMRC::openmrc  header-only: one unit of the program defines MRC_IMPLEMENTATION
#   OpenMRC::static   the definitions compiled, libopenmrc.a
#   OpenMRC::shared   the same, libopenmrc.so: the application's API alone (mrc/mrc.hpp)
option(MRC_BUILD_SHARED "Build libopenmrc.so" ${PROJECT_IS_TOP_LEVEL})

# Targets found from a subdirectory have to be visible to the project that added it.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(Threads REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED)
find_package(nlohmann_json REQUIRED)

# What all three have in common: headers and threads.
add_library(openmrc_headers INTERFACE)
add_library(OpenMRC::headers ALIAS openmrc_headers)
set_target_properties(openmrc_headers PROPERTIES EXPORT_NAME headers)
target_compile_features(openmrc_headers INTERFACE cxx_std_20)
target_include_directories(openmrc_headers INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(openmrc_headers INTERFACE Threads::Threads)

# ------------------------------------------------------------------------------ header-only
add_library(openmrc INTERFACE)
add_library(OpenMRC::openmrc ALIAS openmrc)
target_link_libraries(openmrc INTERFACE
  openmrc_headers Boost::headers nlohmann_json::nlohmann_json)

# -------------------------------------------------------------------------- compiled library
# The list of definitions of each folder is a unit, so that they compile side by side.
set(mrc_units engine plane host resolve fabric control faults verbs)
mrc_runs_here(sim/ simulator_here)
if(simulator_here)  # no program of a sanitized build uses it
  list(APPEND mrc_units sim)
endif()
foreach(unit IN LISTS mrc_units)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/src/${unit}.cpp
    CONTENT "#include \"mrc/${unit}/definitions.inl\"\n" @ONLY)
endforeach()

list(TRANSFORM mrc_units REPLACE "(.+)" "${PROJECT_BINARY_DIR}/src/\\1.cpp")

# The simulator is for programs that link it whole: it is not in the shared library, which shares
# the other objects with the static one.
set(mrc_whole_units ${mrc_units})
list(FILTER mrc_whole_units INCLUDE REGEX "/sim\\.cpp$")
list(FILTER mrc_units EXCLUDE REGEX "/sim\\.cpp$")
add_library(openmrc_objects OBJECT ${mrc_units})
# Packets seldom pass these: optimising their checks takes clang longer than it saves in all tests.
if(MRC_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  foreach(unit IN ITEMS control fabric)
    set_source_files_properties(${PROJECT_BINARY_DIR}/src/${unit}.cpp PROPERTIES
      COMPILE_OPTIONS -O0)
  endforeach()
endif()
# Nobody replaces a function of the library from outside, so its calls of its own need no detour.
target_compile_options(openmrc_objects PRIVATE
  $<$<CXX_COMPILER_ID:GNU>:-fno-semantic-interposition>)
add_library(openmrc_static STATIC ${mrc_whole_units} $<TARGET_OBJECTS:openmrc_objects>)
set(mrc_compiled openmrc_static)
if(MRC_BUILD_SHARED)
  add_library(openmrc_shared SHARED $<TARGET_OBJECTS:openmrc_objects>)
  list(APPEND mrc_compiled openmrc_shared)
endif()
foreach(target IN LISTS mrc_compiled ITEMS openmrc_objects)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_definitions(${target} PRIVATE MRC_BUILDS_LIBRARY)
  target_link_libraries(${target}
    PUBLIC openmrc_headers
    PRIVATE $<BUILD_INTERFACE:mrc_flags>
      $<BUILD_INTERFACE:Boost::headers> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
endforeach()
foreach(target IN LISTS mrc_compiled)
  string(REPLACE openmrc_ "" name ${target})
  add_library(OpenMRC::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} OUTPUT_NAME openmrc)
endforeach()
if(MRC_BUILD_FUZZERS)  # coverage of the library is what guides them
  target_compile_options(openmrc_objects PRIVATE -fsanitize=fuzzer-no-link)
endif()
# What is linked statically is a part of the program or shared object, which exports nothing of it.
target_link_options(openmrc_static INTERFACE -Wl,--exclude-libs,libopenmrc.a)

if(MRC_BUILD_SHARED)
  set(version_script ${PROJECT_SOURCE_DIR}/scripts/cmake/libopenmrc.map)
  set_target_properties(openmrc_shared PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    LINK_DEPENDS ${version_script})
  # nodelete: after dlclose(), an mrc::Error still refers to its category in the library, and a
  # device that is still open to the code that its helper thread runs.
  # A sanitizer's functions are found in the program that uses the library.
  target_link_options(openmrc_shared PRIVATE
    -Wl,--version-script=${version_script} -Wl,-z,nodelete
    $<$<NOT:$<BOOL:${MRC_SANITIZE}>>:-Wl,--no-undefined>)
endif()
