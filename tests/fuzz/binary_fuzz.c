/*
 * binary_fuzz.c - the reader of the compact form takes any bytes.
 */
#include "fuzz_types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_one(&test_codec_binary, data, size);
    return 0;
}
