# install.cmake - headers, libraries, pkg-config files, the CMake package and
# the man pages.

if(NOT TARGET troupe)
    return()
endif()
include(CMakePackageConfigHelpers)

file(GLOB troupe_headers CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/include/troupe/*.h"
    "${PROJECT_SOURCE_DIR}/include/troupe/*.hpp")
install(FILES ${troupe_headers}
    DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/troupe")

set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/troupe")
install(TARGETS troupe troupe_static EXPORT troupeTargets)
install(EXPORT troupeTargets NAMESPACE troupe:: DESTINATION "${package_dir}")

configure_package_config_file(
    "${PROJECT_SOURCE_DIR}/cmake/troupeConfig.cmake.in"
    "${PROJECT_BINARY_DIR}/troupeConfig.cmake"
    INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file(
    "${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake"
    COMPATIBILITY SameMinorVersion)
install(FILES
    "${PROJECT_BINARY_DIR}/troupeConfig.cmake"
    "${PROJECT_BINARY_DIR}/troupeConfigVersion.cmake"
    DESTINATION "${package_dir}")

# The .pc files compute the prefix from their own place, so an installed tree
# can be moved.
file(RELATIVE_PATH pc_prefix "/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/")
configure_file("${PROJECT_SOURCE_DIR}/cmake/troupe.pc.in"
    "${PROJECT_BINARY_DIR}/troupe.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/troupe.pc"
    DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

foreach(component ${troupe_components})
    install(TARGETS troupe_${component} troupe_${component}_static
        EXPORT troupe-${component}Targets)
    install(EXPORT troupe-${component}Targets NAMESPACE troupe::
        DESTINATION "${package_dir}")
    configure_file("${PROJECT_SOURCE_DIR}/cmake/troupe-${component}.pc.in"
        "${PROJECT_BINARY_DIR}/troupe-${component}.pc" @ONLY)
    install(FILES "${PROJECT_BINARY_DIR}/troupe-${component}.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endforeach()

# The man pages are the contracts in the headers; see tools/manpages.py.
find_package(Python3 QUIET COMPONENTS Interpreter)
if(Python3_FOUND)
    set(pages "${PROJECT_BINARY_DIR}/man")
    add_custom_command(OUTPUT "${pages}/man7/troupe.7"
        COMMAND Python3::Interpreter
            "${PROJECT_SOURCE_DIR}/tools/manpages.py" --out "${pages}"
        DEPENDS "${PROJECT_SOURCE_DIR}/tools/manpages.py" ${troupe_headers}
            "${PROJECT_SOURCE_DIR}/examples/01_hello.c"
        COMMENT "Man pages"
        VERBATIM)
    add_custom_target(troupe_man ALL DEPENDS "${pages}/man7/troupe.7")
    install(DIRECTORY "${pages}/" DESTINATION "${CMAKE_INSTALL_MANDIR}"
        OPTIONAL)
else()
    message(WARNING "no man pages: no python3")
endif()

# Builds everything that is installed, but no tests and no programs.
add_custom_target(installed DEPENDS troupe troupe_static)
foreach(component ${troupe_components})
    add_dependencies(installed troupe_${component} troupe_${component}_static)
endforeach()
if(TARGET troupe_man)
    add_dependencies(installed troupe_man)
endif()
