/*
 * fiber_test.c - switching, stacks and their guards, threads and jumps.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

#include "base/pages.h"
#include "unit/base/fiber_fixture.h"

#define SANITIZED   (TRI_FIBER_ASAN || TRI_FIBER_TSAN)
#define ROUNDS      (SANITIZED ? 20000 : 200000)
#define JUMP_ROUNDS 69999  // on each of three fibers

/* ---- switching ---- */

/*
 * Uses more integers and doubles than there are registers. They start from
 * volatiles, so that the compiler cannot compute one from another.
 */
static void churn(fixture *b, void (*turn)(fixture *b), uint64_t seed)
{
    volatile uint64_t at[8];
    volatile double real[9];

    for (uint64_t i = 0; i < 9; i++) {
        at[i % 8] = seed + i % 8;
        real[i] = (double)(seed + i);
    }
    uint64_t i0 = at[0], i1 = at[1], i2 = at[2], i3 = at[3];
    uint64_t i4 = at[4], i5 = at[5], i6 = at[6], i7 = at[7];
    double d0 = real[0], d1 = real[1], d2 = real[2], d3 = real[3];
    double d4 = real[4], d5 = real[5], d6 = real[6], d7 = real[7];
    double d8 = real[8];

    for (uint64_t n = 1; n <= ROUNDS; n++) {
        turn(b);
        i0++, i1++, i2++, i3++, i4++, i5++, i6++, i7++;
        d0++, d1++, d2++, d3++, d4++, d5++, d6++, d7++, d8++;
        EXPECT(i0 == seed + n && i1 == i0 + 1 && i2 == i0 + 2);
        EXPECT(i3 == i0 + 3 && i4 == i0 + 4 && i5 == i0 + 5);
        EXPECT(i6 == i0 + 6 && i7 == i0 + 7);
        EXPECT(d0 == (double)(seed + n) && d1 == d0 + 1 && d2 == d0 + 2);
        EXPECT(d3 == d0 + 3 && d4 == d0 + 4 && d5 == d0 + 5);
        EXPECT(d6 == d0 + 6 && d7 == d0 + 7 && d8 == d0 + 8);
    }
}

static void job_churn(fixture *b)
{
    b->steps++;
    churn(b, suspend, b->steps * 1000);
}

static void turn_two(fixture *b)
{
    tri_fiber **two = b->arg;

    resume(b, two[0]);
    resume(b, two[1]);
}

static void test_values_survive_switches(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *two[2];

    fixture_init(&b, job_churn);
    b.arg = two;
    take_all(&b.pool, two, 2);
    churn(&b, turn_two, 7);
    EXPECT(b.steps == 2);
    give_all(&b.pool, two, 2);
    fixture_fini(&b);
}

static void job_hand_over(fixture *b)
{
    tri_fiber *self = b->running;
    tri_fiber *other = self->user;

    for (;;) {
        b->steps++;
        b->running = b->steps == ROUNDS ? &b->thread : other;
        tri_fiber_switch(self, b->running);
    }
}

static void test_fibers_switch_to_each_other(void **state)
{
    (void)state;
    fixture b;

    fixture_init(&b, job_hand_over);
    tri_fiber *one = tri_fiber_take(&b.pool);
    tri_fiber *two = tri_fiber_take(&b.pool);

    EXPECT(one != NULL && two != NULL);
    EXPECT(one->user == NULL && one->next == NULL);
    one->user = two;
    two->user = one;
    resume(&b, one);
    EXPECT(b.steps == ROUNDS);
    EXPECT(b.running == &b.thread);
    tri_fiber_give(&b.pool, one);
    tri_fiber_give(&b.pool, two);
    fixture_fini(&b);
}

static void job_alignment(fixture *b)
{
    _Alignas(16) char aligned[16];
    char text[64];
    char *volatile at = aligned;  // hides the alignment from the compiler

    EXPECT((uintptr_t)at % 16 == 0);
    // Saves vector registers with aligned stores.
    snprintf(text, sizeof(text), "%.3f %.3f %.1Lf", 1.5, 2.25, 3.5L);
    EXPECT(strcmp(text, "1.500 2.250 3.5") == 0);
    b->steps++;
}

static void test_stack_is_aligned(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *fiber = fixture_init_one(&b, job_alignment);

    resume(&b, fiber);
    resume(&b, fiber);
    EXPECT(b.steps == 2);
    fixture_fini_one(&b, fiber);
}

/* ---- the stack itself ---- */

/* Down to 32 KiB above the low end; each frame checks itself on the way up. */
__attribute__((noinline)) static uint64_t dive(const tri_fiber *self,
                                               uint64_t depth)
{
    volatile char frame[256];

    memset((char *)frame, (int)(depth & 0x7f), sizeof(frame));
    if ((char *)__builtin_frame_address(0) - self->low > 32 * 1024) {
        depth = dive(self, depth + 1) - 1;
    } else {
        depth = depth + 1000000;
    }
    for (size_t i = 0; i < sizeof(frame); i++) {
        EXPECT(frame[i] == (char)((depth - 1000000) & 0x7f));
    }
    return depth;
}

static void job_dive(fixture *b)
{
    EXPECT(dive(b->running, 0) == 1000000);
    b->steps++;
}

static void test_recursion_uses_the_whole_stack(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *fiber = fixture_init_one(&b, job_dive);

    EXPECT(fiber->high - fiber->low > 255 * 1024);
    resume(&b, fiber);
    resume(&b, fiber);
    EXPECT(b.steps == 2);
    fixture_fini_one(&b, fiber);
}

static size_t resident_pages(const tri_fiber *fiber)
{
    unsigned char seen[512] = {0};
    size_t page = tri_page_size();
    size_t count = ((size_t)(fiber->high - fiber->low) + page - 1) / page;
    size_t resident = 0;

    EXPECT(count <= sizeof(seen));
    EXPECT(mincore(fiber->low, count * page, seen) == 0);
    for (size_t i = 0; i < count; i++) {
        resident += seen[i] & 1;
    }
    return resident;
}

static void test_only_used_pages_take_memory(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *fiber = fixture_init_one(&b, job_count);

    EXPECT(resident_pages(fiber) == 1);
    resume(&b, fiber);
    EXPECT(resident_pages(fiber) <= 2);
    b.job = job_dive;
    resume(&b, fiber);
    EXPECT(resident_pages(fiber) > 50);
    fixture_fini_one(&b, fiber);
}

static void job_contains(fixture *b)
{
    int *heap = malloc(sizeof(*heap));
    tri_fiber *self = b->running;

    EXPECT(tri_fiber_contains(self, __builtin_frame_address(0)));
    EXPECT(!tri_fiber_contains(self, b));
    EXPECT(heap != NULL);
    EXPECT(!tri_fiber_contains(self, heap));
    free(heap);
    b->steps++;
}

static void test_contains_only_its_own_stack(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *fiber = fixture_init_one(&b, job_contains);

    resume(&b, fiber);
    EXPECT(b.steps == 1);
    EXPECT(tri_fiber_contains(fiber, fiber->low));
    EXPECT(tri_fiber_contains(fiber, fiber->high - 1));
    EXPECT(!tri_fiber_contains(fiber, fiber->low - 1));
    EXPECT(!tri_fiber_contains(fiber, fiber->high));
    EXPECT(!tri_fiber_contains(fiber, __builtin_frame_address(0)));
    EXPECT(!tri_fiber_contains(&b.thread, __builtin_frame_address(0)));
    EXPECT(!tri_fiber_contains(&b.thread, NULL));
    fixture_fini_one(&b, fiber);
}

/* What the fault handler of the child compares with. */
static char *guard_low;
static char *guard_high;

static void on_fault(int number, siginfo_t *info, void *context)
{
    char *at = info->si_addr;

    (void)number;
    (void)context;
    _exit(at >= guard_low && at < guard_high ? 42 : 43);
}

__attribute__((noinline)) static uint64_t dive_for_ever(volatile char *above)
{
    volatile char frame[1024];

    frame[0] = *above;
    if (frame[0] == 0) {  // never true, but the compiler cannot know
        return 0;
    }
    uint64_t below = dive_for_ever(frame);
    return below + (uint64_t)frame[0];
}

static void job_overflow(fixture *b)
{
    char first = 1;

    b->steps = dive_for_ever(&first);
}

static void run_overflow(void)
{
    static char handler_stack[64 * 1024];
    struct sigaction action = {.sa_sigaction = on_fault,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK};
    stack_t other = {.ss_sp = handler_stack, .ss_size = sizeof(handler_stack)};
    fixture b;

    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    sigaltstack(&other, NULL);
    sigaction(SIGSEGV, &action, NULL);

    tri_fiber *fiber = fixture_init_one(&b, job_overflow);

    guard_low = fiber->low - TRI_FIBER_GUARD_SIZE;
    guard_high = fiber->low;
    resume(&b, fiber);
}

/* An emulator that takes any advice without following it has no guards. */
static bool has_guards(void)
{
    char *at = tri_pages_map(tri_page_size());
    int rc = madvise(at, tri_page_size(), 12345);

    tri_pages_unmap(at, tri_page_size());
    return rc != 0;
}

static void test_overflow_hits_the_guard(void **state)
{
    (void)state;
    if (!has_guards()) {
        printf("no guards under this emulator\n");
        return;
    }
    pid_t child = fork();

    EXPECT(child >= 0);
    if (child == 0) {
        run_overflow();
        _exit(1);
    }
    int status = 0;

    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

static _Unwind_Reason_Code count_frame(struct _Unwind_Context *context,
                                       void *arg)
{
    uint64_t *count = arg;

    (void)context;
    (*count)++;
    return *count < 100 ? _URC_NO_REASON : _URC_NORMAL_STOP;
}

/* With an arg: a code address lies where the base would have returned to. */
static void job_unwind(fixture *b)
{
    if (b->arg != NULL) {
        b->running->sp = b->arg;
    }
    b->steps = 0;
    EXPECT(_Unwind_Backtrace(count_frame, &b->steps) == _URC_END_OF_STACK);
}

static void test_unwinding_ends_at_the_first_frame(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *fiber = fixture_init_one(&b, job_unwind);

    EXPECT(fiber->high == (char *)&fiber->sp);
    resume(&b, fiber);
    // The job, the loop, tri_fiber_main, fiber_start; some may be inlined.
    EXPECT(b.steps >= 2 && b.steps <= 6);
    uint64_t plain = b.steps;

    b.arg = (char *)(uintptr_t)job_unwind + 1;
    resume(&b, fiber);
    EXPECT(b.steps == plain);
    fixture_fini_one(&b, fiber);
}

/* ---- threads ---- */

static void *run_thread(void *arg)
{
    _Atomic(uint32_t) *live = arg;
    fixture b;
    tri_fiber *taken[16];

    fixture_init(&b, job_count);
    tri_fiber_pool_init(&b.pool, 0, PLENTY, live, fixture_entry, &b);
    for (int round = 0; round < 200; round++) {
        take_all(&b.pool, taken, 16);
        for (int i = 0; i < 100; i++) {
            resume(&b, taken[i % 16]);
        }
        give_all(&b.pool, taken, 16);
        if (round % 50 == 0) {  // starts with new stacks
            tri_fiber_pool_fini(&b.pool);
        }
    }
    tri_fiber_pool_fini(&b.pool);
    tri_fiber_thread_fini(&b.thread);
    return b.steps == 200 * 100 ? arg : NULL;
}

static void test_threads_switch_in_parallel(void **state)
{
    (void)state;
    _Atomic(uint32_t) live = 0;
    pthread_t threads[4];
    void *result;

    for (size_t i = 0; i < TRI_COUNT_OF(threads); i++) {
        EXPECT(pthread_create(&threads[i], NULL, run_thread, &live) == 0);
    }
    for (size_t i = 0; i < TRI_COUNT_OF(threads); i++) {
        EXPECT(pthread_join(threads[i], &result) == 0);
        EXPECT(result == &live);
    }
    EXPECT(live == 0);
}

static void test_thread_fiber_can_be_made_again(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *fiber = fixture_init_one(&b, job_count);

    for (uint64_t i = 1; i <= 3; i++) {
        resume(&b, fiber);
        EXPECT(b.steps == i);
        tri_fiber_thread_fini(&b.thread);
        tri_fiber_thread_init(&b.thread);
    }
    fixture_fini_one(&b, fiber);
}

/* ---- jumps ---- */

__attribute__((noinline)) static void fall(tri_jump_buf *buf, uint64_t depth)
{
    volatile char frame[128];

    frame[0] = (char)depth;
    frame[127] = frame[0];
    if (depth > 0) {
        fall(buf, depth - 1);
        frame[1] = frame[0];
    } else if (frame[127] == 0) {  // always true
        tri_jump_go(buf);
    }
}

__attribute__((noinline)) static void handle(tri_jump_buf *buf, uint64_t n)
{
    if (n % 2 == 0) {
        fall(buf, n % 7);
    }
}

/* A worker's loop in small: set once, then handlers, half of which panic. */
__attribute__((noinline)) static uint64_t loop_of_jumps(fixture *b,
                                                        uint64_t rounds)
{
    tri_jump_buf buf;
    volatile uint64_t n = 0;
    volatile uint64_t caught = 0;
    volatile uint64_t seed = rounds;
    const uint64_t one = seed, two = seed, three = seed;  // in registers

    if (tri_jump_set(&buf)) {
        caught++;
        EXPECT(b == NULL || b->running->user == &b->running);
    }
    while (n < rounds) {
        n++;
        if (b != NULL && n % 3 == 0) {
            suspend(b);
        }
        handle(&buf, n);
    }
    EXPECT(one == seed && two == seed && three == seed);
    return caught;
}

static void test_jumps_on_a_thread_stack(void **state)
{
    (void)state;
    EXPECT(loop_of_jumps(NULL, 20000) == 10000);
    EXPECT(loop_of_jumps(NULL, 1) == 0);
}

static void job_jump(fixture *b)
{
    uint64_t caught = loop_of_jumps(b, JUMP_ROUNDS);

    b->steps += caught;
}

static void test_jumps_on_fibers_do_not_mix(void **state)
{
    (void)state;
    fixture b;
    tri_fiber *taken[3];

    fixture_init(&b, job_jump);
    take_all(&b.pool, taken, 3);
    for (int i = 0; i < 3; i++) {
        taken[i]->user = &b.running;
    }
    // One suspension in every third round, and one at the end.
    for (int turn = 0; turn < JUMP_ROUNDS / 3 + 1; turn++) {
        for (int i = 0; i < 3; i++) {
            resume(&b, taken[i]);
        }
    }
    EXPECT(b.steps == 3 * (JUMP_ROUNDS / 2));
    give_all(&b.pool, taken, 3);
    fixture_fini(&b);
}

int main(void)
{
    const bare_test tests[] = {
        TEST(test_values_survive_switches),
        TEST(test_fibers_switch_to_each_other),
        TEST(test_stack_is_aligned),
        TEST(test_recursion_uses_the_whole_stack),
        TEST(test_only_used_pages_take_memory),
        TEST(test_contains_only_its_own_stack),
        TEST(test_overflow_hits_the_guard),
        TEST(test_unwinding_ends_at_the_first_frame),
        TEST(test_threads_switch_in_parallel),
        TEST(test_thread_fiber_can_be_made_again),
        TEST(test_jumps_on_a_thread_stack),
        TEST(test_jumps_on_fibers_do_not_mix),
    };

    return run_all("base/fiber", tests, TRI_COUNT_OF(tests));
}
