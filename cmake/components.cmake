# components.cmake - the parts of Troupe that need another library.
#
# Each is a library of its own with its own pkg-config name, so that libtroupe
# stays free of dependencies. A component without sources, or without its
# library on this machine, is left out.

set(troupe_components "")         # names: sqlite, postgres
set(troupe_component_static "")   # targets that programs may link

# troupe_component(<name> <pkg-config module>)
macro(troupe_component name module)
    file(GLOB component_sources CONFIGURE_DEPENDS
        "${PROJECT_SOURCE_DIR}/src/storage/*${name}*.c")
    if(component_sources AND TARGET troupe AND NOT CMAKE_CROSSCOMPILING)
        find_package(PkgConfig QUIET)
        if(PkgConfig_FOUND)
            pkg_check_modules(${name} QUIET IMPORTED_TARGET ${module})
        endif()
        if(${name}_FOUND)
            troupe_library(troupe_${name}_static STATIC troupe-${name}
                ${component_sources})
            troupe_library(troupe_${name} SHARED troupe-${name}
                ${component_sources})
            target_link_libraries(troupe_${name}_static
                PUBLIC troupe_static PkgConfig::${name})
            target_link_libraries(troupe_${name}
                PUBLIC troupe PRIVATE PkgConfig::${name})
            set_target_properties(troupe_${name} PROPERTIES
                EXPORT_NAME ${name})
            set_target_properties(troupe_${name}_static PROPERTIES
                EXPORT_NAME ${name}_static)
            list(APPEND troupe_components ${name})
            list(APPEND troupe_component_static troupe_${name}_static)
        else()
            message(WARNING "troupe-${name} left out: no ${module}")
        endif()
    endif()
endmacro()

troupe_component(sqlite sqlite3)
troupe_component(postgres libpq)
