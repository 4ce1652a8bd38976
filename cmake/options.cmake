# options.cmake - build options and the flags every target is compiled with.

option(TROUPE_WERROR "Warnings are errors" OFF)
option(TROUPE_TORTURE "Tiny queues, batch of one, a yield at every point" OFF)
option(TROUPE_TESTS "Build the tests" ON)
option(TROUPE_SCRIPTS "Run the tests that are scripts" ON)
option(TROUPE_CROSS "Test the aarch64 build under qemu" OFF)
option(TROUPE_BENCH "Build troupe-bench" ON)
option(TROUPE_FUZZ "Build the libFuzzer programs (clang)" OFF)
option(TROUPE_COVERAGE "Count executed lines" OFF)
set(TROUPE_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Debug information costs no speed and makes a profile or a core file of a
# release readable. NDEBUG drops only TRI_CHECK_SLOW; TRI_CHECK is always on.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g -fno-plt -DNDEBUG")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3 -fno-omit-frame-pointer")
set(CMAKE_ASM_FLAGS_RELEASE "-g")
set(CMAKE_ASM_FLAGS_DEBUG "-g")

include(GNUInstallDirs)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Warnings for our own code; programs that use the library do not get them.
add_library(troupe_flags INTERFACE)
set(c_flags
    -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla
    # Floating point gives the same bits on every machine: a simulation must
    # replay by its seed.
    -ffp-contract=off)
if(TROUPE_WERROR)
    list(APPEND c_flags -Werror)
endif()
target_compile_options(troupe_flags INTERFACE
    "$<$<COMPILE_LANGUAGE:C>:${c_flags}>")

if(TROUPE_TORTURE)
    target_compile_definitions(troupe_flags INTERFACE TRI_TORTURE=1)
endif()

set(test_environment "")
set(test_launcher "")
if(TROUPE_SANITIZE)
    set(sanitize_flags -fsanitize=${TROUPE_SANITIZE} -fno-omit-frame-pointer)
    if(TROUPE_SANITIZE MATCHES undefined)
        list(APPEND sanitize_flags -fno-sanitize-recover=all)
    endif()
    target_compile_options(troupe_flags INTERFACE -O1 ${sanitize_flags})
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # The code of the sanitizer confuses these two warnings of gcc.
        target_compile_options(troupe_flags INTERFACE -Wno-format-truncation
            -Wno-format-overflow)
    endif()
    target_link_options(troupe_flags INTERFACE ${sanitize_flags})
    list(APPEND test_environment
        "ASAN_OPTIONS=abort_on_error=0:detect_leaks=1"
        "UBSAN_OPTIONS=print_stacktrace=1"
        "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1")
    if(TROUPE_SANITIZE MATCHES thread)
        # TSan of clang 14 fails with the wide address randomisation of newer
        # kernels. A container may forbid to switch that off.
        execute_process(COMMAND setarch -R true
            RESULT_VARIABLE no_setarch OUTPUT_QUIET ERROR_QUIET)
        if(no_setarch EQUAL 0)
            set(test_launcher setarch -R)
        endif()
    endif()
endif()

if(TROUPE_COVERAGE)
    # Atomic: workers count at the same time. No inlining: a branch is counted
    # once, not once for every caller.
    target_compile_options(troupe_flags INTERFACE --coverage
        -fprofile-update=atomic -Dalways_inline=unused)
    # --undefined: links __gcov_dump, which tests/support/dying.h calls.
    target_link_options(troupe_flags INTERFACE --coverage
        LINKER:--undefined=__gcov_dump)
endif()

if(TROUPE_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL Clang)
        message(FATAL_ERROR "TROUPE_FUZZ needs clang (libFuzzer)")
    endif()
    target_compile_options(troupe_flags INTERFACE -fsanitize=fuzzer-no-link)
    target_link_options(troupe_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Some four hundred test programs are linked: lld needs half the time of ld.
# What is installed is linked by the compiler's own linker.
find_program(troupe_lld ld.lld)
if(troupe_lld AND CMAKE_BUILD_TYPE STREQUAL "Debug" AND NOT CMAKE_CROSSCOMPILING
   AND NOT TROUPE_COVERAGE AND NOT TROUPE_FUZZ)
    add_link_options(-fuse-ld=lld)
endif()
