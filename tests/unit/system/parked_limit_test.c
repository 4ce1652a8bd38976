/*
 * parked_limit_test.c - max_parked: when as many turns wait as may, whatever
 * would wait says TR_ELIMIT, leaves nothing behind, and works again later.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/core.h"

TR_STATE(Jar, (int64_t, value));
TR_REQUEST(Fill, tr_none, (uint64_t, seen));

enum { CALLS = 8 };

typedef struct seen {
    tr_err said[CALLS];
    int count;
    int ends[2];
    tr_ref other;
} seen;

static tr_err nothing(void *arg)
{
    (void)arg;
    return TR_OK;
}

static tr_err jar_fill(tr_ctx *ctx, Jar *self, const Fill *m)
{
    seen *s = (seen *)(uintptr_t)m->seen;
    Jar next = {.value = self->value + 1};
    size_t index;
    s->count = 0;
    s->said[s->count++] = tr_sleep(ctx, TR_MS(1));
    s->said[s->count++] = tr_blocking(ctx, nothing, NULL);
    s->said[s->count++] =
        tr_wait_fd(ctx, s->ends[0], TR_FD_WRITE, TR_SECONDS(1), NULL);
    s->said[s->count++] =
        act_ask(ctx, s->other, act_nothing, NULL, TR_SECONDS(1));
    s->said[s->count++] = tr_join(ctx, s->other, TR_MS(1), NULL, NULL);
    tr_future f = tr_async(ctx, s->other, TR_SECONDS(1), Act,
                           .fn = (uint64_t)(uintptr_t)act_nothing);
    s->said[s->count++] = tr_await_any(ctx, &f, 1, &index);
    s->said[s->count++] = tr_await(ctx, f, Act, NULL);
    s->said[s->count++] = tr_persist(ctx, self, &next);
    return tr_reply(ctx, m);
}

TR_ACTOR(jars, Jar, TR_ON(Fill, jar_fill));

static tr_err act_sleep_or_note(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    (void)m;
    (void)arg;
    tr_err err = tr_sleep(ctx, TR_SECONDS(100));
    if (err == TR_ELIMIT) {
        stage_note(self->stage, 1);
    }
    return TR_OK;
}

static void test_rule_27_waits_beyond_max_parked_are_refused(void **state)
{
    stage it;
    tr_storage *store;
    static seen s;
    tr_system_options options = {
        .size = sizeof(options), .workers = 1, .max_parked = 2};
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, s.ends), 0);
    expect_ok(tr_storage_memory(&store));
    stage_open_seed(&it, 1, &options);
    s.other = it.two;
    tr_ref jar = tr_spawn(it.sys, jars, .name = "jar", .storage = store);
    stage_run_ready(&it);
    for (int i = 0; i < 1000 && atomic_load(&it.note_count) == 0; i++) {
        stage_tell(&it, stage_spawn(&it, .soft_limit = 0), act_sleep_or_note,
                   NULL);
        stage_run_ready(&it);
    }
    assert_int_equal(atomic_load(&it.note_count), 1);
    tr_tell(it.sys, jar, Fill, .seen = (uint64_t)(uintptr_t)&s);
    stage_run_ready(&it);
    assert_int_equal(s.count, CALLS);
    for (int i = 0; i < CALLS; i++) {
        if (s.said[i] == TR_OK) {
            fail_msg("call %d has waited", i);
        }
    }
    expect_err(s.said[0], TR_ELIMIT);
    expect_err(s.said[1], TR_ELIMIT);
    expect_err(s.said[2], TR_ELIMIT);
    expect_err(s.said[3], TR_ELIMIT);
    expect_err(s.said[7], TR_ELIMIT);
    stage_pass(&it, TR_SECONDS(200));  // the sleepers have gone
    tr_tell(it.sys, jar, Fill, .seen = (uint64_t)(uintptr_t)&s);
    stage_pass(&it, TR_SECONDS(5));
    assert_int_equal(s.count, CALLS);
    expect_ok(s.said[0]);
    expect_ok(s.said[1]);
    expect_ok(s.said[3]);
    expect_err(s.said[4], TR_ETIMEDOUT);
    expect_ok(s.said[6]);
    expect_ok(s.said[7]);
    stage_close(&it);
    tr_storage_close(store);
    close(s.ends[0]);
    close(s.ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_27_waits_beyond_max_parked_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
