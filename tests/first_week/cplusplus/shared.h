/*
 * shared.h - messages of one program, part of it in C and part in C++: both
 * must see the same types.
 */
#ifndef TEST_SHARED_H
#define TEST_SHARED_H

#include <troupe/troupe.h>

typedef enum Colour { RED, GREEN } Colour;
typedef enum Signed { BELOW = -1, ABOVE = 1 } Signed;

TR_MESSAGE(Empty);
TR_MESSAGE(Point, (int32_t, x), (int32_t, y));
TR_MESSAGE(Numbers, (bool, a), (char, b), (int8_t, c), (uint16_t, d),
           (float, e), (long long, f), (Colour, g), (Signed, h), (double, i));
TR_MESSAGE(Rich, (const char *, text), (tr_ref, ref), (tr_bytes, bytes),
           (tr_blob, blob), (nested, Point, at), (list, Point, points),
           (array, double, values), (fixed, uint8_t, key, 5),
           (optional, int32_t, age), (optional, nested, Point, last));
TR_MESSAGE(Wide, (int64_t, sum));
TR_REQUEST(Narrow, Wide, (int16_t, n));  // aligned as its reply
TR_REQUEST(Ask, Empty);
TR_REQUEST(Add, Wide, (const char *, note), (int64_t, n));
TR_STATE(Ledger, (int64_t, sum), (const char *, owner), (list, Point, points));

TR_BEGIN_DECLS

/* Writes the descriptions and alignments that C sees; returns how many. */
size_t c_types(const tr_type **types, size_t *alignments, size_t most);
/* Returns the definition of an actor in C, which adds up what Add brings. */
const tr_actor_def *c_adder(void);
/* Asks from C. */
int64_t c_ask(tr_system *sys, tr_ref to, int64_t n);

TR_END_DECLS

/* All types above, for both languages. */
#define SHARED_TYPES(X)                                                        \
    X(Empty)                                                                   \
    X(Point)                                                                   \
    X(Numbers)                                                                 \
    X(Rich)                                                                    \
    X(Wide)                                                                    \
    X(Narrow)                                                                  \
    X(Ask)                                                                     \
    X(Add)                                                                     \
    X(Ledger)                                                                  \
    X(tr_none)                                                                 \
    X(tr_terminated)                                                           \
    X(tr_timeout)                                                              \
    X(tr_ask_failed)                                                           \
    X(tr_lifecycle)                                                            \
    X(tr_dead_letter)                                                          \
    X(tr_unhandled)                                                            \
    X(tr_supervision_event)                                                    \
    X(tr_overload)                                                             \
    X(tr_stuck)                                                                \
    X(tr_resize)                                                               \
    X(tr_termination_hook)                                                     \
    X(tr_member_event)

#endif
