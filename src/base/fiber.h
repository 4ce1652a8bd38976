/*
 * fiber.h - stacks that a worker thread leaves and comes back to.
 *
 * A fiber is a stack with a saved context. A worker runs its loop on a fiber;
 * when a handler must wait, that stack is parked as it is and the worker goes
 * on with another one. No handler runs on the thread's own stack.
 *
 * The floating-point environment (rounding, exception masks) is the thread's
 * and not the fiber's: a switch leaves it alone. Shadow stacks are not
 * supported, and no C++ exception leaves a fiber.
 *
 * Threads: a pool, its fibers and the fiber of a thread belong to the thread
 * that first used them. Only the count of live stacks is shared.
 */
#ifndef TRI_BASE_FIBER_H
#define TRI_BASE_FIBER_H

#include <setjmp.h>
#include <stdatomic.h>
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

/* Reserved for one stack; only the pages that were touched cost memory. */
#define TRI_FIBER_STACK_DEFAULT ((size_t)256 * 1024)
#define TRI_FIBER_STACK_MIN     ((size_t)16 * 1024)

/*
 * Below each stack, beside its size. Many pages, since a large local array
 * may reach past the first of them; they are never backed by memory.
 */
#define TRI_FIBER_GUARD_SIZE ((size_t)64 * 1024)

/*
 * Spare stacks: how many a pool keeps, down to how many it is trimmed, and how
 * many it keeps when the limit is near. A stack is mapped and unmapped in the
 * time of a hundred messages, so a thousand turns that wait in waves are worth
 * their memory; TSan has megabytes for each.
 */
#if TRI_FIBER_TSAN
#define TRI_FIBER_SPARE_MAX UINT32_C(64)
#else
#define TRI_FIBER_SPARE_MAX UINT32_C(1024)
#endif
#define TRI_FIBER_SPARE_WARM UINT32_C(64)
#define TRI_FIBER_SPARE_MIN  UINT32_C(2)
#define TRI_FIBER_SPARE_PART UINT32_C(4)    // of all: more is not kept as spare
#define TRI_FIBER_TRIM_MAX   UINT32_C(128)  // at once: half a millisecond

/*
 * Whatever max says. TSan aborts when it cannot have a fiber: gcc's at 8,128
 * of them, with 0.8 MB for each; clang's, which takes two mappings for each
 * that has run, at about 32,000.
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

/* What the sanitizers are told of a stack; unused without them. */
typedef struct tri_fiber_shadow {
    void *fake_stack;  // ASan: its frames for finding use after return
    const void *low;   // ASan: bounds, for a thread's own stack too
    size_t size;
    void *tsan;            // TSan: its fiber
    tri_fiber *came_from;  // who switched here last
} tri_fiber_shadow;

/* Lies at the high end of its own stack. Visible for `next` and `user`. */
struct tri_fiber {
    void *sp;              // while suspended; the assembly expects it first,
    void *go_on;           // then where to go on (aarch64: on its stack)
    void *frame;           // and the frame pointer (the same)
    tri_fiber *next;       // for lists of whoever took it
    void *user;            // the same; NULL at birth, never touched after
    char *low;             // lowest usable byte; NULL: a thread's own stack
    char *high;            // one past the highest
    tri_fiber_pool *pool;  // NULL: a thread's own stack
    bool is_spare;         // in the pool's cache
    tri_fiber_shadow shadow;
};

/* Embedded by value in a worker; the fields are fiber.c's. */
struct tri_fiber_pool {
    tri_fiber *spare;  // a stack of stacks: the warmest goes first
    uint32_t spare_count;
    uint32_t spare_least;  // since the last trim: so many were not needed
    uint32_t taken_count;
    uint64_t mapped_count;    // ever; does not move under a steady load
    _Atomic(uint32_t) *live;  // shared between pools
    uint32_t max;
    size_t stack_size;  // whole pages
    tri_fiber_entry_fn entry;
    void *arg;
};

/*
 * Makes an empty pool. Its fibers run entry(arg), which must never return; a
 * stack_size of 0 means the default. The pool borrows `live`, the number of
 * stacks that exist in all the pools that share it, spare ones included. At
 * `max` none of them maps another.
 *
 * So the spares of one pool count against the others. Where more than the
 * TRI_FIBER_SPARE_PART-th part of max exists, a pool stops at
 * TRI_FIBER_SPARE_WARM of them, and where fewer than those are left below max,
 * at TRI_FIBER_SPARE_MIN. A max that is to leave room for n stacks in use
 * allows for that: tri_fiber_max_for.
 */
void tri_fiber_pool_init(tri_fiber_pool *pool, size_t stack_size, uint32_t max,
                         _Atomic(uint32_t) *live, tri_fiber_entry_fn entry,
                         void *arg);

/* The max with which n stacks can be in use, whatever the pools keep. */
static inline uint32_t tri_fiber_max_for(uint32_t n, uint32_t pools)
{
    uint64_t least = n + (uint64_t)pools * (1 + TRI_FIBER_SPARE_WARM);
    uint64_t max = least + least / (TRI_FIBER_SPARE_PART - 1) + 1;
    return max < UINT32_MAX ? (uint32_t)max : UINT32_MAX;
}

/*
 * Unmaps the spare stacks that nobody needed since the last call, but keeps
 * TRI_FIBER_SPARE_WARM. To be called now and then by the pool's thread.
 */
void tri_fiber_pool_trim(tri_fiber_pool *pool);

/* All fibers must be back in the pool; their stacks are unmapped. */
void tri_fiber_pool_fini(tri_fiber_pool *pool);

/*
 * A suspended fiber: a spare one, to be resumed where it was when it was
 * given back, or a new one, to begin with entry(arg). The caller owns it and
 * ends it with tri_fiber_give. NULL at the limit or when no memory is left.
 */
tri_fiber *tri_fiber_take(tri_fiber_pool *pool);

/*
 * Takes a suspended fiber back, wherever it stands. It may be unmapped at
 * once, so it must not be the one that is running, and what stands on its
 * stack is lost unless it is taken again.
 */
void tri_fiber_give(tri_fiber_pool *pool, tri_fiber *fiber);

/*
 * Makes *self stand for the calling thread's own stack, which can then be
 * switched away from and back to. After the fini no fiber may switch to it.
 */
void tri_fiber_thread_init(tri_fiber *self);
void tri_fiber_thread_fini(tri_fiber *self);

/*
 * The switch in assembly, and in C around it for the sanitizers' sake.
 *
 * On x86-64 it is no call: processors foresee returns by the calls they have
 * seen, and one that is left by a jump would put all returns behind it in
 * disorder. The compiler saves around it what it needs of what a function
 * must keep; only the frame pointer it does not let go of. mxcsr and the x87
 * control word are left alone (docs/design/0003-fibers.md). rdi and rsi are
 * also what a new fiber begins with (fiber_x86_64.S).
 */
#if defined(__x86_64__)
#ifdef __AVX512F__
#define TRI_FIBER_MORE                                                         \
    "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23",    \
        "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30",         \
        "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7",
#else
#define TRI_FIBER_MORE
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
                       TRI_FIBER_MORE "memory", "cc");
}
#else
void tri_fiber_switch_raw(tri_fiber *from, tri_fiber *to);
#endif
void tri_fiber_switch_told(tri_fiber *from, tri_fiber *to);

/*
 * Suspends `from`, which must be the running one, and resumes `to`, which
 * must be suspended on this thread. Returns when somebody switches to `from`.
 */
static inline void tri_fiber_switch(tri_fiber *from, tri_fiber *to)
{
    if (TRI_FIBER_ASAN || TRI_FIBER_TSAN) {
        tri_fiber_switch_told(from, to);
    } else {
        tri_fiber_switch_raw(from, to);
    }
}

/* Is the address on this fiber's stack? Never, for a thread's own. */
static inline bool tri_fiber_contains(const tri_fiber *fiber, const void *at)
{
    uintptr_t address = (uintptr_t)at;

    return address >= (uintptr_t)fiber->low && address < (uintptr_t)fiber->high;
}

/*
 * A jump up one stack: tri_jump_set(buf) gives 0 and notes where it stands;
 * tri_jump_go(buf), from a function below it on the same stack, makes it give
 * 1, as often as wanted while the function that set it has not returned. As
 * with setjmp, a local changed between the two must be volatile. Frames
 * between are not unwound.
 *
 * The builtins save three words and leave the rest to the compiler. The
 * sanitizers see only the jumps of the C library, and clang has no builtins
 * for aarch64.
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
