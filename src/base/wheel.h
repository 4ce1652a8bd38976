/*
 * wheel.h - a hierarchical timer wheel.
 *
 * Arm and cancel are O(1) and never allocate: a timer is embedded in the object
 * that waits. Before it fires it is moved at most once per level. Timers fire
 * in the order of their due times; timers with the same due time fire in the
 * order in which they were armed. No timer fires early: a due time is exact
 * except that it is rounded up to a multiple of 8 ns, because its three low
 * bits hold the timer's kind.
 *
 * Threads: none of this is thread-safe; the owner of a wheel locks it.
 */
#ifndef TRI_BASE_WHEEL_H
#define TRI_BASE_WHEEL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "troupe/base.h"

#define TRI_TIMER_KIND_MASK 7  // kinds are 0 to 7

#define TRI_WHEEL_BITS   6  // bits of the due time per level
#define TRI_WHEEL_SLOTS  (1 << TRI_WHEEL_BITS)
#define TRI_WHEEL_LEVELS 10  // 10 * 6 bits of 8 ns cover every tr_nanos

/*
 * Embedded in the object that waits. All zero before its first use; must not
 * move while it is armed. Only the wheel uses the members.
 */
typedef struct tri_timer {
    tri_link link;  // in a slot of the wheel while armed
    tr_nanos due;   // the low bits hold the kind
} tri_timer;

_Static_assert(sizeof(tri_timer) == 24, "embedded in every object that waits");

/* Defined here because its owner embeds it. Must not move while in use. */
typedef struct tri_wheel {
    uint64_t tick;                    // the present, in 8 ns; never decreases
    uint64_t count;                   // armed timers
    uint32_t levels;                  // bit L: used[L] is not 0
    uint64_t used[TRI_WHEEL_LEVELS];  // bit S: slots[L][S] is not empty
    tri_list slots[TRI_WHEEL_LEVELS][TRI_WHEEL_SLOTS];
} tri_wheel;

static inline bool tri_timer_is_armed(const tri_timer *timer)
{
    return tri_link_is_linked(&timer->link);
}

/* Returns the due time the timer was last armed with, rounded up to 8 ns. */
static inline tr_nanos tri_timer_due(const tri_timer *timer)
{
    return timer->due & ~(tr_nanos)TRI_TIMER_KIND_MASK;
}

/* Returns the kind the timer was last armed with. */
static inline uint32_t tri_timer_kind(const tri_timer *timer)
{
    return (uint32_t)(timer->due & TRI_TIMER_KIND_MASK);
}

/*
 * Makes an empty wheel whose present is `now`, which must not be negative. An
 * empty wheel needs no fini.
 */
void tri_wheel_init(tri_wheel *wheel, tr_nanos now);

/*
 * Arms a timer; if it is armed in this wheel already, it gets the new due time.
 * A timer with a due time in the past fires in the order of one that is due at
 * the wheel's present: the due time of the timer that tri_wheel_expire
 * returned last, or the `now` of its last call that returned NULL. TR_FOREVER
 * leaves the timer disarmed.
 */
void tri_wheel_arm(tri_wheel *wheel, tri_timer *timer, tr_nanos due,
                   uint32_t kind);

/* Disarms a timer of this wheel; does nothing if it is not armed. */
void tri_wheel_cancel(tri_wheel *wheel, tri_timer *timer);

/*
 * Returns the time at which to call tri_wheel_expire next, or TR_FOREVER if no
 * timer is armed. That is the first due time, or earlier if many timers share
 * the first one's slot: tri_wheel_expire then moves them to lower levels, which
 * costs a few early calls for all of them together.
 */
tr_nanos tri_wheel_next(const tri_wheel *wheel);

/*
 * Disarms the first timer that is due at `now` and returns it, or NULL if none
 * is due. Call it until it returns NULL; timers may be armed and cancelled
 * between calls. A `now` before that of an earlier call counts as that earlier
 * one. TR_FOREVER empties the wheel; every timer armed after that is due at
 * once.
 */
tri_timer *tri_wheel_expire(tri_wheel *wheel, tr_nanos now);

static inline uint64_t tri_wheel_count(const tri_wheel *wheel)
{
    return wheel->count;
}

/* Walks the whole wheel and checks its invariant. */
void tri_wheel_check(const tri_wheel *wheel);

#endif
