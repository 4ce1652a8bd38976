/*
 * fiber.c - pools of stacks, and the calls that inform sanitizers of them.
 *
 * One mapping holds a guard, the stack and, at its high end, the tri_fiber
 * itself, so that a shallow fiber uses a single page:
 *
 *     | guard | low ...... stack grows down ...... high | tri_fiber |
 *
 * Invariant: a fiber is in exactly one state: running, suspended and owned by
 * whoever took it, or spare in its pool. *live counts it from before it is
 * mapped until after it is unmapped, so *live never exceeds `max`. Only mapping
 * and unmapping write *live; taking a spare fiber and giving one back write
 * nothing that other threads read.
 */
#include "base/fiber.h"

#include <stdatomic.h>
#include <string.h>

#include "base/check.h"
#include "base/pages.h"
#include "troupe/base.h"

_Static_assert(offsetof(tri_fiber, sp) == 0 &&
                   offsetof(tri_fiber, go_on) == 8 &&
                   offsetof(tri_fiber, frame) == 16,
               "the assembly uses these offsets");

#define STACK_ALIGN ((uintptr_t)64)

/* Prepares the first frame, which calls tri_fiber_main. In assembly. */
void tri_fiber_prepare(tri_fiber *fiber);

/* Called by the first frame of a fiber, after the first switch to it. */
_Noreturn void tri_fiber_main(tri_fiber *from, tri_fiber *self);

/* ---- sanitizers ---- */

#if TRI_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>

static void asan_created(tri_fiber *fiber)
{
    fiber->shadow.low = fiber->low;
    fiber->shadow.size = (size_t)(fiber->high - fiber->low);
    // The range excludes the guard, which the leak checker must not read.
    __lsan_register_root_region(fiber->shadow.low, fiber->shadow.size);
}

/*
 * Frees the fiber's fake stack. ASan frees a fake stack only when it is left
 * for good, so this pretends to switch to the fiber and then to leave it.
 */
__attribute__((no_sanitize_address)) static void asan_destroyed(
    tri_fiber *fiber)
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
    // The fiber's frames left red zones; a later mapping must not find them.
    __asan_unpoison_memory_region(shadow->low, shadow->size);
}

static void asan_leave(tri_fiber *from, tri_fiber *to)
{
    __sanitizer_start_switch_fiber(&from->shadow.fake_stack, to->shadow.low,
                                   to->shadow.size);
}

/*
 * Ends the switch. ASan reports the bounds of the stack that was left; for a
 * thread's own stack this is the only way to learn them.
 */
static void asan_arrive(tri_fiber *self)
{
    tri_fiber_shadow *left = &self->shadow.came_from->shadow;

    __sanitizer_finish_switch_fiber(self->shadow.fake_stack, &left->low,
                                    &left->size);
}
#else
static inline void asan_created(tri_fiber *fiber)
{
    (void)fiber;
}

static inline void asan_destroyed(tri_fiber *fiber)
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

static void tsan_created(tri_fiber *fiber)
{
    fiber->shadow.tsan = __tsan_create_fiber(0);
}

static void tsan_adopt_thread(tri_fiber *self)
{
    self->shadow.tsan = __tsan_get_current_fiber();
}

static void tsan_destroyed(tri_fiber *fiber)
{
    __tsan_destroy_fiber(fiber->shadow.tsan);
}

/*
 * A macro, because a function would be entered on one of TSan's shadow stacks
 * and left on another. Flag 0 orders what ran before the switch before what
 * runs after it.
 */
#define tsan_leave(to) __tsan_switch_to_fiber((to)->shadow.tsan, 0)
#else
static inline void tsan_created(tri_fiber *fiber)
{
    (void)fiber;
}

static inline void tsan_adopt_thread(tri_fiber *self)
{
    (void)self;
}

static inline void tsan_destroyed(tri_fiber *fiber)
{
    (void)fiber;
}

#define tsan_leave(to) ((void)(to))
#endif

void tri_fiber_switch_sanitized(tri_fiber *from, tri_fiber *to)
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

/* Makes a fiber that has never run in a new mapping. */
static tri_fiber *fiber_init(tri_fiber_pool *pool, char *map)
{
    char *end = map + map_size(pool);
    tri_fiber *fiber =
        (void *)((uintptr_t)(end - sizeof(*fiber)) & ~(STACK_ALIGN - 1));

    memset(fiber, 0, sizeof(*fiber));
    fiber->pool = pool;
    fiber->low = map + TRI_FIBER_GUARD_SIZE;
    fiber->high = (char *)fiber;
    tri_fiber_prepare(fiber);
    asan_created(fiber);
    tsan_created(fiber);
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
    return fiber_init(pool, map);
}

static void unmap_fiber(tri_fiber_pool *pool, tri_fiber *fiber)
{
    char *map = fiber->low - TRI_FIBER_GUARD_SIZE;

    asan_destroyed(fiber);
    tsan_destroyed(fiber);
    tri_pages_unmap(map, map_size(pool));
    // Relaxed: a count compared with a limit; it publishes nothing. The same
    // holds for its partners, reserve_live and may_keep.
    atomic_fetch_sub_explicit(pool->live, 1, memory_order_relaxed);
}

/* Counts one more live stack. Returns false if the limit is reached. */
static bool reserve_live(const tri_fiber_pool *pool)
{
    // Relaxed, as in unmap_fiber; the exchange confirms the value read here.
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

/*
 * Returns true if the pool may keep one more spare stack. Near the limit of
 * live stacks it keeps few, because other pools may need them.
 */
static bool may_keep(const tri_fiber_pool *pool)
{
    if (pool->spare_count < TRI_FIBER_SPARE_MIN) {
        return true;
    }
    // Relaxed, as in unmap_fiber: a count that is late by a few is harmless.
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
    TRI_CHECK(pool->live != NULL);
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
    TRI_CHECK(pool->live != NULL);
    if (!reserve_live(pool)) {
        return NULL;
    }
    fiber = map_fiber(pool);
    if (fiber == NULL) {
        // Relaxed, as in unmap_fiber: takes back what reserve_live added.
        atomic_fetch_sub_explicit(pool->live, 1, memory_order_relaxed);
        return NULL;
    }
    pool->taken_count++;
    return fiber;
}

void tri_fiber_give(tri_fiber_pool *pool, tri_fiber *fiber)
{
    TRI_CHECK(fiber->pool == pool);
    TRI_CHECK(!fiber->is_spare);  // so it is one of taken_count
    TRI_CHECK_SLOW(pool->taken_count > 0);
    // The running fiber must not be given: its stack could be unmapped here.
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
    tsan_adopt_thread(self);
}

void tri_fiber_thread_fini(tri_fiber *self)
{
    TRI_CHECK(self->pool == NULL);
    *self = (tri_fiber){0};
}

/* ---- jumps ---- */

/* Never inlined: the target of the builtin must be another function. */
__attribute__((noinline)) void tri_jump_go(tri_jump_buf *buf)
{
    TRI_JUMP_GO(buf);
}
