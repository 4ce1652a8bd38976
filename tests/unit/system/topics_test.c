/*
 * topics_test.c - joining and leaving topics: twice, never joined, many
 * members, and members that end. events_test.c has a topic beside the event
 * stream.
 */
#include <stdatomic.h>

#include "support/stage.h"

static tr_err act_topics(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)arg;
    TR_ASSERT(ctx, tr_topic_join(ctx, NULL) == TR_EINVAL);
    TR_ASSERT(ctx, tr_topic_join(ctx, "") == TR_EINVAL);
    TR_ASSERT(ctx, tr_topic_join(ctx, "news") == TR_OK);
    TR_ASSERT(ctx, tr_topic_join(ctx, "news") == TR_OK);  // once is enough
    TR_ASSERT(ctx, tr_topic_join(ctx, "sport") == TR_OK);
    tr_topic_leave(ctx, "weather");
    tr_topic_leave(ctx, "sport");
    tr_topic_leave(ctx, "sport");
    return tr_reply(ctx, m, .value = 1);
}

/* EV: joined twice is joined once; who has left, or never came, is not told. */
static void test_PA_joining_a_topic_twice_is_joining_once(void **state)
{
    enum { MEMBERS = 100 };
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_topics, NULL));
    tr_topic_publish(it.sys, "news", Note, .value = 1);
    tr_topic_publish(it.sys, "sport", Note, .value = 2);
    tr_topic_publish(it.sys, "nowhere", Note, .value = 3);
    stage_run_ready(&it);
    expect_notes(&it, 1);
    for (int i = 0; i < MEMBERS; i++) {
        tr_ref ref = stage_spawn(&it, .soft_limit = 0);
        expect_ok(stage_ask(&it, ref, act_topics, NULL));
    }
    tr_topic_publish(it.sys, "news", Note, .value = 4);
    stage_run_ready(&it);
    assert_int_equal(atomic_load(&it.note_count), 1 + MEMBERS + 1);
    tr_kill(it.sys, it.one);
    stage_run_ready(&it);
    tr_topic_publish(it.sys, "news", Note, .value = 5);
    stage_run_ready(&it);
    assert_int_equal(atomic_load(&it.note_count), 2 * (1 + MEMBERS));
    stage_close(&it);  // the others are members to the end
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA_joining_a_topic_twice_is_joining_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
