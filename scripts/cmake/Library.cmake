# SPDX-License-Identifier: Apache-2.0
# The library's targets (include/mrc/core/linkage.hpp):
#   OpenMRC::openmrc  header-only
#   OpenMRC::static   compiled once, libopenmrc.a
#   OpenMRC::shared   compiled once, libopenmrc.so
# Targets found from a subdirectory have to be visible to the project that added it.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)
find_package(Threads REQUIRED)
find_package(Boost 1.74 CONFIG REQUIRED)
find_package(nlohmann_json REQUIRED)
include(scripts/cmake/OpenMRCIsal.cmake)

# What all three have: headers and threads.
add_library(openmrc_headers INTERFACE)
add_library(OpenMRC::headers ALIAS openmrc_headers)
set_target_properties(openmrc_headers PROPERTIES EXPORT_NAME headers)
target_compile_features(openmrc_headers INTERFACE cxx_std_20)
target_include_directories(openmrc_headers INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(openmrc_headers INTERFACE Threads::Threads)

add_library(openmrc INTERFACE)
add_library(OpenMRC::openmrc ALIAS openmrc)
target_link_libraries(openmrc INTERFACE
  openmrc_headers Boost::headers nlohmann_json::nlohmann_json)
# Whether ISA-L is there is a fact of the machine that compiles, so an installed package looks for
# it again (OpenMRCConfig.cmake) instead of carrying over what was found here.
if(TARGET OpenMRC::isal)
  target_compile_definitions(openmrc INTERFACE $<BUILD_INTERFACE:MRC_HAVE_ISAL=1>)
  target_link_libraries(openmrc INTERFACE $<BUILD_INTERFACE:OpenMRC::isal>)
else()
  target_compile_definitions(openmrc INTERFACE $<BUILD_INTERFACE:MRC_HAVE_ISAL=0>)
endif()

# Each file of mrc/impl/src/ becomes a unit, so that they compile side by side.
file(GLOB src_headers RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/mrc/impl/src/*.hpp)
set(library_units "")
foreach(header IN LISTS src_headers)
  cmake_path(GET header STEM name)
  set(unit ${PROJECT_BINARY_DIR}/src/${name}.cpp)
  file(CONFIGURE OUTPUT ${unit} CONTENT "#include \"${header}\"\n" @ONLY)
  list(APPEND library_units ${unit})
endforeach()

function(mrc_add_compiled_library name kind)
  add_library(openmrc_${name} ${kind} ${ARGN})
  add_library(OpenMRC::${name} ALIAS openmrc_${name})
  set_target_properties(openmrc_${name} PROPERTIES
    EXPORT_NAME ${name} OUTPUT_NAME openmrc POSITION_INDEPENDENT_CODE ON
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_compile_definitions(openmrc_${name} PUBLIC MRC_SEPARATE_COMPILATION)
  target_link_libraries(openmrc_${name}
    PUBLIC openmrc_headers
    PRIVATE $<BUILD_INTERFACE:mrc_flags>
      $<BUILD_INTERFACE:Boost::headers> $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
  if(TARGET OpenMRC::isal)
    target_compile_definitions(openmrc_${name} PRIVATE MRC_HAVE_ISAL=1)
    target_link_libraries(openmrc_${name} PRIVATE OpenMRC::isal)
  endif()
endfunction()

mrc_add_compiled_library(static STATIC ${library_units})
