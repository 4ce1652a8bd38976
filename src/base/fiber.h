/*
 * fiber.h - stacks that a worker thread can leave and return to.
 *
 * A fiber is a stack with a saved context. A worker runs its loop on a fiber;
 * when a handler must wait, the worker leaves that stack parked as it is and
 * continues on another fiber. No handler runs on the thread's own stack.
 *
 * The floating-point environment (rounding, exception masks) belongs to the
 * thread: a switch does not change it. Shadow stacks are not supported, and no
 * C++ exception may leave a fiber.
 *
 * Threads: a pool, its fibers and the fiber of a thread belong to the thread
 * that first used them. Threads share only the count of live stacks.
 */
#ifndef TRI_BASE_FIBER_H
#define TRI_BASE_FIBER_H

#include <setjmp.h>  // IWYU pragma: keep (the sanitizers and clang on aarch64)
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SANITIZE_ADDRESS__)
#define TRI_FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define TRI_FIBER_TSAN 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TRI_FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TRI_FIBER_TSAN 1
#endif
#endif
#ifndef TRI_FIBER_ASAN
#define TRI_FIBER_ASAN 0
#endif
#ifndef TRI_FIBER_TSAN
#define TRI_FIBER_TSAN 0
#endif

/* Address space of one stack; only pages that were used take memory. */
#define TRI_FIBER_STACK_DEFAULT ((size_t)256 * 1024)
#define TRI_FIBER_STACK_MIN     ((size_t)16 * 1024)
#define TRI_FIBER_STACK_MAX     ((size_t)1024 * 1024 * 1024)

/*
 * Guard below each stack, in addition to the stack's size. It has many pages,
 * since a large local array may reach past the first; they take no memory.
 */
#define TRI_FIBER_GUARD_SIZE ((size_t)64 * 1024)

/*
 * Spare stacks of a pool: the most it keeps (MAX), the number that trimming
 * leaves (WARM), and the number it keeps near the limit of live stacks (MIN).
 * Mapping and unmapping a stack takes as long as a hundred messages, so the
 * pool keeps enough for a thousand turns that wait and return together. TSan
 * needs megabytes for each, so it keeps fewer.
 */
#if TRI_FIBER_TSAN
#define TRI_FIBER_SPARE_MAX UINT32_C(64)
#else
#define TRI_FIBER_SPARE_MAX UINT32_C(1024)
#endif
#define TRI_FIBER_SPARE_WARM UINT32_C(64)
#define TRI_FIBER_SPARE_MIN  UINT32_C(2)
#define TRI_FIBER_SPARE_PART UINT32_C(4)    // MAX applies below max / PART live
#define TRI_FIBER_TRIM_MAX   UINT32_C(128)  // per trim: half a millisecond

/*
 * Upper limit of `max`. TSan aborts when it has no room for another fiber: that
 * of gcc at 8,128 fibers of 0.8 MB each, that of clang, which takes two
 * mappings for each fiber that has run, at about 32,000.
 */
#if TRI_FIBER_TSAN && !defined(__clang__)
#define TRI_FIBER_LIVE_MAX UINT32_C(2048)
#elif TRI_FIBER_TSAN
#define TRI_FIBER_LIVE_MAX UINT32_C(20000)
#else
#define TRI_FIBER_LIVE_MAX UINT32_MAX
#endif

typedef struct tri_fiber tri_fiber;
typedef struct tri_fiber_pool tri_fiber_pool;

typedef void (*tri_fiber_entry_fn)(void *arg);

/* State of the sanitizers for a stack; unused without them. */
typedef struct tri_fiber_shadow {
    void *fake_stack;  // ASan: frames that detect use after return
    const void *low;   // ASan: bounds, also of a thread's own stack
    size_t size;
    void *tsan;            // TSan: its own object for the fiber
    tri_fiber *came_from;  // the fiber that switched here last
} tri_fiber_shadow;

/*
 * Lies at the high end of its own stack. Defined here because the owner of a
 * fiber uses `next` and `user`. The assembly relies on the first three members,
 * which are valid while the fiber is suspended.
 */
struct tri_fiber {
    void *sp;
    void *go_on;           // address to continue at (aarch64: on the stack)
    void *frame;           // frame pointer (aarch64: on the stack)
    tri_fiber *next;       // for a list of the owner
    void *user;            // for the owner; NULL at first, unused here
    char *low;             // lowest usable byte; NULL: a thread's own stack
    char *high;            // one past the highest usable byte
    tri_fiber_pool *pool;  // NULL: a thread's own stack
    bool is_spare;         // in the list of spare fibers of its pool
    tri_fiber_shadow shadow;
};

/* Defined here because a worker embeds it; only fiber.c uses the members. */
struct tri_fiber_pool {
    tri_fiber *spare;  // last given back, first taken: its memory is cached
    uint32_t spare_count;
    uint32_t spare_least;  // smallest spare_count since the last trim
    uint32_t taken_count;
    uint64_t mapped_count;    // total ever; constant under a steady load
    _Atomic(uint32_t) *live;  // stacks of all pools that share this count
    uint32_t max;
    size_t stack_size;  // whole pages
    tri_fiber_entry_fn entry;
    void *arg;
};

/*
 * Makes an empty pool. Its fibers run entry(arg), which must never return; a
 * stack_size of 0 means the default. The pool borrows `live`, the number of
 * stacks, used and spare, of all pools that share it. When it reaches `max`,
 * these pools map no further stacks.
 *
 * So the spare stacks of one pool reduce what other pools can use. A pool keeps
 * at most TRI_FIBER_SPARE_MAX of them; at most TRI_FIBER_SPARE_WARM if more
 * than max / TRI_FIBER_SPARE_PART stacks are live; and at most
 * TRI_FIBER_SPARE_MIN if fewer than TRI_FIBER_SPARE_WARM are left below max.
 * tri_fiber_max_for computes a max that allows for this.
 */
void tri_fiber_pool_init(tri_fiber_pool *pool, size_t stack_size, uint32_t max,
                         _Atomic(uint32_t) *live, tri_fiber_entry_fn entry,
                         void *arg);

/*
 * Returns the `max` with which n stacks can be in use at once, however many
 * spare stacks the pools keep.
 */
static inline uint32_t tri_fiber_max_for(uint32_t n, uint32_t pools)
{
    uint64_t least = n + (uint64_t)pools * (1 + TRI_FIBER_SPARE_WARM);
    uint64_t max = least + least / (TRI_FIBER_SPARE_PART - 1) + 1;
    return max < UINT32_MAX ? (uint32_t)max : UINT32_MAX;
}

/*
 * Unmaps spare stacks that were not used since the last call, but keeps
 * TRI_FIBER_SPARE_WARM. The pool's thread calls it at intervals.
 */
void tri_fiber_pool_trim(tri_fiber_pool *pool);

/* Unmaps all stacks. All fibers must have been given back. */
void tri_fiber_pool_fini(tri_fiber_pool *pool);

/*
 * Returns a suspended fiber: a spare one, which continues where it was when it
 * was given back, or a new one, which starts with entry(arg). The caller owns
 * it and ends it with tri_fiber_give. Returns NULL at the limit of live stacks
 * or if memory is short.
 */
tri_fiber *tri_fiber_take(tri_fiber_pool *pool);

/*
 * Takes back a fiber, suspended at any point. It may be unmapped at once, so it
 * must not be the running fiber, and the contents of its stack are lost unless
 * it is taken again.
 */
void tri_fiber_give(tri_fiber_pool *pool, tri_fiber *fiber);

/*
 * Makes *self represent the calling thread's own stack, so that fibers can be
 * switched to from it and back. After the fini no fiber may switch to it.
 */
void tri_fiber_thread_init(tri_fiber *self);
void tri_fiber_thread_fini(tri_fiber *self);

/*
 * The switch: tri_fiber_switch_raw in assembly, and tri_fiber_switch_sanitized,
 * which also informs the sanitizers.
 *
 * On x86-64 the switch is inline assembly and not a call: the CPU predicts
 * returns from the calls it has seen, and a call that ends by a jump would
 * spoil the prediction of all returns after it. The clobber list makes the
 * compiler save the registers that it needs; the frame pointer cannot be listed
 * and is saved here. mxcsr and the x87 control word are not switched
 * (docs/design/0003-fibers.md). A new fiber expects `from` and `to` in rdi and
 * rsi (fiber_x86_64.S).
 */
#if defined(__x86_64__)
#ifdef __AVX512F__
#define TRI_FIBER_AVX512_CLOBBERS                                              \
    "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",    \
        "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",         \
        "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#else
#define TRI_FIBER_AVX512_CLOBBERS
#endif
static inline __attribute__((always_inline)) void tri_fiber_switch_raw(
    tri_fiber *from, tri_fiber *to)
{
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "movq %%rsp, 0(%%rdi)\n\t"
                     "movq %%rax, 8(%%rdi)\n\t"
                     "movq %%rbp, 16(%%rdi)\n\t"
                     "movq 0(%%rsi), %%rsp\n\t"
                     "movq 16(%%rsi), %%rbp\n\t"
                     "jmpq *8(%%rsi)\n"
                     "1:"
                     : "+D"(from), "+S"(to)
                     :
                     : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11",
                       "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2",
                       "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                       "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15",
                       TRI_FIBER_AVX512_CLOBBERS "memory", "cc");
}
#else
void tri_fiber_switch_raw(tri_fiber *from, tri_fiber *to);
#endif
void tri_fiber_switch_sanitized(tri_fiber *from, tri_fiber *to);

/*
 * Suspends `from`, which must be the running fiber, and resumes `to`, which
 * must be suspended and belong to this thread. Returns after the next switch to
 * `from`.
 */
static inline void tri_fiber_switch(tri_fiber *from, tri_fiber *to)
{
    if (TRI_FIBER_ASAN || TRI_FIBER_TSAN) {
        tri_fiber_switch_sanitized(from, to);
    } else {
        tri_fiber_switch_raw(from, to);
    }
}

/*
 * Returns true if the address is on this fiber's stack; false for the fiber of
 * a thread's own stack.
 */
static inline bool tri_fiber_contains(const tri_fiber *fiber, const void *at)
{
    uintptr_t address = (uintptr_t)at;

    return address >= (uintptr_t)fiber->low && address < (uintptr_t)fiber->high;
}

/* Returns true if the address is in the guard below this fiber's stack. */
static inline bool tri_fiber_guards(const tri_fiber *fiber, const void *at)
{
    uintptr_t address = (uintptr_t)at, low = (uintptr_t)fiber->low;

    return low != 0 && address < low && address >= low - TRI_FIBER_GUARD_SIZE;
}

/*
 * A jump up the stack. tri_jump_set(buf) returns 0 and saves the position.
 * tri_jump_go(buf), called in a function below on the same stack, makes
 * tri_jump_set return 1; it may be called repeatedly until the function that
 * called tri_jump_set returns. As with setjmp, a local that changes between the
 * two must be volatile. The frames between are not unwound.
 *
 * The builtins save three words; the compiler saves the rest. The sanitizers
 * support only the jumps of the C library, and clang has no builtins for
 * aarch64.
 */
#if TRI_FIBER_ASAN || TRI_FIBER_TSAN ||                                        \
    (defined(__clang__) && defined(__aarch64__))
typedef struct tri_jump_buf {
    jmp_buf env;
} tri_jump_buf;
#define tri_jump_set(buf) (_setjmp((buf)->env) != 0)
#define TRI_JUMP_GO(buf)  longjmp((buf)->env, 1)
#else
typedef struct tri_jump_buf {
    void *slot[8];
} tri_jump_buf;
#define tri_jump_set(buf) (__builtin_setjmp((buf)->slot) != 0)
#define TRI_JUMP_GO(buf)  __builtin_longjmp((buf)->slot, 1)
#endif

_Noreturn void tri_jump_go(tri_jump_buf *buf);

#endif
