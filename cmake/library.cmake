# library.cmake - libtroupe, static and shared: libc and pthreads, no more.

set(troupe_sources "")
foreach(layer base core system schema sim cluster)
    file(GLOB found CONFIGURE_DEPENDS
        "${PROJECT_SOURCE_DIR}/src/${layer}/*.c"
        "${PROJECT_SOURCE_DIR}/src/${layer}/*.S")
    list(APPEND troupe_sources ${found})
endforeach()
file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/storage/*.c")
list(FILTER found EXCLUDE REGEX "sqlite|postgres")
list(APPEND troupe_sources ${found})

# troupe_flags_of(<target>): what every target of library code is built with.
function(troupe_flags_of target)
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
    target_include_directories(${target}
        PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
               "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
        PRIVATE "${PROJECT_SOURCE_DIR}/src")
    # A wrong pointer handed to a typed call is an error for users as well:
    # before gcc 14 the compilers only warn.
    target_compile_options(${target} PUBLIC
        "$<$<COMPILE_LANGUAGE:C>:-Werror=incompatible-pointer-types>"
        "$<$<COMPILE_LANGUAGE:C>:-Werror=int-conversion>")
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:troupe_flags>)
endfunction()

# troupe_pic_flags(<target>): and what goes into a shared library.
function(troupe_pic_flags target)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    # initial-exec: a thread-local of the library is one load, not a call of
    # __tls_get_addr; glibc keeps room for it when loaded by dlopen.
    target_compile_options(${target} PRIVATE
        $<$<COMPILE_LANGUAGE:C>:-fno-semantic-interposition>
        $<$<COMPILE_LANGUAGE:C>:-ftls-model=initial-exec>)
endfunction()

# troupe_library(<target> STATIC|SHARED <output name> <sources>...)
function(troupe_library target kind output)
    add_library(${target} ${kind} ${ARGN})
    troupe_flags_of(${target})
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${output}
        VERSION ${PROJECT_VERSION}
        SOVERSION ${PROJECT_VERSION_MAJOR})
    if(kind STREQUAL SHARED)
        troupe_pic_flags(${target})
        # nodelete: slots of other objects may lead into it (sim_stray.c).
        target_link_options(${target} PRIVATE
            LINKER:--as-needed,-z,relro,-z,now,-z,nodelete)
        if(NOT TROUPE_SANITIZE AND NOT TROUPE_FUZZ)
            target_link_options(${target} PRIVATE LINKER:-z,defs)
        endif()
    endif()
endfunction()

if(troupe_sources)
    # Compiled twice: the static library is not slowed by what a shared one
    # needs.
    add_library(troupe_objects OBJECT ${troupe_sources})
    troupe_flags_of(troupe_objects)
    troupe_pic_flags(troupe_objects)

    troupe_library(troupe_static STATIC troupe ${troupe_sources})
    troupe_library(troupe SHARED troupe $<TARGET_OBJECTS:troupe_objects>)
    set_target_properties(troupe PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(troupe_static PUBLIC Threads::Threads)
    target_link_libraries(troupe PUBLIC Threads::Threads)
    set_target_properties(troupe_static PROPERTIES EXPORT_NAME static)
    add_library(troupe::static ALIAS troupe_static)
    add_library(troupe::troupe ALIAS troupe)
else()
    message(STATUS "troupe: no sources yet, no library")
endif()
