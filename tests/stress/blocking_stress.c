/*
 * blocking_stress.c - tr_blocking on real threads, while they are started.
 *
 * Each system is young: its first calls come at once from several workers and
 * pinned threads, so they reserve, start and share the threads of tr_blocking;
 * some of the actors are killed while their call is queued or runs. Whatever
 * the order: each call that returns has run its function, and the system
 * closes with all its threads joined.
 */
#include "support/stage.h"

#include <stdatomic.h>

enum { ACTORS = 12, CALLS = 4, THREADS = 3 };

TR_MESSAGE(Work);

typedef struct tally {
    _Atomic uint32_t ran;       // functions
    _Atomic uint32_t returned;  // calls, with TR_OK
    _Atomic uint32_t killed;    // calls that a kill cut short
    _Atomic uint32_t wrong;
} tally;

typedef struct Caller {
    tally *all;
} Caller;

static tr_err count(void *arg)
{
    tally *all = arg;
    all->ran++;
    return TR_EUSER + 1;
}

static tr_err on_work(tr_ctx *ctx, Caller *self, const Work *m)
{
    (void)m;
    for (int i = 0; i < CALLS; i++) {
        tr_err err = tr_blocking(ctx, count, self->all);
        self->all->returned += err == TR_EUSER + 1;
        self->all->killed += err == TR_EKILLED;
        self->all->wrong += err != TR_EUSER + 1 && err != TR_EKILLED;
    }
    return TR_OK;
}

TR_ACTOR(caller, Caller, TR_ON(Work, on_work));

static void one_life(uint64_t round, tally *all)
{
    tr_system *sys;
    tr_ref refs[ACTORS];
    expect_ok(tr_system_open(&sys, .workers = 2, .blocking_threads = THREADS));
    for (int i = 0; i < ACTORS; i++) {
        refs[i] =
            tr_spawn(sys, caller, TR_INIT(caller, .all = all), .joinable = true,
                     .dispatcher = i % 4 == 0 ? "pinned" : NULL);
        tr_tell(sys, refs[i], Work);
    }
    for (int i = 0; i < ACTORS; i++) {
        if ((round + (uint64_t)i) % 3 == 0) {
            tr_kill(sys, refs[i]);
        } else {
            tr_poison(sys, refs[i]);
        }
    }
    for (int i = 0; i < ACTORS; i++) {
        expect_ok(tr_join(sys, refs[i], TR_MINUTES(10), NULL, NULL));
    }
    expect_ok(tr_system_close(sys, TR_MINUTES(10)));
}

static void test_calls_share_the_threads_that_they_start(void **state)
{
    uint64_t rounds = stage_scaled(400);
    tally all = {0};
    (void)state;
    for (uint64_t round = 0; round < rounds; round++) {
        one_life(round, &all);
    }
    print_message("%u calls returned, %u were cut short, %u functions ran\n",
                  all.returned, all.killed, all.ran);
    assert_int_equal(all.wrong, 0);
    // A call that was cut short may have run its function, or still did.
    assert_true(all.returned <= all.ran);
    assert_true(all.ran <= all.returned + all.killed);
    assert_true(all.returned >= rounds * CALLS);  // the poisoned ones
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_share_the_threads_that_they_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
