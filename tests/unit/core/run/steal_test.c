/*
 * steal_test.c - idle workers take over what a busy worker has in its queue.
 */
#include "support/stage.h"

#include <semaphore.h>

#include "support/core.h"

enum { CHORES = 8 };

typedef struct chores {
    tr_ref to[CHORES];
    sem_t done;
} chores;

static tr_err act_chore(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    chores *it = arg;
    (void)ctx;
    (void)self;
    (void)m;
    sem_post(&it->done);
    return TR_OK;
}

static tr_err act_wait_for_chores(tr_ctx *ctx, puppet *self, const Act *m,
                                  void *arg)
{
    chores *it = arg;
    (void)self;
    for (int i = 0; i < CHORES; i++) {
        act_tell(ctx, it->to[i], act_chore, it);
    }
    for (int i = 0; i < CHORES; i++) {  // blocks its thread
        while (sem_wait(&it->done) != 0) {
        }
    }
    return tr_reply(ctx, m, .value = 1);
}

static void test_MB19_an_idle_worker_steals_queued_cells(void **state)
{
    stage it;
    chores list;
    tr_system_options options = {.size = sizeof(options), .workers = 2};
    tr_metrics_snapshot now = {.size = sizeof(now)};
    (void)state;
    assert_int_equal(sem_init(&list.done, 0, 0), 0);
    stage_open_real(&it, &options);
    for (int i = 0; i < CHORES; i++) {
        list.to[i] = stage_spawn(&it, .soft_limit = 0);
        expect_ok(tr_started(it.sys, list.to[i], 0));
    }
    expect_ok(stage_ask(&it, it.one, act_wait_for_chores, &list));
    tr_metrics(it.sys, &now);
    // If a batch may send fewer than CHORES messages, the sender yields and
    // its own worker runs them.
    assert_true(now.steals > 0 || (int)TRI_BATCH_SENDS < CHORES);
    stage_close(&it);
    sem_destroy(&list.done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_MB19_an_idle_worker_steals_queued_cells),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
