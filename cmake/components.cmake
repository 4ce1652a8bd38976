# components.cmake - the parts of Troupe that need another library.
#
# Each is a library of its own with its own pkg-config name, so that libtroupe
# stays free of dependencies. A component without sources, or without its
# library on this machine, is left out.
#
# libtroupe hides its internals, and a component needs some of them (maps,
# logging, checks). Its shared library has its own, hidden copy of them: the
# code keeps no state, so two copies do not disturb each other.

set(troupe_components "")         # names: sqlite, postgres
set(troupe_component_static "")   # targets that programs may link

# troupe_component(<name> <pkg-config module>)
macro(troupe_component name module)
    file(GLOB_RECURSE component_sources CONFIGURE_DEPENDS
        "${PROJECT_SOURCE_DIR}/src/*.c")
    list(FILTER component_sources INCLUDE REGEX "/src/.*${name}")
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
            if(NOT TARGET troupe_internals)
                add_library(troupe_internals STATIC
                    $<TARGET_OBJECTS:troupe_objects>)
                set_target_properties(troupe_internals PROPERTIES
                    LINKER_LANGUAGE C)
            endif()
            # libtroupe first: its exported symbols must not be duplicated.
            target_link_libraries(troupe_${name} PUBLIC troupe PRIVATE
                $<BUILD_INTERFACE:troupe_internals> PkgConfig::${name})
            target_link_options(troupe_${name} PRIVATE
                LINKER:--exclude-libs,ALL)
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

# tr_cluster_join opens the SQLite engine by a weak symbol, which alone makes
# no linker take the component. A program that names the component gets it.
set(troupe_sqlite_engine "LINKER:-u,tr_engine_sqlite")
if("sqlite" IN_LIST troupe_components)
    foreach(target troupe_sqlite troupe_sqlite_static)
        target_link_options(${target} INTERFACE
            "$<INSTALL_INTERFACE:${troupe_sqlite_engine}>")
    endforeach()
endif()
