/*
 * wheel.c - the timer wheel: digits of the due time in base 64.
 *
 * After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987),
 * scheme 7, down to a resolution at which a slot of level 0 holds one due time
 * only, so nothing is ever sorted.
 *
 * Time is counted in ticks of 8 ns. A timer's place is its due tick, or the
 * present tick if that has passed. It is in the slot of the highest base-64
 * digit in which its place differs from the present tick; the value of that
 * digit is the slot. If none differs: level 0, the slot of the present.
 *
 * Invariant: this holds for every timer after every call. It follows that
 *  - whatever is on a lower level is due before whatever is on a higher one,
 *    and within a level the lower slot comes first: the first timer is found
 *    with two bit scans;
 *  - timers with the same due time are always in the same slot, and since a
 *    ring is filled and emptied in order, they stay in the order of arming;
 *  - cancel finds the slot by the same arithmetic, so a slot needs no head.
 *
 * To keep it, the present tick moves only (a) within the empty time before
 * the first used slot, or (b) to the very start of that slot, whose timers are
 * then placed anew, each on a lower level. Time without timers costs nothing.
 */
#include "base/wheel.h"

#include <string.h>

#include "base/check.h"

#define TICK_BITS 3
#define SLOT_MASK (TRI_WHEEL_SLOTS - 1)

/*
 * tri_wheel_next looks at this many timers of a slot for the exact due time:
 * enough for a system with few timers never to wake early, few enough to be
 * cheap. A larger crowd is sorted by expire, one call for all of it.
 */
#define SCAN_MAX 8

_Static_assert(TRI_TIMER_KIND_MASK == (1 << TICK_BITS) - 1,
               "the kind lives in the bits that ticks do not use");
_Static_assert(TICK_BITS + TRI_WHEEL_LEVELS * TRI_WHEEL_BITS == 63,
               "levels cover every non-negative tr_nanos");
_Static_assert(TRI_WHEEL_LEVELS <= 32, "a bit of wheel.levels each");

/* A slot: where it is, and the tick at which it begins. */
typedef struct place {
    uint32_t level;
    uint32_t slot;
    uint64_t start;
} place;

static uint64_t due_tick(const tri_timer *timer)
{
    return (uint64_t)timer->due >> TICK_BITS;
}

static tr_nanos tick_nanos(uint64_t tick)
{
    return (tr_nanos)(tick << TICK_BITS);
}

/* Where the invariant wants a timer due at `tick`; `start` is not set. */
static place place_of(const tri_wheel *wheel, uint64_t tick)
{
    uint64_t at = tri_max(tick, wheel->tick);
    uint64_t differ = at ^ wheel->tick;
    uint32_t level = 0;

    if (differ != 0) {
        level = (63 - (uint32_t)__builtin_clzll(differ)) / TRI_WHEEL_BITS;
    }
    return (place){
        .level = level,
        .slot = (uint32_t)(at >> (level * TRI_WHEEL_BITS)) & SLOT_MASK,
    };
}

/* The slot of the first timer. The wheel must not be empty. */
static place first_place(const tri_wheel *wheel)
{
    uint32_t level = (uint32_t)__builtin_ctz(wheel->levels);
    uint32_t slot = (uint32_t)__builtin_ctzll(wheel->used[level]);
    uint32_t shift = level * TRI_WHEEL_BITS;
    uint64_t above = wheel->tick >> shift & ~(uint64_t)SLOT_MASK;

    return (place){
        .level = level,
        .slot = slot,
        .start = (above | slot) << shift,
    };
}

static void mark_used(tri_wheel *wheel, place at)
{
    wheel->used[at.level] |= UINT64_C(1) << at.slot;
    wheel->levels |= UINT32_C(1) << at.level;
}

static void mark_empty(tri_wheel *wheel, place at)
{
    wheel->slots[at.level][at.slot] = NULL;
    wheel->used[at.level] &= ~(UINT64_C(1) << at.slot);
    if (wheel->used[at.level] == 0) {
        wheel->levels &= ~(UINT32_C(1) << at.level);
    }
}

/* Puts a timer, whose due is set, last into its slot. */
static void link_timer(tri_wheel *wheel, tri_timer *timer)
{
    place at = place_of(wheel, due_tick(timer));
    tri_timer **slot = &wheel->slots[at.level][at.slot];
    tri_timer *first = *slot;

    if (first == NULL) {
        timer->next = timer;
        timer->prev = timer;
        *slot = timer;
        mark_used(wheel, at);
        return;
    }
    timer->next = first;
    timer->prev = first->prev;
    first->prev->next = timer;
    first->prev = timer;
}

static void unlink_timer(tri_wheel *wheel, place at, tri_timer *timer)
{
    tri_timer **slot = &wheel->slots[at.level][at.slot];

    TRI_CHECK(*slot != NULL);  // else the timer is another wheel's
    if (timer->next == timer) {
        TRI_CHECK(*slot == timer);
        mark_empty(wheel, at);
    } else {
        timer->next->prev = timer->prev;
        timer->prev->next = timer->next;
        if (*slot == timer) {
            *slot = timer->next;
        }
    }
    timer->next = NULL;
    timer->prev = NULL;
    TRI_CHECK(wheel->count > 0);
    wheel->count--;
}

void tri_wheel_init(tri_wheel *wheel, tr_nanos now)
{
    TRI_CHECK(now >= 0);
    memset(wheel, 0, sizeof(*wheel));
    wheel->tick = (uint64_t)now >> TICK_BITS;
}

void tri_wheel_arm(tri_wheel *wheel, tri_timer *timer, tr_nanos due,
                   uint32_t kind)
{
    TRI_CHECK(kind <= TRI_TIMER_KIND_MASK);
    tri_wheel_cancel(wheel, timer);

    if (due < 0) {
        due = 0;
    }
    if (due > TR_FOREVER - TRI_TIMER_KIND_MASK) {
        // For ever, or less than 8 ns before it: 292 years are no time-out.
        return;
    }
    // Upwards: a timer may not fire before its time.
    due = (due + TRI_TIMER_KIND_MASK) & ~(tr_nanos)TRI_TIMER_KIND_MASK;
    timer->due = due | (tr_nanos)kind;
    link_timer(wheel, timer);
    wheel->count++;
}

void tri_wheel_cancel(tri_wheel *wheel, tri_timer *timer)
{
    if (!tri_timer_is_armed(timer)) {
        return;
    }
    unlink_timer(wheel, place_of(wheel, due_tick(timer)), timer);
}

tr_nanos tri_wheel_next(const tri_wheel *wheel)
{
    if (wheel->levels == 0) {
        return TR_FOREVER;
    }
    place at = first_place(wheel);
    if (at.level == 0) {
        return tick_nanos(at.start);
    }
    const tri_timer *first = wheel->slots[at.level][at.slot];
    const tri_timer *timer = first;
    uint64_t tick = due_tick(first);

    for (uint32_t i = 0; i < SCAN_MAX; i++) {
        tick = tri_min(tick, due_tick(timer));
        timer = timer->next;
        if (timer == first) {
            return tick_nanos(tick);
        }
    }
    return tick_nanos(at.start);
}

/*
 * Moves the present to `tick`, inside the slot that comes first, before or at
 * its first timer, and places its timers anew, in their order.
 */
static void spread_slot(tri_wheel *wheel, place at, uint64_t tick)
{
    tri_timer *timer = wheel->slots[at.level][at.slot];
    tri_timer *last = timer->prev;

    TRI_CHECK(at.level > 0);
    TRI_CHECK(tick >= at.start);
    mark_empty(wheel, at);
    wheel->tick = tick;
    for (;;) {
        tri_timer *next = timer->next;
        TRI_CHECK_SLOW(place_of(wheel, due_tick(timer)).level < at.level);
        link_timer(wheel, timer);
        if (timer == last) {
            return;
        }
        timer = next;
    }
}

tri_timer *tri_wheel_expire(tri_wheel *wheel, tr_nanos now)
{
    TRI_CHECK(now >= 0);
    uint64_t tick = (uint64_t)now >> TICK_BITS;

    while (wheel->levels != 0) {
        place at = first_place(wheel);
        if (at.start > tick) {
            break;
        }
        tri_timer *timer = wheel->slots[at.level][at.slot];
        bool alone = timer->next == timer;
        if (at.level == 0) {
            wheel->tick = at.start;
            unlink_timer(wheel, at, timer);
            return timer;
        }
        // A timer alone goes the rest of its way in one step.
        if (alone && due_tick(timer) <= tick) {
            unlink_timer(wheel, at, timer);
            wheel->tick = due_tick(timer);
            return timer;
        }
        spread_slot(wheel, at, alone ? tick : at.start);
    }
    wheel->tick = tri_max(wheel->tick, tick);
    return NULL;
}

static void check_slot(const tri_wheel *wheel, uint32_t level, uint32_t slot,
                       uint64_t *count)
{
    const tri_timer *first = wheel->slots[level][slot];
    const tri_timer *timer = first;

    do {
        place at = place_of(wheel, due_tick(timer));
        TRI_CHECK(at.level == level);
        TRI_CHECK(at.slot == slot);
        TRI_CHECK(timer->due >= 0);
        TRI_CHECK(timer->next->prev == timer);
        TRI_CHECK(*count < wheel->count);
        (*count)++;
        timer = timer->next;
    } while (timer != first);
}

void tri_wheel_check(const tri_wheel *wheel)
{
    uint64_t count = 0;

    TRI_CHECK(wheel->levels >> TRI_WHEEL_LEVELS == 0);
    for (uint32_t level = 0; level < TRI_WHEEL_LEVELS; level++) {
        uint64_t used = wheel->used[level];
        TRI_CHECK((wheel->levels >> level & 1) == (used != 0));
        for (uint32_t slot = 0; slot < TRI_WHEEL_SLOTS; slot++) {
            bool empty = wheel->slots[level][slot] == NULL;
            TRI_CHECK(empty == ((used >> slot & 1) == 0));
            if (!empty) {
                check_slot(wheel, level, slot, &count);
            }
        }
    }
    TRI_CHECK(count == wheel->count);
}
