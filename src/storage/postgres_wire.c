/*
 * postgres_wire.c - numbers in network order, arrays with their headers.
 *
 * An array is: the number of dimensions (1), whether it has NULLs (0), the
 * type of the elements, the count, the first index (1); then each element as
 * size and bytes. An empty array has 0 dimensions and ends after the type.
 */
#include "storage/postgres_wire.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define BUFFER_MIN 4096

/* ---- parameters ---- */

void tri_pg_params_fini(tri_pg_params *params)
{
    free(params->buffer);
    memset(params, 0, sizeof(*params));
}

void tri_pg_begin(tri_pg_params *params)
{
    params->used = 0;
    params->failed = false;
    params->count = 0;
}

/* Copies bytes to the end of the buffer. */
static void put(tri_pg_params *params, const void *bytes, size_t size)
{
    if (params->capacity - params->used < size) {
        size_t capacity = TRI_MAX(params->capacity, BUFFER_MIN);
        while (capacity - params->used < size) {
            capacity *= 2;
        }
        char *buffer =
            params->failed ? NULL : realloc(params->buffer, capacity);
        if (buffer == NULL) {
            params->failed = true;
            return;
        }
        params->buffer = buffer;
        params->capacity = capacity;
    }
    if (size > 0) {
        memcpy(params->buffer + params->used, bytes, size);
        params->used += size;
    }
}

static void put_number(tri_pg_params *params, uint64_t number, size_t size)
{
    unsigned char bytes[8];

    TRI_CHECK(size <= sizeof(bytes));
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (unsigned char)(number >> (8 * (size - 1 - i)));
    }
    put(params, bytes, size);
}

/* Begins a parameter: borrowed, or in the buffer from here on. */
static void add(tri_pg_params *params, const void *borrowed, size_t size)
{
    TRI_CHECK(params->count < TRI_PG_PARAMS_MAX);
    params->starts[params->count] = params->used;
    params->borrowed[params->count] = borrowed;
    params->sizes[params->count] = (int)size;
    params->count++;
}

void tri_pg_add4(tri_pg_params *params, uint32_t number)
{
    add(params, NULL, 4);
    put_number(params, number, 4);
}

void tri_pg_add8(tri_pg_params *params, uint64_t number)
{
    add(params, NULL, 8);
    put_number(params, number, 8);
}

void tri_pg_add_bytes(tri_pg_params *params, tri_store_bytes bytes)
{
    // Not NULL if empty: libpq would send an SQL NULL.
    add(params, bytes.size == 0 ? "" : bytes.at, bytes.size);
}

void tri_pg_add_array(tri_pg_params *params, Oid element, uint32_t count)
{
    add(params, NULL, 0);
    put_number(params, count > 0, 4);
    put_number(params, 0, 4);
    put_number(params, element, 4);
    if (count > 0) {
        put_number(params, count, 4);
        put_number(params, 1, 4);
    }
}

void tri_pg_put4(tri_pg_params *params, uint32_t number)
{
    put_number(params, 4, 4);
    put_number(params, number, 4);
}

void tri_pg_put8(tri_pg_params *params, uint64_t number)
{
    put_number(params, 8, 4);
    put_number(params, number, 8);
}

void tri_pg_put_bytes(tri_pg_params *params, tri_store_bytes bytes)
{
    put_number(params, bytes.size, 4);
    put(params, bytes.at, bytes.size);
}

bool tri_pg_finish(tri_pg_params *params)
{
    TRI_CHECK(params->count <= TRI_PG_PARAMS_MAX);
    if (params->failed) {
        return false;
    }
    for (int i = 0; i < params->count; i++) {
        size_t end =
            i + 1 < params->count ? params->starts[i + 1] : params->used;
        if (params->borrowed[i] != NULL) {
            params->values[i] = params->borrowed[i];
        } else {
            params->values[i] = params->buffer + params->starts[i];
            params->sizes[i] = (int)(end - params->starts[i]);
        }
    }
    return true;
}

/* ---- results ---- */

static uint64_t read_number(const unsigned char *at, size_t size)
{
    uint64_t number = 0;

    for (size_t i = 0; i < size; i++) {
        number = number << 8 | at[i];
    }
    return number;
}

tri_store_bytes tri_pg_bytes(const PGresult *result, int row, int column)
{
    return (tri_store_bytes){PQgetvalue(result, row, column),
                             (size_t)PQgetlength(result, row, column)};
}

uint64_t tri_pg_number_of(tri_store_bytes element)
{
    TRI_CHECK(element.size <= 8);
    return read_number(element.at, element.size);
}

uint64_t tri_pg_number(const PGresult *result, int row, int column)
{
    return tri_pg_number_of(tri_pg_bytes(result, row, column));
}

#define ARRAY_HEAD 20
#define ARRAY_LEFT 12  // offset of the count

tri_pg_walk tri_pg_walk_begin(const PGresult *result, int row, int column)
{
    tri_store_bytes bytes = tri_pg_bytes(result, row, column);
    const unsigned char *at = bytes.at;

    if (bytes.size < ARRAY_HEAD) {
        return (tri_pg_walk){NULL, NULL, 0};
    }
    return (tri_pg_walk){at + ARRAY_HEAD, at + bytes.size,
                         (uint32_t)read_number(at + ARRAY_LEFT, 4)};
}

bool tri_pg_walk_next(tri_pg_walk *walk, tri_store_bytes *element)
{
    if (walk->left == 0 || walk->end - walk->at < 4) {
        return false;
    }
    size_t size = (size_t)read_number(walk->at, 4);
    walk->at += 4;
    if (size > (size_t)(walk->end - walk->at)) {
        return false;  // NULL has a size of -1; our queries give none
    }
    *element = (tri_store_bytes){walk->at, size};
    walk->at += size;
    walk->left--;
    return true;
}
