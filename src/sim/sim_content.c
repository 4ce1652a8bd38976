/*
 * sim_content.c - the bytes of a simulated file, in chunks.
 *
 * Invariant: a byte at or beyond `size` is zero in every chunk that exists, so
 * a file that grows again shows zeros there.
 */
#include "sim/sim_content.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

/* Makes room for pointers to all chunks up to `size`. */
static bool content_reserve(tri_content *it, uint64_t size)
{
    uint64_t count = (size + TRI_SIM_CHUNK - 1) / TRI_SIM_CHUNK;

    if (count <= it->count) {
        return true;
    }
    uint64_t room = count + it->count / 2;
    char **chunks = realloc(it->chunks, room * sizeof(*chunks));
    if (chunks == NULL) {
        return false;
    }
    memset(chunks + it->count, 0, (room - it->count) * sizeof(*chunks));
    it->chunks = chunks;
    it->count = room;
    return true;
}

/* Returns the chunk, made if it is missing; NULL without memory. */
static char *chunk_of(tri_content *it, uint64_t index)
{
    TRI_CHECK(index < it->count);
    if (it->chunks[index] == NULL) {
        it->chunks[index] = calloc(1, TRI_SIM_CHUNK);
    }
    return it->chunks[index];
}

/* Returns how much of [offset, offset + size) is in the chunk of offset. */
static size_t span_at(uint64_t offset, size_t size)
{
    size_t left = TRI_SIM_CHUNK - (size_t)(offset % TRI_SIM_CHUNK);

    return size < left ? size : left;
}

bool tri_content_write(tri_content *it, const char *at, size_t size,
                       uint64_t offset)
{
    TRI_CHECK(offset <= UINT64_MAX - size);
    if (!content_reserve(it, offset + size)) {
        return false;
    }
    while (size > 0) {
        size_t span = span_at(offset, size);
        char *chunk = chunk_of(it, offset / TRI_SIM_CHUNK);
        if (chunk == NULL) {
            return false;
        }
        memcpy(chunk + offset % TRI_SIM_CHUNK, at, span);
        at += span;
        offset += span;
        size -= span;
    }
    it->size = tri_max(it->size, offset);
    return true;
}

size_t tri_content_read(const tri_content *it, char *at, size_t size,
                        uint64_t offset)
{
    if (offset >= it->size) {
        return 0;
    }
    size = (size_t)tri_min(size, it->size - offset);
    for (size_t done = 0; done < size;) {
        size_t span = span_at(offset, size - done);
        uint64_t index = offset / TRI_SIM_CHUNK;
        const char *chunk = index < it->count ? it->chunks[index] : NULL;
        if (chunk != NULL) {
            memcpy(at + done, chunk + offset % TRI_SIM_CHUNK, span);
        } else {
            memset(at + done, 0, span);
        }
        done += span;
        offset += span;
    }
    return size;
}

bool tri_content_resize(tri_content *it, uint64_t size)
{
    if (!content_reserve(it, size)) {
        return false;
    }
    // Bytes that are cut off must read as zeros if the file grows again.
    for (uint64_t at = size; at < it->size;) {
        size_t span = span_at(at, (size_t)tri_min(it->size - at, SIZE_MAX));
        char *chunk = it->chunks[at / TRI_SIM_CHUNK];
        if (chunk != NULL) {
            memset(chunk + at % TRI_SIM_CHUNK, 0, span);
        }
        at += span;
    }
    it->size = size;
    return true;
}

void tri_content_fini(tri_content *it)
{
    for (uint64_t i = 0; i < it->count; i++) {
        free(it->chunks[i]);
    }
    free(it->chunks);
    *it = (tri_content){0};
}

bool tri_content_copy(tri_content *to, const tri_content *from)
{
    TRI_CHECK(to != from);
    if (!tri_content_resize(to, 0) || !tri_content_resize(to, from->size)) {
        return false;
    }
    for (uint64_t i = 0; i < from->count && i < to->count; i++) {
        if (from->chunks[i] == NULL) {
            continue;
        }
        char *chunk = chunk_of(to, i);
        if (chunk == NULL) {
            return false;
        }
        memcpy(chunk, from->chunks[i], TRI_SIM_CHUNK);
    }
    return true;
}

void *tri_content_at(tri_content *it, uint64_t offset, size_t size)
{
    TRI_CHECK(span_at(offset, size) == size);
    char *chunk = chunk_of(it, offset / TRI_SIM_CHUNK);

    return chunk != NULL ? chunk + offset % TRI_SIM_CHUNK : NULL;
}
