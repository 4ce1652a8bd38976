/*
 * fiber.c - pools of stacks, and what the sanitizers must know of them.
 *
 * One mapping holds a guard, the stack and, at its high end, the tri_fiber
 * itself, so that a shallow fiber touches a single page:
 *
 *     | guard | low ...... stack grows down ...... high | tri_fiber |
 *
 * Invariant: a fiber is in exactly one place: running, suspended in the hands
 * of whoever took it, or spare in its pool. It counts in *live from before it
 * is mapped until after it is unmapped, so *live never exceeds `max`. Only
 * mapping and unmapping write *live; a take from the cache and a give to it
 * write nothing that other threads read.
 */
#include "base/fiber.h"

#include <string.h>

#include "base/check.h"
#include "base/pages.h"

_Static_assert(offsetof(tri_fiber, sp) == 0 &&
                   offsetof(tri_fiber, go_on) == 8 &&
                   offsetof(tri_fiber, frame) == 16,
               "where the assembly stores them");

#define STACK_ALIGN ((uintptr_t)64)

/* Its first frame, below itself: that calls tri_fiber_main. Assembly. */
void tri_fiber_prepare(tri_fiber *fiber);

/* Called by the first frame of each fiber, after the switch to it. */
_Noreturn void tri_fiber_main(tri_fiber *from, tri_fiber *self);

/* ---- sanitizers ---- */

#if TRI_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>

static void asan_born(tri_fiber *fiber)
{
    fiber->shadow.low = fiber->low;
    fiber->shadow.size = (size_t)(fiber->high - fiber->low);
    // Without the guard, which the leak checker must not read.
    __lsan_register_root_region(fiber->shadow.low, fiber->shadow.size);
}

/*
 * The only way to end a fake stack is to leave it for good. So pretend to
 * stand on the dead fiber, whose bounds nobody looks at meanwhile, and leave.
 */
__attribute__((no_sanitize_address)) static void asan_dead(tri_fiber *fiber)
{
    tri_fiber_shadow *shadow = &fiber->shadow;
    void *own_fake_stack;
    const void *own_low;
    size_t own_size;

    __sanitizer_start_switch_fiber(&own_fake_stack, shadow->low, shadow->size);
    __sanitizer_finish_switch_fiber(shadow->fake_stack, &own_low, &own_size);
    __sanitizer_start_switch_fiber(NULL, own_low, own_size);
    __sanitizer_finish_switch_fiber(own_fake_stack, NULL, NULL);

    __lsan_unregister_root_region(shadow->low, shadow->size);
    // Its frames left red zones; the next mapping here must not find them.
    __asan_unpoison_memory_region(shadow->low, shadow->size);
}

static void asan_leave(tri_fiber *from, tri_fiber *to)
{
    __sanitizer_start_switch_fiber(&from->shadow.fake_stack, to->shadow.low,
                                   to->shadow.size);
}

/* Tells the one we came from its bounds: news for a thread's own stack. */
static void asan_arrive(tri_fiber *self)
{
    tri_fiber_shadow *left = &self->shadow.came_from->shadow;

    __sanitizer_finish_switch_fiber(self->shadow.fake_stack, &left->low,
                                    &left->size);
}
#else
static inline void asan_born(tri_fiber *fiber)
{
    (void)fiber;
}

static inline void asan_dead(tri_fiber *fiber)
{
    (void)fiber;
}

static inline void asan_leave(tri_fiber *from, tri_fiber *to)
{
    (void)from;
    (void)to;
}

static inline void asan_arrive(tri_fiber *self)
{
    (void)self;
}
#endif

#if TRI_FIBER_TSAN
#include <sanitizer/tsan_interface.h>

static void tsan_born(tri_fiber *fiber)
{
    fiber->shadow.tsan = __tsan_create_fiber(0);
}

static void tsan_born_thread(tri_fiber *self)
{
    self->shadow.tsan = __tsan_get_current_fiber();
}

static void tsan_dead(tri_fiber *fiber)
{
    __tsan_destroy_fiber(fiber->shadow.tsan);
}

/*
 * A macro: a function would be entered on one of TSan's shadow stacks and
 * left on another. 0: what ran before the switch happens before what runs
 * after it.
 */
#define tsan_leave(to) __tsan_switch_to_fiber((to)->shadow.tsan, 0)
#else
static inline void tsan_born(tri_fiber *fiber)
{
    (void)fiber;
}

static inline void tsan_born_thread(tri_fiber *self)
{
    (void)self;
}

static inline void tsan_dead(tri_fiber *fiber)
{
    (void)fiber;
}

#define tsan_leave(to) ((void)(to))
#endif

void tri_fiber_switch_told(tri_fiber *from, tri_fiber *to)
{
    to->shadow.came_from = from;
    asan_leave(from, to);
    tsan_leave(to);
    tri_fiber_switch_raw(from, to);
    asan_arrive(from);
}

/* ---- stacks ---- */

void tri_fiber_main(tri_fiber *from, tri_fiber *self)
{
    (void)from;
    asan_arrive(self);
    self->pool->entry(self->pool->arg);
    tr_abort(TR_HERE, "the entry of a fiber returned");
}

static size_t map_size(const tri_fiber_pool *pool)
{
    return TRI_FIBER_GUARD_SIZE + pool->stack_size;
}

/* Lays a fiber that has never run into a fresh mapping. */
static tri_fiber *lay_out(tri_fiber_pool *pool, char *map)
{
    char *end = map + map_size(pool);
    tri_fiber *fiber =
        (void *)((uintptr_t)(end - sizeof(*fiber)) & ~(STACK_ALIGN - 1));

    memset(fiber, 0, sizeof(*fiber));
    fiber->pool = pool;
    fiber->low = map + TRI_FIBER_GUARD_SIZE;
    fiber->high = (char *)fiber;
    tri_fiber_prepare(fiber);
    asan_born(fiber);
    tsan_born(fiber);
    return fiber;
}

static tri_fiber *map_fiber(tri_fiber_pool *pool)
{
    char *map = tri_pages_map(map_size(pool));

    if (map == NULL) {
        return NULL;
    }
    if (!tri_pages_guard(map, TRI_FIBER_GUARD_SIZE)) {
        tri_pages_unmap(map, map_size(pool));
        return NULL;
    }
    pool->mapped_count++;
    return lay_out(pool, map);
}

static void unmap_fiber(tri_fiber_pool *pool, tri_fiber *fiber)
{
    char *map = fiber->low - TRI_FIBER_GUARD_SIZE;

    asan_dead(fiber);
    tsan_dead(fiber);
    tri_pages_unmap(map, map_size(pool));
    // Relaxed: a number against a limit; it publishes nothing. The same
    // holds for count_in and may_keep, its partners.
    atomic_fetch_sub_explicit(pool->live, 1, memory_order_relaxed);
}

/* Counts one more live stack, unless that would be too many. */
static bool count_in(const tri_fiber_pool *pool)
{
    // Relaxed, as in unmap_fiber; the exchange confirms the first guess.
    uint32_t seen = atomic_load_explicit(pool->live, memory_order_relaxed);

    do {
        if (seen >= pool->max) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(pool->live, &seen, seen + 1,
                                                    memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

/* Near the limit the pools stop hoarding what others may need. */
static bool may_keep(const tri_fiber_pool *pool)
{
    if (pool->spare_count < TRI_FIBER_SPARE_MIN) {
        return true;
    }
    // Relaxed, as in unmap_fiber: being late by a few stacks does no harm.
    uint32_t seen = atomic_load_explicit(pool->live, memory_order_relaxed);

    uint32_t most = seen <= pool->max / TRI_FIBER_SPARE_PART
                        ? TRI_FIBER_SPARE_MAX
                        : TRI_FIBER_SPARE_WARM;
    return pool->spare_count < most &&
           (uint64_t)seen + TRI_FIBER_SPARE_WARM <= pool->max;
}

/* ---- pools ---- */

void tri_fiber_pool_init(tri_fiber_pool *pool, size_t stack_size, uint32_t max,
                         _Atomic(uint32_t) *live, tri_fiber_entry_fn entry,
                         void *arg)
{
    size_t page = tri_page_size();

    if (stack_size == 0) {
        stack_size = TRI_FIBER_STACK_DEFAULT;
    }
    TRI_CHECK(live != NULL);
    TRI_CHECK(entry != NULL);
    TRI_CHECK(stack_size >= TRI_FIBER_STACK_MIN);
    TRI_CHECK(stack_size <= SIZE_MAX / 2);
    TRI_CHECK(TRI_FIBER_GUARD_SIZE % page == 0);

    *pool = (tri_fiber_pool){
        .live = live,
        .max = (uint32_t)TRI_MIN(max, TRI_FIBER_LIVE_MAX),
        .stack_size = (stack_size + page - 1) & ~(page - 1),
        .entry = entry,
        .arg = arg,
    };
}

void tri_fiber_pool_trim(tri_fiber_pool *pool)
{
    uint32_t excess = TRI_MIN(pool->spare_least, pool->spare_count);
    uint32_t cold = pool->spare_count > TRI_FIBER_SPARE_WARM
                        ? pool->spare_count - TRI_FIBER_SPARE_WARM
                        : 0;
    excess = TRI_MIN(TRI_MIN(excess, cold), TRI_FIBER_TRIM_MAX);
    tri_fiber **link = &pool->spare;

    pool->spare_count -= excess;
    pool->spare_least = pool->spare_count;
    if (excess == 0) {
        return;
    }
    for (uint32_t i = 0; i < pool->spare_count; i++) {
        link = &(*link)->next;
    }
    tri_fiber *coldest = *link;
    *link = NULL;
    while (coldest != NULL) {
        tri_fiber *next = coldest->next;
        unmap_fiber(pool, coldest);
        coldest = next;
    }
}

void tri_fiber_pool_fini(tri_fiber_pool *pool)
{
    TRI_CHECK(pool->taken_count == 0);
    while (pool->spare != NULL) {
        tri_fiber *fiber = pool->spare;

        pool->spare = fiber->next;
        pool->spare_count--;
        unmap_fiber(pool, fiber);
    }
    TRI_CHECK(pool->spare_count == 0);
}

tri_fiber *tri_fiber_take(tri_fiber_pool *pool)
{
    tri_fiber *fiber = pool->spare;

    if (fiber != NULL) {
        TRI_CHECK(fiber->is_spare);
        fiber->is_spare = false;
        pool->spare = fiber->next;
        pool->spare_count--;
        pool->spare_least = TRI_MIN(pool->spare_least, pool->spare_count);
        pool->taken_count++;
        fiber->next = NULL;
        return fiber;
    }
    if (!count_in(pool)) {
        return NULL;
    }
    fiber = map_fiber(pool);
    if (fiber == NULL) {
        // Relaxed, as in unmap_fiber: takes back what count_in added.
        atomic_fetch_sub_explicit(pool->live, 1, memory_order_relaxed);
        return NULL;
    }
    pool->taken_count++;
    return fiber;
}

void tri_fiber_give(tri_fiber_pool *pool, tri_fiber *fiber)
{
    TRI_CHECK(fiber->pool == pool);
    TRI_CHECK(!fiber->is_spare);
    TRI_CHECK(pool->taken_count > 0);
    // Not the running one: it could vanish below our feet.
    TRI_CHECK(!tri_fiber_contains(fiber, __builtin_frame_address(0)));

    pool->taken_count--;
    if (!may_keep(pool)) {
        unmap_fiber(pool, fiber);
        return;
    }
    fiber->is_spare = true;
    fiber->next = pool->spare;
    pool->spare = fiber;
    pool->spare_count++;
}

void tri_fiber_thread_init(tri_fiber *self)
{
    *self = (tri_fiber){0};
    tsan_born_thread(self);
}

void tri_fiber_thread_fini(tri_fiber *self)
{
    TRI_CHECK(self->pool == NULL);
    *self = (tri_fiber){0};
}

/* ---- jumps ---- */

/* Never inlined: the builtin must not land in the function it jumps from. */
__attribute__((noinline)) void tri_jump_go(tri_jump_buf *buf)
{
    TRI_JUMP_GO(buf);
}
