/*
 * blocking_end_test.c - an actor is ended while its tr_blocking returns.
 *
 * The turn and the thread that runs the function share a job. Builds with
 * sanitizers report if one of them uses it after the other has freed it.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <troupe/troupe.h>

TR_MESSAGE(Block);

typedef struct Blocker {
    int unused;
} Blocker;

static sem_t entered, leave;

static tr_err block(void *arg)
{
    (void)arg;
    sem_post(&entered);
    sem_wait(&leave);
    return TR_OK;
}

static tr_err on_block(tr_ctx *ctx, Blocker *self, const Block *m)
{
    (void)self, (void)m;
    return tr_blocking(ctx, block, NULL);
}

TR_ACTOR(blocker, Blocker, TR_ON(Block, on_block));

static void test_a_kill_while_a_blocking_call_returns(void **state)
{
    enum { ROUNDS = 200 };
    tr_system *sys;
    (void)state;
    sem_init(&entered, 0, 0);
    sem_init(&leave, 0, 0);
    TR_MUST(tr_system_open(&sys, .workers = 2, .log_level = TR_LOG_ERROR));
    for (int i = 0; i < ROUNDS; i++) {
        tr_ref ref = tr_spawn(sys, blocker, .joinable = true);
        tr_tell(sys, ref, Block);
        sem_wait(&entered);
        if (i % 2 == 0) {  // either may come first at the actor
            sem_post(&leave);
            tr_kill(sys, ref);
        } else {
            tr_kill(sys, ref);
            sem_post(&leave);
        }
        tr_result result;
        TR_MUST(tr_join(sys, ref, 0, &result, NULL));
        assert_int_equal(result.reason, TR_KILLED);
    }
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_kill_while_a_blocking_call_returns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
