/*
 * wire.h - writes and reads numbers and byte strings.
 *
 * A writer grows its buffer; without memory it notes `failed` and goes on. A
 * reader never goes beyond its bytes and notes `failed` if it would have. So
 * `failed` is looked at once, at the end. Numbers are lowest byte first.
 *
 * Threads: those of the owner. Ownership: a writer owns its bytes until they
 * are taken; a reader borrows, and what it returns points into its bytes.
 */
#ifndef TRI_CLUSTER_WIRE_H
#define TRI_CLUSTER_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/cell/mem.h"
#include "troupe/message.h"

typedef struct tri_writer {
    tri_mem *mem;
    unsigned char *bytes;
    size_t size, room;
    bool failed;  // out of memory
} tri_writer;

typedef struct tri_reader {
    const unsigned char *at, *end;
    bool failed;  // fewer bytes were there than asked for
} tri_reader;

/* Returns room for `size` more bytes, or NULL without memory. */
static inline unsigned char *tri_write_room(tri_writer *w, size_t size)
{
    TRI_CHECK_SLOW(w->size <= w->room);
    if (w->size + size > w->room && !w->failed) {
        size_t room = (w->size + size) * 2 + 64;
        unsigned char *bytes = w->mem != NULL && tri_mem_should_fail(w->mem)
                                   ? NULL
                                   : realloc(w->bytes, room);
        w->failed = bytes == NULL;
        if (bytes != NULL) {
            w->bytes = bytes;
            w->room = room;
        }
    }
    if (w->failed) {
        return NULL;
    }
    w->size += size;
    return w->bytes + w->size - size;
}

static inline void tri_write_number(tri_writer *w, uint64_t value, size_t size)
{
    TRI_CHECK_SLOW(size <= sizeof(value));
    unsigned char *at = tri_write_room(w, size);
    for (size_t i = 0; at != NULL && i < size; i++) {
        at[i] = (unsigned char)(value >> 8 * i);
    }
}

static inline void tri_write_u8(tri_writer *w, uint8_t value)
{
    tri_write_number(w, value, 1);
}

static inline void tri_write_u16(tri_writer *w, uint16_t value)
{
    tri_write_number(w, value, 2);
}

static inline void tri_write_u32(tri_writer *w, uint32_t value)
{
    tri_write_number(w, value, 4);
}

static inline void tri_write_u64(tri_writer *w, uint64_t value)
{
    tri_write_number(w, value, 8);
}

/* Writes the length in four bytes, then the bytes. */
static inline void tri_write_bytes(tri_writer *w, const void *bytes,
                                   size_t size)
{
    tri_write_u32(w, (uint32_t)size);
    unsigned char *at = tri_write_room(w, size);
    if (at != NULL && size > 0) {
        memcpy(at, bytes, size);
    }
}

static inline void tri_write_text(tri_writer *w, const char *text)
{
    tri_write_bytes(w, text, strlen(text));
}

static inline uint64_t tri_read_number(tri_reader *r, size_t size)
{
    TRI_CHECK_SLOW(r->at <= r->end && size <= sizeof(uint64_t));
    uint64_t value = 0;
    if ((size_t)(r->end - r->at) < size) {
        r->failed = true;
        r->at = r->end;
        return 0;
    }
    for (size_t i = 0; i < size; i++) {
        value |= (uint64_t)r->at[i] << 8 * i;
    }
    r->at += size;
    return value;
}

static inline uint8_t tri_read_u8(tri_reader *r)
{
    return (uint8_t)tri_read_number(r, 1);
}

static inline uint16_t tri_read_u16(tri_reader *r)
{
    return (uint16_t)tri_read_number(r, 2);
}

static inline uint32_t tri_read_u32(tri_reader *r)
{
    return (uint32_t)tri_read_number(r, 4);
}

static inline uint64_t tri_read_u64(tri_reader *r)
{
    return tri_read_number(r, 8);
}

static inline tr_bytes tri_read_bytes(tri_reader *r)
{
    size_t size = tri_read_u32(r);
    if ((size_t)(r->end - r->at) < size) {
        r->failed = true;
        r->at = r->end;
        return (tr_bytes){0};
    }
    const unsigned char *at = r->at;
    r->at += size;
    return (tr_bytes){at, size};
}

/*
 * Reads a text of at most `max` bytes into buf, which has room for a NUL more.
 */
static inline void tri_read_text(tri_reader *r, char *buf, size_t max)
{
    TRI_CHECK(buf != NULL);
    tr_bytes text = tri_read_bytes(r);
    if (text.size > max ||
        (text.size > 0 && memchr(text.at, '\0', text.size) != NULL)) {
        r->failed = true;
        text.size = 0;
    }
    if (text.size > 0) {
        memcpy(buf, text.at, text.size);
    }
    buf[text.size] = '\0';
}

#endif
