# SPDX-License-Identifier: Apache-2.0
# What `cmake --install` puts where. Components: openmrc (the library), tools.
include(CMakePackageConfigHelpers)
set(MRC_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/OpenMRC)
set(mrc_libraries openmrc openmrc_headers openmrc_static)
if(MRC_BUILD_SHARED)
  list(APPEND mrc_libraries openmrc_shared)
endif()

install(DIRECTORY include/mrc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT openmrc
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inl")
install(TARGETS ${mrc_libraries} EXPORT OpenMRCTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT openmrc
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT openmrc NAMELINK_COMPONENT openmrc)
install(EXPORT OpenMRCTargets NAMESPACE OpenMRC:: DESTINATION ${MRC_CONFIG_DIR}
  COMPONENT openmrc)

configure_package_config_file(scripts/cmake/OpenMRCConfig.cmake.in
  ${PROJECT_BINARY_DIR}/OpenMRCConfig.cmake INSTALL_DESTINATION ${MRC_CONFIG_DIR}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/OpenMRCConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/OpenMRCConfig.cmake
  ${PROJECT_BINARY_DIR}/OpenMRCConfigVersion.cmake
  DESTINATION ${MRC_CONFIG_DIR} COMPONENT openmrc)

set(MRC_PC_PRIVATE "-pthread")
foreach(name openmrc openmrc-static)
  configure_file(scripts/cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/openmrc.pc ${PROJECT_BINARY_DIR}/openmrc-static.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT openmrc)

# A dashboard for Grafana and a unit for systemd, for `mrc_ctl serve`.
install(FILES tools/grafana/openmrc.json
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/openmrc/grafana COMPONENT tools)
install(FILES tools/systemd/openmrc-serve.service
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/openmrc/systemd COMPONENT tools)

# What helps to type mrc_ctl.
install(FILES tools/mrc_ctl/mrc_ctl.1
  DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT tools)
install(FILES tools/mrc_ctl/completion.bash RENAME mrc_ctl
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions COMPONENT tools)

# The Wireshark dissector, to be copied or linked into a plugin folder of Wireshark.
install(FILES tools/wireshark/mrc.lua
  DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/openmrc/wireshark COMPONENT tools)
