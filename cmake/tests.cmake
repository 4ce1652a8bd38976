# tests.cmake - every test of the tree, found by its name.
#
#   tests/unit/<layer>/**/<file>_test.c  unit.<layer>.<file> sees internals
#   tests/api/<name>_test.c            api.<name>            shared library
#   tests/first_week/<NN_name>.c       first_week.<NN_name>  shared library
#   tests/sim/<name>_sim.c             sim.<name>            simulated world
#   tests/stress/<name>_stress.c       stress.<name>         real threads
#   tests/crash/<name>_crash.c         crash.<name>          SIGKILL
#   tests/fuzz/<name>_fuzz.c           fuzz.<name>           its corpus
#   tests/hostile/<name>_hostile.c     hostile.<name>        shared library
#   tests/random/*.c                   random.kept           random programs
#   tests/fence/*.c                    fence.short           paused and killed
#   tests/{api,first_week,sim,random,style,model,install}/**/*.sh scripts
#
# tests/support/*.c is linked to all of them. A test's label is the first part
# of its name. TR_TEST_SCALE in the environment scales the long ones.

set(tests "${PROJECT_SOURCE_DIR}/tests")

# troupe_test_properties(<test> <timeout in s> <label>)
# The timeout ends a test that hangs; it is at least ten times the usual time.
function(troupe_test_properties test timeout label)
    set_tests_properties(${test} PROPERTIES
        TIMEOUT ${timeout} LABELS ${label} ENVIRONMENT "${test_environment}"
        SKIP_RETURN_CODE 77)
endfunction()

if(NOT TARGET troupe)
    message(STATUS "troupe: no library, no tests")
    return()
endif()

if(CMAKE_CROSSCOMPILING)
    # Debian's cmocka is for this machine only; see tests/cross/cmocka.h.
    add_library(test_cmocka INTERFACE)
    target_include_directories(test_cmocka INTERFACE "${tests}/cross")
    set(test_launcher ${CMAKE_CROSSCOMPILING_EMULATOR})
else()
    find_package(PkgConfig REQUIRED)
    pkg_check_modules(cmocka IMPORTED_TARGET cmocka)
    if(NOT cmocka_FOUND)
        message(FATAL_ERROR
            "The tests need cmocka: run tools/deps.sh build, "
            "or configure with -DTROUPE_TESTS=OFF.")
    endif()
    add_library(test_cmocka ALIAS PkgConfig::cmocka)
endif()

# The support library may use internals; tests of the API do without it.
file(GLOB support CONFIGURE_DEPENDS "${tests}/support/*.c")
if(support)
    add_library(test_support STATIC ${support})
    target_include_directories(test_support
        PUBLIC "${tests}" PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_libraries(test_support
        PUBLIC test_cmocka PRIVATE troupe_flags troupe_static)
endif()

# troupe_test(<name> <label> <timeout> <source>)
# One program, one CTest; it may include internal headers.
function(troupe_test name label timeout source)
    string(REPLACE "." "_" target "${name}")
    add_executable(${target} ${source})
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/${label}")
    target_include_directories(${target} PRIVATE
        "${PROJECT_SOURCE_DIR}/src" "${tests}")
    target_link_options(${target} PRIVATE LINKER:--as-needed)
    target_link_libraries(${target} PRIVATE
        troupe_flags test_cmocka $<TARGET_NAME_IF_EXISTS:test_support>
        ${troupe_component_static} troupe_static)
    if(CMAKE_CROSSCOMPILING)
        target_link_options(${target} PRIVATE -static)
    endif()
    add_test(NAME ${name} COMMAND ${test_launcher} $<TARGET_FILE:${target}>)
    troupe_test_properties(${name} ${timeout} ${label})
endfunction()

file(GLOB_RECURSE found CONFIGURE_DEPENDS "${tests}/unit/*_test.c")
foreach(source ${found})
    string(REGEX MATCH "/tests/unit/([^/]+)/(.*/)?([^/]+)_test\\.c$" match
        "${source}")
    set(layer "${CMAKE_MATCH_1}")
    set(file "${CMAKE_MATCH_3}")
    if(CMAKE_CROSSCOMPILING AND file STREQUAL "posix_stream")
        continue()  # it replaces malloc, which a static program cannot
    endif()
    if(NOT CMAKE_CROSSCOMPILING OR layer MATCHES "^(base|core)$")
        troupe_test(unit.${layer}.${file} unit 600 ${source})
    endif()
endforeach()

if(CMAKE_CROSSCOMPILING)
    return()
endif()

file(GLOB found CONFIGURE_DEPENDS "${tests}/sim/*_sim.c")
foreach(source ${found})
    string(REGEX MATCH "([^/]+)_sim\\.c$" match "${source}")
    troupe_test(sim.${CMAKE_MATCH_1} sim 900 ${source})
endforeach()

file(GLOB found CONFIGURE_DEPENDS "${tests}/stress/*_stress.c")
foreach(source ${found})
    string(REGEX MATCH "([^/]+)_stress\\.c$" match "${source}")
    set(name stress.${CMAKE_MATCH_1})
    troupe_test(${name} stress 900 ${source})
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
endforeach()

file(GLOB found CONFIGURE_DEPENDS "${tests}/crash/*_crash.c")
foreach(source ${found})
    string(REGEX MATCH "([^/]+)_crash\\.c$" match "${source}")
    troupe_test(crash.${CMAKE_MATCH_1} crash 900 ${source})
endforeach()

# troupe_public_test(<name> <source>): the shared library, public headers only.
function(troupe_public_test name source)
    string(REPLACE "." "_" target "${name}")
    string(REGEX MATCH "^[^.]+" label "${name}")
    add_executable(${target} ${source})
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/${label}")
    target_link_options(${target} PRIVATE LINKER:--as-needed)
    target_link_libraries(${target} PRIVATE troupe_flags test_cmocka troupe)
    foreach(component ${troupe_components})
        target_link_libraries(${target} PRIVATE troupe_${component})
    endforeach()
    add_test(NAME ${name} COMMAND ${test_launcher} $<TARGET_FILE:${target}>)
    troupe_test_properties(${name} 600 ${label})
endfunction()

file(GLOB found CONFIGURE_DEPENDS "${tests}/api/*_test.c")
foreach(source ${found})
    string(REGEX MATCH "([^/]+)_test\\.c$" match "${source}")
    troupe_public_test(api.${CMAKE_MATCH_1} ${source})
endforeach()

# Limits used up, disks that fail, signals: each in a process of its own.
file(GLOB found CONFIGURE_DEPENDS "${tests}/hostile/*_hostile.c")
if(NOT "sqlite" IN_LIST troupe_components)
    set(found "")  # most of them use a store
endif()
foreach(source ${found})
    string(REGEX MATCH "([^/]+)_hostile\\.c$" match "${source}")
    troupe_public_test(hostile.${CMAKE_MATCH_1} ${source})
endforeach()

# What users met in their first week, by number.
file(GLOB found CONFIGURE_DEPENDS "${tests}/first_week/*.c")
foreach(source ${found})
    cmake_path(GET source STEM stem)
    troupe_public_test(first_week.${stem} ${source})
endforeach()
# It starts a server of PostgreSQL; that support sees no internals.
target_sources(first_week_21_delete_and_list_state PRIVATE
    "${tests}/support/postgres.c")
target_include_directories(first_week_21_delete_and_list_state PRIVATE
    "${tests}")

# Random programs: one tester of all its files, public headers only. The test
# runs the seeds that once failed and a few seconds of new ones.
file(GLOB found CONFIGURE_DEPENDS "${tests}/random/*.c")
add_executable(random_programs ${found})
set_target_properties(random_programs PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/random")
target_link_options(random_programs PRIVATE LINKER:--as-needed)
target_link_libraries(random_programs PRIVATE troupe_flags
    ${troupe_component_static} troupe_static)
add_test(NAME random.kept COMMAND ${test_launcher}
    $<TARGET_FILE:random_programs> --kept "${tests}/random/seeds.txt")
troupe_test_properties(random.kept 900 random)

# The fence of a cluster, whose processes are paused and killed, and the test of
# its checker. Pauses and time limits mean little under a sanitizer, so only one
# preset runs it.
if("sqlite" IN_LIST troupe_components)
    file(GLOB found CONFIGURE_DEPENDS "${tests}/fence/*.c")
    list(FILTER found EXCLUDE REGEX "_test\\.c$")
    add_executable(fence ${found})
    set_target_properties(fence PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests/fence")
    target_include_directories(fence PRIVATE "${PROJECT_SOURCE_DIR}/src")
    target_link_options(fence PRIVATE LINKER:--as-needed)
    target_link_libraries(fence PRIVATE troupe_flags
        ${troupe_component_static} troupe_static m)
    troupe_test(fence.history fence 600 "${tests}/fence/history_test.c")
    target_sources(fence_history PRIVATE "${tests}/fence/history.c")
    if(TROUPE_CROSS)
        add_test(NAME fence.short COMMAND $<TARGET_FILE:fence>
            --seconds 10 --seed 1 --updates 12000)
        troupe_test_properties(fence.short 200 fence)
    endif()
endif()

# A fuzz target is one file with LLVMFuzzerTestOneInput. Every preset runs it
# over its corpus as a test; the fuzz preset also builds the fuzzer.
file(GLOB found CONFIGURE_DEPENDS "${tests}/fuzz/*_fuzz.c")
foreach(source ${found})
    string(REGEX MATCH "([^/]+)_fuzz\\.c$" match "${source}")
    set(name "${CMAKE_MATCH_1}")
    troupe_test(fuzz.${name} fuzz 600 ${source})
    target_sources(fuzz_${name} PRIVATE "${tests}/fuzz/replay.c")
    set_property(TEST fuzz.${name} APPEND PROPERTY ENVIRONMENT
        "TR_CORPUS=${tests}/fuzz/corpus/${name}")
    if(TROUPE_FUZZ)
        add_executable(${name}_fuzz ${source})
        target_include_directories(${name}_fuzz PRIVATE
            "${PROJECT_SOURCE_DIR}/src" "${tests}")
        target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
        target_link_libraries(${name}_fuzz PRIVATE
            troupe_flags ${troupe_component_static} troupe_static)
        set_target_properties(${name}_fuzz PROPERTIES
            RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
    endif()
endforeach()

if(TROUPE_SCRIPTS)
    # Models, pages and packages do not depend on the compiler: one preset
    # tests them.
    set(areas api sim random first_week)
    if(TROUPE_CROSS)
        list(APPEND areas style install model)
    endif()
    foreach(area ${areas})
        file(GLOB_RECURSE found CONFIGURE_DEPENDS "${tests}/${area}/*.sh")
        foreach(script ${found})
            execute_process(COMMAND test -x "${script}" RESULT_VARIABLE no)
            if(NOT no EQUAL 0)
                continue()  # sourced by others
            endif()
            cmake_path(GET script STEM stem)
            string(REGEX REPLACE "_test$" "" stem "${stem}")
            set(name ${area}.${stem})
            add_test(NAME ${name} COMMAND "${script}"
                WORKING_DIRECTORY "${PROJECT_BINARY_DIR}")
            set(limit 900)
            if(area STREQUAL "model")
                set(limit 900)  # Spin computes all the time
            endif()
            troupe_test_properties(${name} ${limit} ${area})
            set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
                "TR_SOURCE_DIR=${PROJECT_SOURCE_DIR}"
                "TR_BUILD_DIR=${PROJECT_BINARY_DIR}"
                "TR_CC=${CMAKE_C_COMPILER}"
                "TR_VERSION=${PROJECT_VERSION}")
        endforeach()
    endforeach()
endif()

if(TROUPE_CROSS)
    find_program(cross_cc aarch64-linux-gnu-gcc)
    find_program(cross_qemu qemu-aarch64)
    if(cross_cc AND cross_qemu)
        add_test(NAME cross.aarch64 COMMAND "${tests}/cross/run.sh"
            "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/aarch64")
        troupe_test_properties(cross.aarch64 900 cross)
    else()
        message(STATUS "troupe: no aarch64 compiler or qemu, not tested")
    endif()
endif()
