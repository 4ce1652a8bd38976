/*
 * wheel.h - a hierarchical timer wheel with embedded nodes.
 *
 * Arm and cancel are O(1) and never allocate; a timer that fires has been
 * moved at most once per level. Timers fire in order of their due time, those
 * with the same due time in the order they were armed, whatever the addresses.
 * Nothing fires early: due times are kept exact, but for rounding up to a
 * multiple of 8 ns, whose three bits carry the kind.
 *
 * Threads: none of this is thread-safe; the owner of a wheel locks it.
 */
#ifndef TRI_BASE_WHEEL_H
#define TRI_BASE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "troupe/base.h"

#define TRI_TIMER_KIND_MASK 7  // kinds are 0 to 7

#define TRI_WHEEL_BITS   6  // of the due time, per level
#define TRI_WHEEL_SLOTS  (1 << TRI_WHEEL_BITS)
#define TRI_WHEEL_LEVELS 10  // 60 bits of 8 ns: every tr_nanos

/*
 * Embedded in what waits. All zero before its first use; must stay where it
 * is while it is armed. Members are the wheel's.
 */
typedef struct tri_timer {
    struct tri_timer *next, *prev;  // next is NULL when not armed
    tr_nanos due;                   // the kind is in the low bits
} tri_timer;

_Static_assert(sizeof(tri_timer) == 24, "embedded in every waiting thing");

/* Visible because its owner embeds it. */
typedef struct tri_wheel {
    uint64_t tick;                    // the present, in 8 ns; never falls
    uint64_t count;                   // of timers armed
    uint32_t levels;                  // bit L: used[L] is not 0
    uint64_t used[TRI_WHEEL_LEVELS];  // bit S: slots[L][S] is not NULL
    tri_timer *slots[TRI_WHEEL_LEVELS][TRI_WHEEL_SLOTS];  // first of a ring
} tri_wheel;

static inline bool tri_timer_is_armed(const tri_timer *timer)
{
    return timer->next != NULL;
}

/* What a timer was armed with last. */
static inline tr_nanos tri_timer_due(const tri_timer *timer)
{
    return timer->due & ~(tr_nanos)TRI_TIMER_KIND_MASK;
}

static inline uint32_t tri_timer_kind(const tri_timer *timer)
{
    return (uint32_t)(timer->due & TRI_TIMER_KIND_MASK);
}

/* An empty wheel needs no fini. `now` must not be negative. */
void tri_wheel_init(tri_wheel *wheel, tr_nanos now);

/*
 * Arms a timer; one that is armed in this wheel is moved. A due time in the
 * past is kept, but its turn is that of a timer due at the present: the time
 * that tri_wheel_expire has come to, which is the turn of the timer it gave
 * last, or its `now` once it gave NULL. TR_FOREVER leaves the timer disarmed.
 */
void tri_wheel_arm(tri_wheel *wheel, tri_timer *timer, tr_nanos due,
                   uint32_t kind);

/* Disarms a timer of this wheel; does nothing if it is not armed. */
void tri_wheel_cancel(tri_wheel *wheel, tri_timer *timer);

/*
 * The time for the next tri_wheel_expire, TR_FOREVER if nothing is armed.
 * Never later than the first due time. Earlier only when many timers share
 * the slot of the first; then the expire at this time sorts them finer, so a
 * crowd costs a few early calls for all of its timers together.
 */
tr_nanos tri_wheel_next(const tri_wheel *wheel);

/*
 * Takes the first timer that is due at `now`, disarmed, or NULL if there is
 * none; call it until NULL. Timers may be armed and cancelled between calls.
 * A `now` before that of an earlier call fires nothing new. TR_FOREVER empties
 * the wheel, for good: all that is armed later is due at once.
 */
tri_timer *tri_wheel_expire(tri_wheel *wheel, tr_nanos now);

static inline uint64_t tri_wheel_count(const tri_wheel *wheel)
{
    return wheel->count;
}

/* Walks all of the wheel and checks its invariants. */
void tri_wheel_check(const tri_wheel *wheel);

#endif
