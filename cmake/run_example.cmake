# run_example.cmake - runs PROGRAM; its output must be the file EXPECTED.

execute_process(COMMAND ${PROGRAM}
    RESULT_VARIABLE status OUTPUT_VARIABLE output)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "ended with ${status}; it printed:\n${output}")
endif()
if(NOT EXISTS "${EXPECTED}")
    return()
endif()
file(READ "${EXPECTED}" expected)
if(NOT output STREQUAL expected)
    message(FATAL_ERROR
        "wanted:\n${expected}\n--- it printed:\n${output}\n---")
endif()
