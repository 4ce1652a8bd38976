/*
 * schema_types.h - message types and helpers that the schema tests share.
 */
#ifndef SCHEMA_TYPES_H
#define SCHEMA_TYPES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/message.h>

#include "schema/allocator.h"

typedef enum colour { RED, GREEN = 7 } colour;

TR_MESSAGE(Empty);
TR_MESSAGE(Deposit, (int64_t, cents), (const char *, memo));
TR_MESSAGE(Numbers, (bool, yes), (int8_t, i8), (int16_t, i16), (int32_t, i32),
           (int64_t, i64), (uint8_t, u8), (uint16_t, u16), (uint32_t, u32),
           (uint64_t, u64), (float, single), (double, number), (colour, paint));
TR_MESSAGE(Eight, (int64_t, a), (int64_t, b), (int64_t, c), (int64_t, d),
           (int64_t, e), (int64_t, f), (int64_t, g), (int64_t, h));
TR_MESSAGE(Line, (const char *, text), (double, price), (tr_bytes, data));
TR_MESSAGE(Order, (uint32_t, id), (nested, Line, first), (list, Line, lines),
           (array, double, weights), (fixed, uint8_t, key, 4), (tr_blob, photo),
           (tr_ref, owner), (array, bool, flags), (array, tr_bytes, parts),
           (list, Empty, ticks));
TR_MESSAGE(Book, (const char *, title), (list, Order, orders),
           (nested, Numbers, totals));
TR_MESSAGE(Blobs, (tr_blob, one), (array, tr_blob, more), (int32_t, rest));
TR_MESSAGE(Person, (const char *, name), (optional, int32_t, age),
           (optional, bool, member), (optional, double, height),
           (optional, tr_bytes, photo), (optional, nested, Deposit, last),
           (optional, nested, Blobs, files), (optional, colour, favourite));
TR_MESSAGE(Crowd, (optional, nested, Person, first), (list, Person, people),
           (optional, nested, Eight, counts));

static const tr_type *const all_types[] = {
    &Empty_tr_type,  &Deposit_tr_type, &Numbers_tr_type, &Eight_tr_type,
    &Line_tr_type,   &Order_tr_type,   &Book_tr_type,    &Blobs_tr_type,
    &Person_tr_type, &Crowd_tr_type,
};
enum { ALL_TYPES = sizeof(all_types) / sizeof(all_types[0]) };

/* Large enough for a value of any of these types. */
typedef union any_value {
    Order order;
    Book book;
    Numbers numbers;
    Crowd crowd;
    char room[512];
} any_value;

/* An allocator that counts its pieces and fails the n-th allocation. */
typedef struct failing {
    unsigned calls;
    unsigned fail_at;  // 0: never
    long live;
} failing;

static inline void *failing_alloc(void *user, size_t size)
{
    failing *f = user;

    if (++f->calls == f->fail_at) return NULL;
    f->live++;
    return malloc(size);
}

static inline void *failing_alloc_shared(void *user, size_t size)
{
    failing *f = user;

    if (++f->calls == f->fail_at) return NULL;
    return malloc(size);
}

static inline void failing_release(void *user, void *at)
{
    failing *f = user;

    f->live--;
    free(at);
}

static inline tri_allocator failing_mem(failing *f)
{
    return (tri_allocator){failing_alloc, failing_release, failing_alloc_shared,
                           f};
}

static inline bool is_zero(const void *at, size_t size)
{
    const unsigned char *bytes = at;

    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != 0) return false;
    }
    return true;
}

/* Checks that any_value is large enough. */
static inline void check_sizes(void)
{
    for (size_t i = 0; i < ALL_TYPES; i++) {
        assert_true(all_types[i]->size <= sizeof(any_value));
    }
}

#endif
