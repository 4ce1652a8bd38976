/*
 * blocking_test.c - the threads of tr_blocking are started without a lock, and
 * a job whose thread does not start is answered.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "base/world.h"

/*
 * A world that starts the threads of tr_blocking as the test says: the first
 * start waits, and it or the others may fail. All else is the real world.
 */
typedef struct slow_world {
    tri_world world;  // first: start_slowly casts it back
    tri_world_ops ops;
    _Atomic uint32_t starts;
    uint32_t fails;  // so many of the first starts fail
    sem_t begun, go;
} slow_world;

static tr_err start_slowly(tri_world *world, tri_thread **out, const char *name,
                           void (*fn)(void *arg), void *arg)
{
    slow_world *it = (slow_world *)(void *)world;
    if (strcmp(name, "tr-block") == 0) {
        uint32_t n = ++it->starts;
        if (n == 1) {
            sem_post(&it->begun);
            sem_wait(&it->go);
        }
        if (n <= it->fails) {
            return TR_ENOMEM;
        }
    }
    tri_world *real = tri_world_posix();
    return real->ops->thread_start(real, out, name, fn, arg);
}

static void world_init(slow_world *it, uint32_t fails)
{
    memset(it, 0, sizeof(*it));
    it->ops = *tri_world_posix()->ops;
    it->ops.thread_start = start_slowly;
    it->world = (tri_world){.magic = TRI_WORLD_MAGIC, .ops = &it->ops};
    it->fails = fails;
    sem_init(&it->begun, 0, 0);
    sem_init(&it->go, 0, 0);
}

TR_MESSAGE(Done, (uint32_t, err));
TR_MESSAGE(Block, (tr_ref, to));

static tr_err quick(void *arg)
{
    (void)arg;
    return TR_OK;
}

static tr_err on_block(tr_ctx *ctx, void *self, const Block *m)
{
    (void)self;
    tr_err err = tr_blocking(ctx, quick, NULL);
    tr_tell(ctx, m->to, Done, .err = (uint32_t)err);
    return TR_OK;
}

TR_ACTOR(blocker, void, TR_ON(Block, on_block));

/* Lets an actor with a thread of its own make a call; returns its probe. */
static tr_probe *begin(tr_system *sys)
{
    tr_probe *probe;
    tr_ref ref = tr_spawn(sys, blocker, .dispatcher = "pinned");
    assert_int_equal(tr_probe_new(&probe, sys), TR_OK);
    tr_tell(sys, ref, Block, .to = tr_probe_ref(probe));
    return probe;
}

static tr_err end(tr_probe *probe)
{
    tr_err err = (tr_err)tr_expect(probe, TR_MINUTES(2), Done)->err;
    tr_probe_free(probe);
    return err;
}

/* A second call is carried out while the first thread is being started. */
static void test_a_slow_start_of_a_thread_delays_nobody(void **state)
{
    (void)state;
    slow_world world;
    tr_system *sys;
    world_init(&world, 0);
    TR_MUST(tr_system_open(&sys, .world = &world.world, .workers = 2));
    tr_probe *first = begin(sys);
    sem_wait(&world.begun);
    assert_int_equal(end(begin(sys)), TR_OK);
    sem_post(&world.go);
    assert_int_equal(end(first), TR_OK);
    assert_int_equal(world.starts, 2);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

/* All that relied on the thread of the first one are answered. */
static void test_a_thread_that_does_not_start_is_reported(void **state)
{
    enum { OTHERS = 3 };
    (void)state;
    slow_world world;
    tr_system *sys;
    tr_probe *others[OTHERS];
    world_init(&world, 1);
    TR_MUST(tr_system_open(&sys, .world = &world.world, .workers = 2,
                           .blocking_threads = 1));
    tr_probe *first = begin(sys);
    sem_wait(&world.begun);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = begin(sys);
    }
    sem_post(&world.go);
    assert_int_equal(end(first), TR_ELIMIT);
    for (int i = 0; i < OTHERS; i++) {
        // One that came after the failure has started a thread.
        tr_err err = end(others[i]);
        assert_true(err == TR_ELIMIT || err == TR_OK);
    }
    // The slot is free again.
    assert_int_equal(end(begin(sys)), TR_OK);
    assert_int_equal(world.starts, 2);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_slow_start_of_a_thread_delays_nobody),
        cmocka_unit_test(test_a_thread_that_does_not_start_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
