# programs.cmake - examples, the demo and the benchmark.
#
# All of them see only the public headers. An example is examples/NN_name.c or
# a folder examples/NN_name with main.c and what belongs to it. With an
# expected output beside it (NN_name.expected, NN_name/expected.txt) the tests
# run it and compare; without one they only look at its exit status. A server
# has a test that starts it and talks to it: tests/examples/NN_name.py, or .sh.

# troupe_program(<target> <folder in the build> <sources>...)
function(troupe_program target folder)
    add_executable(${target} ${ARGN})
    set_target_properties(${target} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/${folder}")
    target_link_options(${target} PRIVATE LINKER:--as-needed)
    target_link_libraries(${target} PRIVATE
        troupe_flags ${troupe_component_static} troupe_static)
    if("sqlite" IN_LIST troupe_components)
        target_link_options(${target} PRIVATE ${troupe_sqlite_engine})
    endif()
endfunction()

function(troupe_example name expected)
    troupe_program(example_${name} examples ${ARGN})
    set_target_properties(example_${name} PROPERTIES OUTPUT_NAME ${name})
    if(NOT TROUPE_TESTS)
        return()
    endif()
    file(GLOB script CONFIGURE_DEPENDS
        "${PROJECT_SOURCE_DIR}/tests/examples/${name}.py"
        "${PROJECT_SOURCE_DIR}/tests/examples/${name}.sh")
    if(script)
        add_test(NAME example.${name} COMMAND "${script}"
            ${test_launcher} $<TARGET_FILE:example_${name}>)
        troupe_test_properties(example.${name} 600 example)
    else()
        add_test(NAME example.${name} COMMAND ${CMAKE_COMMAND}
            "-DPROGRAM=${test_launcher};$<TARGET_FILE:example_${name}>"
            "-DEXPECTED=${expected}"
            -P "${PROJECT_SOURCE_DIR}/cmake/run_example.cmake")
        troupe_test_properties(example.${name} 120 example)
    endif()
endfunction()

if(TARGET troupe_static AND NOT CMAKE_CROSSCOMPILING)
    file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
    foreach(source ${found})
        cmake_path(GET source STEM name)
        troupe_example(${name}
            "${PROJECT_SOURCE_DIR}/examples/${name}.expected" ${source})
    endforeach()

    file(GLOB found CONFIGURE_DEPENDS
        "${PROJECT_SOURCE_DIR}/examples/*/main.c")
    foreach(source ${found})
        cmake_path(GET source PARENT_PATH folder)
        cmake_path(GET folder FILENAME name)
        file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.c")
        troupe_example(${name} "${folder}/expected.txt" ${sources})
    endforeach()

    file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/demo/*.c")
    if(found)
        troupe_program(bank demo ${found})
        target_compile_definitions(bank PRIVATE
            BANK_POSTGRES=$<TARGET_EXISTS:troupe_postgres_static>)
    endif()

    file(GLOB found CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*.c")
    # A workload of a component is left out with the component.
    foreach(component sqlite postgres)
        if(NOT component IN_LIST troupe_components)
            list(FILTER found EXCLUDE REGEX "/wl_${component}\\.c$")
        endif()
    endforeach()
    if(found AND TROUPE_BENCH)
        troupe_program(troupe-bench bench ${found})
        foreach(component ${troupe_components})
            string(TOUPPER ${component} name)
            target_compile_definitions(troupe-bench PRIVATE BENCH_${name})
        endforeach()
        if("postgres" IN_LIST troupe_components)
            target_sources(troupe-bench PRIVATE
                "${PROJECT_SOURCE_DIR}/tests/support/postgres.c")
            target_include_directories(troupe-bench PRIVATE
                "${PROJECT_SOURCE_DIR}/tests")
        endif()
        if("sqlite" IN_LIST troupe_components)
            troupe_program(cluster-bench bench
                "${PROJECT_SOURCE_DIR}/bench/cluster/cluster_bench.c")
        endif()
        find_package(PkgConfig QUIET)
        if(PkgConfig_FOUND)
            pkg_check_modules(cjson QUIET IMPORTED_TARGET libcjson)
        endif()
        if(cjson_FOUND)
            target_link_libraries(troupe-bench PRIVATE PkgConfig::cjson)
            target_compile_definitions(troupe-bench PRIVATE BENCH_CJSON)
        endif()
    endif()
endif()
