# SPDX-License-Identifier: Apache-2.0
include(CMakePackageConfigHelpers)
set(MRC_CONFIG_DIR ${CMAKE_INSTALL_DATAROOTDIR}/cmake/OpenMRC)
install(DIRECTORY include/mrc DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT openmrc
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.ipp")
install(TARGETS openmrc openmrc_headers EXPORT OpenMRCTargets COMPONENT openmrc)
install(EXPORT OpenMRCTargets NAMESPACE OpenMRC:: DESTINATION ${MRC_CONFIG_DIR}
  COMPONENT openmrc)
configure_package_config_file(scripts/cmake/OpenMRCConfig.cmake.in
  ${PROJECT_BINARY_DIR}/OpenMRCConfig.cmake INSTALL_DESTINATION ${MRC_CONFIG_DIR}
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a minor version may change the API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/OpenMRCConfigVersion.cmake
  COMPATIBILITY SameMinorVersion ARCH_INDEPENDENT)
install(FILES
  ${PROJECT_BINARY_DIR}/OpenMRCConfig.cmake
  ${PROJECT_BINARY_DIR}/OpenMRCConfigVersion.cmake
  scripts/cmake/OpenMRCIsal.cmake
  DESTINATION ${MRC_CONFIG_DIR} COMPONENT openmrc)
