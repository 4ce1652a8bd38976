/*
 * 20_own_dispatcher.c - a dispatcher whose threads belong to the program.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Thread, (bool, is_ours));
TR_REQUEST(Where, Thread);

enum { THREADS_MAX = 4 };

typedef struct own_threads {
    pthread_t threads[THREADS_MAX];
    uint32_t count;
    uint32_t most;  // a start beyond them fails
    _Atomic(uint32_t) returned;
} own_threads;

typedef struct errand {
    own_threads *own;
    void (*run)(void *arg);
    void *arg;
} errand;

static _Thread_local bool is_ours;
static errand errands[THREADS_MAX];

static void *thread_main(void *arg)
{
    errand *mine = arg;
    is_ours = true;
    mine->run(mine->arg);
    atomic_fetch_add(&mine->own->returned, 1);
    return NULL;
}

static tr_err start(void *user, void (*run)(void *arg), void *arg)
{
    own_threads *own = user;
    if (own->count == own->most) {
        return TR_ELIMIT;
    }
    errand *mine = &errands[own->count];
    *mine = (errand){own, run, arg};
    return pthread_create(&own->threads[own->count++], NULL, thread_main,
                          mine) == 0
               ? TR_OK
               : TR_ELIMIT;
}

typedef struct Worker {
    int unused;
} Worker;

static tr_err on_where(tr_ctx *ctx, Worker *self, const Where *m)
{
    (void)self;
    bool before = is_ours;
    TR_TRY(tr_sleep(ctx, TR_MS(1)));  // parks and continues there
    return tr_reply(ctx, m, .is_ours = before && is_ours);
}

TR_ACTOR(worker, Worker, TR_ON(Where, on_where));

static void test_DP4_actors_run_on_threads_of_the_program(void **state)
{
    enum { ACTORS = 20 };
    tr_system *sys;
    own_threads own = {.most = THREADS_MAX};
    tr_ref refs[ACTORS];
    (void)state;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR));
    TR_MUST(tr_dispatcher_add(sys, "ours", .threads = 2, .start = start,
                              .start_user = &own));
    assert_int_equal(own.count, 2);
    Thread where;
    for (int i = 0; i < ACTORS; i++) {
        refs[i] = tr_spawn(sys, worker, .dispatcher = "ours");
    }
    for (int i = 0; i < ACTORS; i++) {
        TR_MUST(tr_ask(sys, refs[i], &where, 0, Where));
        assert_true(where.is_ours);
    }
    TR_MUST(tr_ask(sys, tr_spawn(sys, worker), &where, 0, Where));
    assert_false(where.is_ours);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    for (uint32_t i = 0; i < own.count; i++) {
        pthread_join(own.threads[i], NULL);
    }
    assert_int_equal(own.returned, 2);
}

static void test_DP4_the_error_of_start_is_returned(void **state)
{
    tr_system *sys;
    own_threads own = {.most = 1};
    (void)state;
    TR_MUST(tr_system_open(&sys, .log_level = TR_LOG_ERROR));
    assert_int_equal(tr_dispatcher_add(sys, "ours", .threads = 2,
                                       .start = start, .start_user = &own),
                     TR_ELIMIT);
    // The dispatcher does not exist.
    assert_int_equal(tr_ref_err(tr_spawn(sys, worker, .dispatcher = "ours")),
                     TR_ENOENT);
    // Its name is free.
    TR_MUST(tr_dispatcher_add(sys, "ours", .threads = 1));
    Thread where;
    TR_MUST(tr_ask(sys, tr_spawn(sys, worker, .dispatcher = "ours"), &where, 0,
                   Where));
    assert_false(where.is_ours);
    assert_int_equal(tr_dispatcher_add(sys, "pin", .kind = TR_DISPATCH_PINNED,
                                       .start = start, .start_user = &own),
                     TR_EINVAL);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    pthread_join(own.threads[0], NULL);
    assert_int_equal(own.returned, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DP4_actors_run_on_threads_of_the_program),
        cmocka_unit_test(test_DP4_the_error_of_start_is_returned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
