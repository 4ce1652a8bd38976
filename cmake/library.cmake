# library.cmake - libtroupe, static and shared; it needs only libc and pthreads.

# A source below src/ belongs to libtroupe, in whatever folder of its layer,
# unless its path names a component (components.cmake).
file(GLOB_RECURSE troupe_sources CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/src/*.c" "${PROJECT_SOURCE_DIR}/src/*.S")
list(FILTER troupe_sources EXCLUDE REGEX "/src/.*(sqlite|postgres)")

# troupe_flags_of(<target>): sets the flags of every target of library code.
function(troupe_flags_of target)
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
    target_include_directories(${target}
        PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
               "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
        PRIVATE "${PROJECT_SOURCE_DIR}/src")
    # Large locals of handlers touch each page of their stack, so that an
    # overflow always hits the guard below it.
    target_compile_options(${target} INTERFACE
        "$<$<COMPILE_LANGUAGE:C,CXX>:-fstack-clash-protection>")
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:troupe_flags>)
endfunction()

# troupe_pic_flags(<target>): adds the flags of code in a shared library.
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
        # nodelete: sim_stray.c makes other objects point into this library.
        target_link_options(${target} PRIVATE
            LINKER:--as-needed,-z,relro,-z,now,-z,nodelete)
        if(NOT TROUPE_SANITIZE AND NOT TROUPE_FUZZ)
            target_link_options(${target} PRIVATE LINKER:-z,defs)
        endif()
    endif()
endfunction()

if(troupe_sources)
    add_library(troupe_objects OBJECT ${troupe_sources})
    troupe_flags_of(troupe_objects)
    troupe_pic_flags(troupe_objects)

    # What is installed is compiled twice: the static library does without
    # position-independent code, which is slower. Other builds share it.
    if(CMAKE_BUILD_TYPE STREQUAL "Debug")
        set(static_sources $<TARGET_OBJECTS:troupe_objects>)
    else()
        set(static_sources ${troupe_sources})
    endif()
    troupe_library(troupe_static STATIC troupe ${static_sources})
    troupe_library(troupe SHARED troupe $<TARGET_OBJECTS:troupe_objects>)
    set_target_properties(troupe troupe_static PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(troupe_static PUBLIC Threads::Threads)
    target_link_libraries(troupe PUBLIC Threads::Threads)
    set_target_properties(troupe_static PROPERTIES EXPORT_NAME static)
    add_library(troupe::static ALIAS troupe_static)
    add_library(troupe::troupe ALIAS troupe)
else()
    message(STATUS "troupe: no sources yet, no library")
endif()
