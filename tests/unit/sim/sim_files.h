/*
 * sim_files.h - helpers for tests of simulated files.
 */
#ifndef TEST_SIM_FILES_H
#define TEST_SIM_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/world.h"
#include "sim/sim_disk.h"
#include "support/toy_world.h"

#define READ_WRITE (TRI_FILE_READ | TRI_FILE_WRITE)
#define NEW        (READ_WRITE | TRI_FILE_CREATE)

enum { SECTORS = 8, BLOCK = SECTORS * 512 };

static inline tri_file *open_file(tri_world *world, const char *path,
                                  uint32_t flags)
{
    tri_file *file;

    assert_int_equal(world->ops->file_open(world, &file, path, flags), TR_OK);
    return file;
}

/* Writes a text. */
static inline void put(tri_file *file, const char *text, uint64_t offset)
{
    assert_int_equal(tri_sim_file_write(file, text, strlen(text), offset),
                     TR_OK);
}

/* Checks that the text is at the offset, and that the file ends there. */
static inline void expect(tri_file *file, const char *text, uint64_t offset)
{
    char got[256] = {0};
    size_t done;

    assert_int_equal(
        tri_sim_file_read(file, got, sizeof(got) - 1, offset, &done), TR_OK);
    assert_int_equal(done, strlen(text));
    assert_string_equal(got, text);
}

/* Fills a block with one byte. */
static inline void fill(tri_file *file, char byte, uint64_t block)
{
    char bytes[BLOCK];

    memset(bytes, byte, sizeof(bytes));
    assert_int_equal(
        tri_sim_file_write(file, bytes, sizeof(bytes), block * BLOCK), TR_OK);
}

#endif
