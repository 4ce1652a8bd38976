/*
 * wheel.c - the timer wheel: one level per base-64 digit of the due time.
 *
 * After Varghese and Lauck, "Hashed and Hierarchical Timing Wheels" (1987),
 * scheme 7, with a resolution so fine that a slot of level 0 holds a single due
 * time; so timers never have to be sorted.
 *
 * Time is counted in ticks of 8 ns. A timer's target tick is its due tick, or
 * the present tick if the due tick has passed. Its level is the highest base-64
 * digit in which the target differs from the present tick, and its slot is the
 * value of that digit of the target. If no digit differs, the timer is on level
 * 0 in the slot of the present.
 *
 * Invariant: this holds for every armed timer after every call. It follows that
 *  - timers on a lower level are due before timers on a higher level, and
 *    within a level those of a lower slot are due first, so two bit scans find
 *    the first timer;
 *  - timers with the same due time are in the same slot, and since slots are
 *    filled and emptied in order, they keep the order in which they were armed;
 *  - cancel computes the slot from the due time and needs no pointer to it.
 *
 * To keep the invariant, the present tick moves only (a) within the empty time
 * before the first used slot, or (b) to the start of that slot, whose timers
 * are then inserted again, each on a lower level. Time without timers costs
 * nothing.
 */
#include "base/wheel.h"

#include <string.h>

#include "base/check.h"

#define TICK_BITS 3
#define SLOT_MASK (TRI_WHEEL_SLOTS - 1)

/*
 * tri_wheel_next reads at most this many timers of a slot to find the exact
 * first due time: enough that a system with few timers never wakes early, and
 * few enough to be cheap. tri_wheel_expire spreads fuller slots in one call.
 */
#define SCAN_MAX 8

_Static_assert(TRI_TIMER_KIND_MASK == (1 << TICK_BITS) - 1,
               "the kind is in the bits that ticks do not use");
_Static_assert(TICK_BITS + TRI_WHEEL_LEVELS * TRI_WHEEL_BITS == 63,
               "levels cover every non-negative tr_nanos");
_Static_assert(TRI_WHEEL_LEVELS <= 32, "one bit of wheel.levels each");

/* The position of a slot. */
typedef struct position {
    uint32_t level;
    uint32_t slot;
    uint64_t start;  // the tick at which the slot begins
} position;

static uint64_t due_tick(const tri_timer *timer)
{
    return (uint64_t)timer->due >> TICK_BITS;
}

static tr_nanos tick_nanos(uint64_t tick)
{
    return (tr_nanos)(tick << TICK_BITS);
}

/* Returns the slot of a timer due at `tick`, without its start. */
static position position_of(const tri_wheel *wheel, uint64_t tick)
{
    uint64_t target = tri_max(tick, wheel->tick);
    uint64_t differ = target ^ wheel->tick;
    uint32_t level = 0;

    if (differ != 0) {
        // The number of the highest bit: 63 - clz, in one instruction less.
        level = (63 ^ (uint32_t)__builtin_clzll(differ)) / TRI_WHEEL_BITS;
    }
    return (position){
        .level = level,
        .slot = (uint32_t)(target >> (level * TRI_WHEEL_BITS)) & SLOT_MASK,
    };
}

/* Returns the slot of the first timer. The wheel must not be empty. */
static position first_position(const tri_wheel *wheel)
{
    TRI_CHECK_SLOW(wheel->levels != 0);
    uint32_t level = (uint32_t)__builtin_ctz(wheel->levels);
    uint32_t slot = (uint32_t)__builtin_ctzll(wheel->used[level]);
    uint32_t shift = level * TRI_WHEEL_BITS;
    uint64_t above = wheel->tick >> shift & ~(uint64_t)SLOT_MASK;

    return (position){
        .level = level,
        .slot = slot,
        .start = (above | slot) << shift,
    };
}

static tri_list *slot_at(tri_wheel *wheel, position at)
{
    return &wheel->slots[at.level][at.slot];
}

/* True if the slot at `at` has timers; a slot that has none is not read. */
static bool is_used(const tri_wheel *wheel, position at)
{
    return (wheel->used[at.level] >> at.slot & 1) != 0;
}

static void mark_used(tri_wheel *wheel, position at)
{
    wheel->used[at.level] |= UINT64_C(1) << at.slot;
    wheel->levels |= UINT32_C(1) << at.level;
}

static void mark_empty(tri_wheel *wheel, position at)
{
    wheel->used[at.level] &= ~(UINT64_C(1) << at.slot);
    if (wheel->used[at.level] == 0) {
        wheel->levels &= ~(UINT32_C(1) << at.level);
    }
}

/* Appends a timer, whose due time is set, to its slot; overwrites its link. */
static inline void link_timer(tri_wheel *wheel, tri_timer *timer)
{
    position at = position_of(wheel, due_tick(timer));
    tri_list *slot = slot_at(wheel, at);

    if (!is_used(wheel, at)) {
        tri_list_init(slot);
        mark_used(wheel, at);
    }
    tri_link_relink(slot->head.prev, &timer->link);
}

/* Takes an armed timer out of its slot, which is at `at`. */
static void unlink_timer(tri_wheel *wheel, position at, tri_timer *timer)
{
    tri_list *slot = slot_at(wheel, at);

    // Fails for a timer that is armed in another wheel.
    TRI_CHECK(is_used(wheel, at));
    TRI_CHECK_SLOW(wheel->count > 0);
    tri_list_remove(&timer->link);
    if (slot->head.next == &slot->head) {
        mark_empty(wheel, at);
    }
    wheel->count--;
}

void tri_wheel_init(tri_wheel *wheel, tr_nanos now)
{
    TRI_CHECK(now >= 0);
    memset(wheel, 0, sizeof(*wheel));
    wheel->tick = (uint64_t)now >> TICK_BITS;
}

/* Arms a timer that is armed. Out of line: arming needs no stack frame then. */
static __attribute__((noinline)) void arm_again(tri_wheel *wheel,
                                                tri_timer *timer, tr_nanos due,
                                                uint32_t kind)
{
    tri_wheel_cancel(wheel, timer);
    tri_wheel_arm(wheel, timer, due, kind);
}

void tri_wheel_arm(tri_wheel *wheel, tri_timer *timer, tr_nanos due,
                   uint32_t kind)
{
    TRI_CHECK(kind <= TRI_TIMER_KIND_MASK);
    if (TRI_UNLIKELY(tri_timer_is_armed(timer))) {
        arm_again(wheel, timer, due, kind);
        return;
    }
    if (due < 0) {
        due = 0;
    }
    if (due > TR_FOREVER - TRI_TIMER_KIND_MASK) {
        // TR_FOREVER, or less than 8 ns before it: 292 years from the start.
        return;
    }
    // Rounded up: a timer must not fire early.
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
    unlink_timer(wheel, position_of(wheel, due_tick(timer)), timer);
}

tr_nanos tri_wheel_next(const tri_wheel *wheel)
{
    if (wheel->levels == 0) {
        return TR_FOREVER;
    }
    position at = first_position(wheel);
    if (at.level == 0) {
        return tick_nanos(at.start);
    }
    uint64_t tick = UINT64_MAX;
    uint32_t seen = 0;

    TRI_LIST_EACH_ITEM (timer, &wheel->slots[at.level][at.slot], tri_timer,
                        link) {
        if (seen++ == SCAN_MAX) {
            return tick_nanos(at.start);
        }
        tick = tri_min(tick, due_tick(timer));
    }
    return tick_nanos(tick);
}

/*
 * Moves the present to `tick`, which lies in the first used slot and not after
 * its first timer, and inserts the timers of that slot again, in their order.
 */
static __attribute__((noinline)) void spread_slot(tri_wheel *wheel, position at,
                                                  uint64_t tick)
{
    tri_link *head = &slot_at(wheel, at)->head;
    tri_link *link = head->next;

    TRI_CHECK(at.level > 0);
    TRI_CHECK(tick >= at.start);
    mark_empty(wheel, at);
    wheel->tick = tick;
    while (link != head) {
        tri_timer *timer = tri_container_of(link, tri_timer, link);
        TRI_CHECK_SLOW(position_of(wheel, due_tick(timer)).level < at.level);
        link = link->next;
        link_timer(wheel, timer);  // on a lower level, so in another slot
    }
    tri_list_init(slot_at(wheel, at));
}

tri_timer *tri_wheel_expire(tri_wheel *wheel, tr_nanos now)
{
    TRI_CHECK(now >= 0);
    uint64_t tick = (uint64_t)now >> TICK_BITS;

    while (wheel->levels != 0) {
        position at = first_position(wheel);
        if (at.start > tick) {
            break;
        }
        tri_list *slot = slot_at(wheel, at);
        // The slot is used, so it has a first timer.
        tri_timer *timer = tri_container_of(slot->head.next, tri_timer, link);
        bool alone = slot->head.prev == &timer->link;
        if (at.level == 0) {
            wheel->tick = at.start;
            unlink_timer(wheel, at, timer);
            return timer;
        }
        // A single timer needs no spreading over the lower levels.
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

/* Checks the timers of one slot and adds their number to *count. */
static void check_slot(const tri_wheel *wheel, uint32_t level, uint32_t slot,
                       uint64_t *count)
{
    const tri_list *list = &wheel->slots[level][slot];

    tri_list_check(list);
    TRI_LIST_EACH_ITEM (timer, list, tri_timer, link) {
        position at = position_of(wheel, due_tick(timer));
        TRI_CHECK(at.level == level);
        TRI_CHECK(at.slot == slot);
        TRI_CHECK(timer->due >= 0);
        TRI_CHECK(*count < wheel->count);
        (*count)++;
    }
}

void tri_wheel_check(const tri_wheel *wheel)
{
    uint64_t count = 0;

    TRI_CHECK(wheel->levels >> TRI_WHEEL_LEVELS == 0);
    for (uint32_t level = 0; level < TRI_WHEEL_LEVELS; level++) {
        uint64_t used = wheel->used[level];
        TRI_CHECK((wheel->levels >> level & 1) == (used != 0));
        for (uint32_t slot = 0; slot < TRI_WHEEL_SLOTS; slot++) {
            bool empty = tri_list_is_empty(&wheel->slots[level][slot]);
            TRI_CHECK(empty == ((used >> slot & 1) == 0));
            check_slot(wheel, level, slot, &count);
        }
    }
    TRI_CHECK(count == wheel->count);
}
