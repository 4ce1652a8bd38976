/*
 * mailbox_test.c - lanes, limits, order: MB1 to MB22, X5, X25 to X27, X52.
 */
#include "support/stage.h"

#include <string.h>

#include "core/runtime.h"

static tr_err act_note(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)ctx;
    (void)m;
    stage_note(self->stage, (int64_t)(intptr_t)arg);
    return TR_OK;
}

static void busy(stage *it, tr_ref ref)
{
    stage_tell(it, ref, act_sleep, (void *)TR_SECONDS(1));
    stage_settle(it);
}

/* MB1, MB4, MB13, MB14: system mail overtakes a full user lane. */
static void test_mb01_mb14_system_mail_comes_before_user_mail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .mailbox_limit = 3);
    busy(&it, ref);
    for (int i = 0; i < 5; i++) {
        tr_tell(it.sys, ref, Note, .value = i);
    }
    tr_probe_watch(it.probe, ref);
    tr_kill(it.sys, ref);
    stage_settle(&it);
    expect_notes(&it);
    assert_int_equal(tr_expect(it.probe, 0, tr_terminated)->reason, TR_KILLED);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    stage_close(&it);
}

/* MB4, X26: after each user message system mail is looked at again. */
static tr_err act_stop_now(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

static void test_mb04_a_stop_is_seen_after_the_current_message(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_note, (void *)1);
    stage_tell(&it, it.one, act_stop_now, NULL);
    stage_tell(&it, it.one, act_note, (void *)2);
    stage_settle(&it);
    expect_notes(&it, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 1);
    stage_close(&it);
}

/* X5, MB21: mail for one that does not run yet waits. */
static tr_err slow_start(tr_ctx *ctx, puppet *self)
{
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    stage_note(self->stage, 1);
    return TR_OK;
}

static tr_err slow_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    stage_note(self->stage, m->value);
    return m->value == 5 ? tr_fail(ctx, TR_EUSER, "five") : TR_OK;
}

TR_ACTOR(slow_starters, puppet, TR_HOOK(pre_start, slow_start),
         TR_ON(Note, slow_note));

static void test_x05_mail_waits_until_the_actor_runs(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        tr_spawn(it.sys, slow_starters, TR_INIT(slow_starters, .stage = &it),
                 .supervision = TR_SUPERVISE(.backoff_min = TR_SECONDS(3),
                                             .backoff_max = TR_SECONDS(3)));
    tr_tell(it.sys, ref, Note, .value = 2);
    stage_settle(&it);
    expect_notes(&it);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 1, 2);
    // FAILED and RESTARTING: kept as well.
    tr_tell(it.sys, ref, Note, .value = 5);
    tr_tell(it.sys, ref, Note, .value = 6);
    stage_settle(&it);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_RESTARTING);
    tr_tell(it.sys, ref, Note, .value = 7);
    stage_pass(&it, TR_SECONDS(5));
    expect_notes(&it, 1, 2, 5, 1, 6, 7);
    // The failed message is the only one that is gone (X3).
    assert_int_equal(stage_dead(&it, TR_DEAD_FAILED), 1);
    stage_close(&it);
}

/* MB5, MB20: the depth can be read at any time. */
static void test_mb05_mb20_the_depth_is_known(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    busy(&it, it.one);
    for (uint32_t i = 1; i <= 50; i++) {
        tr_tell(it.sys, it.one, Note, .value = i);
        assert_int_equal(stage_depth(&it, it.one), i);
    }
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(stage_depth(&it, it.one), 0);
    stage_close(&it);
}

/* MB8: what is left at the end goes where the actor says. */
static void drain_to(stage *it, const tr_spawn_options *options)
{
    tr_ref ref = stage_puppet(it, options);
    busy(it, ref);
    for (int i = 1; i <= 3; i++) {
        tr_tell(it->sys, ref, Note, .value = i);
    }
    stage_settle(it);
    tr_stop(it->sys, ref);
    stage_pass(it, TR_SECONDS(2));
}

static void test_mb08_the_rest_of_the_mail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    drain_to(&it, TR_OPTIONS(tr_spawn_options, .name = "dead"));
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    drain_to(&it, TR_OPTIONS(tr_spawn_options, .drain = TR_DRAIN_DROP));
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    drain_to(&it, TR_OPTIONS(tr_spawn_options, .drain = TR_DRAIN_REDIRECT,
                             .drain_to = it.two));
    expect_notes(&it, 1, 2, 3);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    stage_close(&it);
}

/* MB10, X27: each policy of a full mailbox. */
static void fill(stage *it, tr_ref ref, int count)
{
    for (int i = 1; i <= count; i++) {
        tr_tell(it->sys, ref, Note, .value = i);
    }
}

static void test_mb10_mb22_overflow_fail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .mailbox_limit = 2);
    busy(&it, ref);
    fill(&it, ref, 4);
    expect_err(tr_try_tell(it.sys, ref, Note, .value = 9), TR_EFULL);  // X52
    expect_err(stage_ask(&it, ref, act_nothing, NULL), TR_EFULL);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 1, 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 2);
    fill(&it, ref, 1);  // there is room again
    stage_settle(&it);
    expect_notes(&it, 1, 2, 1);
    stage_close(&it);
}

static void test_mb10_mb22_overflow_drop_new(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_DROP_NEW);
    busy(&it, ref);
    fill(&it, ref, 4);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 1, 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 2);
    stage_close(&it);
}

static void test_mb10_mb22_overflow_drop_old(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_DROP_OLD);
    busy(&it, ref);
    fill(&it, ref, 5);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, 4, 5);
    assert_int_equal(stage_dead(&it, TR_DEAD_DROPPED_OLD), 3);
    stage_close(&it);
}

static void test_mb10_mb22_overflow_stop(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_STOP);
    busy(&it, ref);
    fill(&it, ref, 3);
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 1);
    stage_close(&it);
}

/* MB11, MB12: BLOCK keeps the limit with many senders. */
static tr_err act_tell_ten(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    for (int i = 1; i <= 10; i++) {
        tr_tell(ctx, *(tr_ref *)arg, Note, .value = i);
    }
    return TR_OK;
}

static tr_err act_slow_note(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    uint32_t *deepest = arg;
    (void)m;
    for (int i = 0; i < 200; i++) {
        TR_TRY(tr_sleep(ctx, TR_MS(10)));
        uint32_t depth = stage_depth(self->stage, tr_self(ctx));
        *deepest = depth > *deepest ? depth : *deepest;
    }
    return TR_OK;
}

static tr_err puppet_run(tr_ctx *ctx, puppet *self)
{
    return act_slow_note(ctx, self, NULL, self->kept);
}

static tr_err watched_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    stage_note(self->stage, m->value);
    return tr_sleep(ctx, TR_MS(7));
}

TR_ACTOR(watched, puppet, TR_ON(Note, watched_note),
         TR_HOOK(on_run, puppet_run));

static void test_mb11_mb12_mb22_block_keeps_the_limit(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        stage it;
        uint32_t deepest = 0;
        stage_open_seed(&it, seed, NULL);
        tr_ref full = tr_spawn(
            it.sys, watched, TR_INIT(watched, .stage = &it, .kept = &deepest),
            .mailbox_limit = 3, .overflow = TR_OVERFLOW_BLOCK);
        stage_settle(&it);
        for (int i = 0; i < 10; i++) {
            stage_tell(&it, stage_spawn(&it, .soft_limit = 0), act_tell_ten,
                       &full);
        }
        stage_pass(&it, TR_SECONDS(5));
        assert_int_equal(atomic_load(&it.note_count), 100);
        assert_true(deepest <= 3);
        assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 0);
        stage_close(&it);
    }
}

/* A hard limit counts mail; timers, answers and stashed mail do not wear it. */
static tr_err act_tick(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    (void)tr_every(ctx, TR_MS(10), Note, .value = 0);
    return TR_OK;
}

static tr_err act_stash_once(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)arg;
    return self->value == 0 ? tr_stash(ctx, m) : TR_OK;
}

static tr_err act_unstash(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    (void)arg;
    self->value = 1;
    tr_unstash_all(ctx);
    return TR_OK;
}

static void expect_limit(stage *it, tr_ref ref, uint32_t limit)
{
    busy(it, ref);
    for (uint32_t i = 0; i < limit; i++) {
        expect_ok(tr_try_tell(it->sys, ref, Note, .value = 1));
    }
    expect_err(tr_try_tell(it->sys, ref, Note, .value = 1), TR_EFULL);
    stage_pass(it, TR_SECONDS(2));
}

static void test_mb10_a_limit_counts_nothing_but_mail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 4,
                    .supervision = TR_SUPERVISE(.max_restarts = 100,
                                                .clear_mailbox = true));
    expect_ok(stage_ask(&it, ref, act_tick, NULL));
    stage_pass(&it, TR_SECONDS(1));
    expect_limit(&it, ref, 4);
    stage_tell(&it, ref, act_stash_once, NULL);
    stage_tell(&it, ref, act_stash_once, NULL);
    stage_tell(&it, ref, act_unstash, NULL);
    stage_settle(&it);
    expect_limit(&it, ref, 4);
    // A restart that clears the mailbox clears the number, too.
    busy(&it, ref);
    stage_tell(&it, ref, act_fail, NULL);
    fill(&it, ref, 3);
    stage_pass(&it, TR_SECONDS(3));
    assert_int_equal(stage_dead(&it, TR_DEAD_RESTARTED), 3);
    expect_limit(&it, ref, 4);
    stage_close(&it);
}

static void test_mb10_drop_old_leaves_timers_alone(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_DROP_OLD);
    expect_ok(stage_ask(&it, ref, act_tick, NULL));
    busy(&it, ref);
    stage_pass(&it, TR_MS(500));
    fill(&it, ref, 5);
    stage_pass(&it, TR_MS(506));
    expect_notes(&it, 0, 4, 5, 0);
    stage_close(&it);
}

/* MB15, X27: unbounded by default; slow_down and alarm. */
static tr_err act_flood(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    for (int i = 0; i < 20000; i++) {
        tr_tell(ctx, *(tr_ref *)arg, Stranger, .value = i);
    }
    return TR_OK;
}

typedef struct sink {
    uint64_t count;
    uint32_t *deepest;
    int64_t *last;
} sink;

static tr_err on_stranger(tr_ctx *ctx, sink *self, const Stranger *m)
{
    tr_actor_info info = {.size = sizeof(info)};
    TR_TRY(tr_actor_info_of(ctx, tr_self(ctx), &info));
    *self->deepest = info.depth > *self->deepest ? info.depth : *self->deepest;
    TR_ASSERT(ctx, m->value == *self->last + 1);  // FIFO per pair
    *self->last = m->value;
    if (++self->count % 1000 == 0) {
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
    }
    return TR_OK;
}

TR_ACTOR(sinks, sink, TR_ON(Stranger, on_stranger));

static void test_x27_mb12_pa8_a_fast_producer_is_slowed_down(void **state)
{
    stage it;
    uint32_t deepest = 0;
    int64_t last = -1;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, sinks,
                          TR_INIT(sinks, .deepest = &deepest, .last = &last),
                          .soft_limit = 100);
    stage_tell(&it, it.one, act_flood, &ref);
    stage_pass(&it, TR_SECONDS(10));
    assert_int_equal(last, 19999);
    assert_true(deepest <= 400);
    stage_close(&it);
}

/* One at a time: the receiver takes each over before the next comes. */
static tr_err act_trickle(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    for (int i = 0; i < 1000; i++) {
        tr_tell(ctx, *(tr_ref *)arg, Note, .value = i);
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
    }
    return TR_OK;
}

/* Does each send look at the soft limit? */
static bool is_tight(tr_ref ref)
{
    return (atomic_load(&tri_ref_cell(ref)->flags) & TRI_CELL_TIGHT) != 0;
}

static void test_x27_mb12_mail_beside_a_parked_turn_is_bounded(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .soft_limit = 100);  // has READ handlers
    stage_tell(&it, ref, act_sleep, (void *)TR_SECONDS(60));
    stage_tell(&it, it.one, act_trickle, &ref);
    stage_pass(&it, TR_SECONDS(30));
    assert_in_range(stage_depth(&it, ref), 100, 200);
    assert_true(is_tight(ref));
    stage_pass(&it, TR_SECONDS(40));
    assert_false(is_tight(ref));  // a look takes a line from the owner
    assert_int_equal(stage_depth(&it, ref), 0);
    assert_int_equal(atomic_load(&it.note_count), 1000);
    stage_close(&it);
}

static tr_err act_flood_back(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    (void)arg;
    for (int i = 0; i < 300; i++) {
        tr_tell(ctx, self->peer, Note, .value = i);
    }
    return TR_OK;
}

static void test_x27_two_that_flood_each_other_do_not_stand_still(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        stage it;
        stage_open_seed(&it, seed, NULL);
        tr_ref a = stage_spawn(&it, .soft_limit = 2);
        tr_ref b = stage_spawn(&it, .soft_limit = 2);
        expect_ok(stage_ask(&it, a, act_meet, &b));
        expect_ok(stage_ask(&it, b, act_meet, &a));
        stage_tell(&it, a, act_flood_back, NULL);
        stage_tell(&it, b, act_flood_back, NULL);
        stage_pass(&it, TR_SECONDS(1));
        assert_int_equal(atomic_load(&it.note_count), 600);
        stage_close(&it);
    }
}

static void test_x27_an_alarm_is_published(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .soft_limit = 10};
    (void)state;
    stage_open_seed(&it, 1, &options);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.one));
    stage_tell(&it, it.one, act_flood_back, NULL);  // to itself: cannot wait
    stage_settle(&it);
    assert_true(atomic_load(&it.overloads) > 0);
    assert_int_equal(atomic_load(&it.note_count), 300);
    stage_close(&it);
}

static void test_x27_a_memory_budget_ends_in_no_memory(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options),
                                 .memory_budget = 8 << 20};
    (void)state;
    stage_open_seed(&it, 1, &options);
    busy(&it, it.one);
    uint32_t sent = 0;
    while (sent < 1000000 &&
           tr_try_tell(it.sys, it.one, Note, .value = 1) == TR_OK) {
        sent++;
    }
    assert_true(sent > 1000 && sent < 1000000);
    tr_metrics_snapshot now = {.size = sizeof(now)};
    stage_pass(&it, TR_SECONDS(2));
    tr_metrics(it.sys, &now);
    assert_int_equal(atomic_load(&it.note_count), sent);
    stage_close(&it);
}

/* MB16: priorities. */
static void test_mb16_urgent_mail_overtakes(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    busy(&it, it.one);
    tr_tell(it.sys, it.one, Note, .value = 10);
    tr_tell_urgent(it.sys, it.one, 1, Note, .value = 1);
    tr_tell_urgent(it.sys, it.one, 7, Note, .value = 7);
    tr_tell(it.sys, it.one, Note, .value = 11);
    tr_tell_urgent(it.sys, it.one, 3, Note, .value = 3);
    tr_tell_urgent(it.sys, it.one, 3, Note, .value = 33);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 7, 3, 33, 1, 10, 11);
    stage_close(&it);
}

/* In the middle of many that have been taken over from the lane. */
static tr_err act_rush(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    (void)arg;
    tr_tell_urgent(ctx, tr_self(ctx), 2, Note, .value = 2);
    return TR_OK;
}

static tr_err act_plain_then_urgent(tr_ctx *ctx, puppet *self, const Act *m,
                                    void *arg)
{
    tr_ref to = *(tr_ref *)arg;
    (void)self;
    (void)m;
    tr_tell(ctx, to, Note, .value = 1);  // to a sleeper
    tr_tell_urgent(ctx, to, 2, Note, .value = 2);
    return TR_OK;
}

static void test_mb16_urgent_mail_does_not_wait_for_the_queue(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_sleep, (void *)TR_MS(1));
    tr_tell(it.sys, it.one, Note, .value = 1);
    stage_tell(&it, it.one, act_rush, NULL);
    for (int i = 3; i <= 5; i++) {
        tr_tell(it.sys, it.one, Note, .value = i);
    }
    stage_pass(&it, TR_MS(10));
    expect_notes(&it, 1, 2, 3, 4, 5);
    stage_close(&it);

    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_plain_then_urgent, &it.two));
    stage_settle(&it);
    expect_notes(&it, 2, 1);
    stage_close(&it);
}

static void test_mb16_urgent_mail_is_drained_and_limited(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .mailbox_limit = 3);
    busy(&it, ref);
    for (int i = 0; i < 5; i++) {
        tr_tell_urgent(it.sys, ref, 2, Note, .value = i);
    }
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 2);
    tr_stop(it.sys, ref);
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 3);
    stage_close(&it);
}

/* X52: what try_tell says, and that it leaves no dead letter. */
static void test_x52_try_tell_says_what_happened(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_err(tr_try_tell(it.sys, TR_NOBODY, Note), TR_EGONE);
    tr_kill(it.sys, it.one);
    expect_ok(tr_join(it.sys, it.one, 0, NULL, NULL));
    expect_err(tr_try_tell(it.sys, it.one, Note), TR_EGONE);
    busy(&it, it.two);
    tr_stop(it.sys, it.two);
    stage_settle(&it);
    expect_err(tr_try_tell(it.sys, it.two, Note), TR_EGONE);
    for (int i = 0; i < STAGE_REASONS; i++) {
        assert_int_equal(stage_dead(&it, (tr_dead_reason)i), 0);
    }
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mb01_mb14_system_mail_comes_before_user_mail),
        cmocka_unit_test(test_mb04_a_stop_is_seen_after_the_current_message),
        cmocka_unit_test(test_x05_mail_waits_until_the_actor_runs),
        cmocka_unit_test(test_mb05_mb20_the_depth_is_known),
        cmocka_unit_test(test_mb08_the_rest_of_the_mail),
        cmocka_unit_test(test_mb10_mb22_overflow_fail),
        cmocka_unit_test(test_mb10_mb22_overflow_drop_new),
        cmocka_unit_test(test_mb10_mb22_overflow_drop_old),
        cmocka_unit_test(test_mb10_mb22_overflow_stop),
        cmocka_unit_test(test_mb11_mb12_mb22_block_keeps_the_limit),
        cmocka_unit_test(test_mb10_a_limit_counts_nothing_but_mail),
        cmocka_unit_test(test_mb10_drop_old_leaves_timers_alone),
        cmocka_unit_test(test_x27_mb12_pa8_a_fast_producer_is_slowed_down),
        cmocka_unit_test(test_x27_mb12_mail_beside_a_parked_turn_is_bounded),
        cmocka_unit_test(test_x27_two_that_flood_each_other_do_not_stand_still),
        cmocka_unit_test(test_x27_an_alarm_is_published),
        cmocka_unit_test(test_x27_a_memory_budget_ends_in_no_memory),
        cmocka_unit_test(test_mb16_urgent_mail_overtakes),
        cmocka_unit_test(test_mb16_urgent_mail_does_not_wait_for_the_queue),
        cmocka_unit_test(test_mb16_urgent_mail_is_drained_and_limited),
        cmocka_unit_test(test_x52_try_tell_says_what_happened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
