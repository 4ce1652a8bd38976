/*
 * soft_limit_test.c - the soft limit of a mailbox: senders slow down, alarms
 * are published, nothing is lost.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <string.h>

#include "core/mail/soft_limit.h"
#include "support/core.h"

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
    TR_ASSERT(ctx, m->value == *self->last + 1);  // in the order of sending
    *self->last = m->value;
    if (++self->count % 1000 == 0) {
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
    }
    return TR_OK;
}

TR_ACTOR(sinks, sink, TR_ON(Stranger, on_stranger));

static void test_X27_MB12_PA8_a_fast_producer_is_slowed_down(void **state)
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
    // The fast path checks one push in so many; a refill of the magazine takes
    // the slow path, which checks too, but far less often.
    assert_true(deepest <= 100 + 2 * TRI_SOFT_CHECK_EVERY);
    stage_close(&it);
}

/* Sends one message per millisecond; the receiver detaches each of them. */
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

/* True if senders compare the depth with the soft limit. */
static bool checks_depth(tr_ref ref)
{
    return (atomic_load(&tri_ref_cell(ref)->flags) & TRI_CELL_DEPTH_CHECKED) !=
           0;
}

static void test_X27_MB12_mail_beside_a_parked_turn_is_bounded(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .soft_limit = 100);  // puppets have a reading handler
    stage_tell(&it, ref, act_sleep, (void *)TR_SECONDS(60));
    stage_tell(&it, it.one, act_trickle, &ref);
    stage_pass(&it, TR_SECONDS(30));
    assert_in_range(stage_depth(&it, ref), 100, 200);
    assert_true(checks_depth(ref));
    stage_pass(&it, TR_SECONDS(40));
    // Senders stop reading the depth: it costs the owner a cache line.
    assert_false(checks_depth(ref));
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

static void test_X27_actors_that_flood_each_other_do_not_deadlock(void **state)
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

static void test_X27_an_overload_is_published(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .soft_limit = 10};
    (void)state;
    stage_open_seed(&it, 1, &options);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.one));
    // To itself: it cannot wait for room.
    stage_tell(&it, it.one, act_flood_back, NULL);
    stage_run_ready(&it);
    assert_true(atomic_load(&it.overloads) > 0);
    assert_int_equal(atomic_load(&it.note_count), 300);
    stage_close(&it);
}

typedef struct starter {
    tr_ref to;
    int *told;
} starter;

static tr_err tell_at_start(tr_ctx *ctx, starter *self)
{
    for (int i = 0; i < 5; i++) {
        tr_tell(ctx, self->to, Note, .value = i);
        ++*self->told;
    }
    return TR_OK;
}

TR_ACTOR(starters, starter, TR_HOOK(pre_start, tell_at_start));

static void test_X27_a_hook_is_not_slowed_down(void **state)
{
    stage it;
    int told = 0;
    (void)state;
    stage_open(&it);
    tr_ref slow = stage_spawn(&it, .soft_limit = 1);
    stage_tell(&it, slow, act_sleep, (void *)TR_SECONDS(5));
    stage_run_ready(&it);
    tr_ref ref = tr_spawn(it.sys, starters,
                          TR_INIT(starters, .to = slow, .told = &told));
    stage_run_ready(&it);
    assert_int_equal(told, 5);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_RUNNING);
    assert_true(atomic_load(&it.overloads) > 0);
    stage_pass(&it, TR_SECONDS(6));
    assert_int_equal(atomic_load(&it.note_count), 5);
    stage_close(&it);
}

static void tell_many(stage *it, tr_ref ref, int count)
{
    for (int i = 0; i < count; i++) {
        tr_tell(it->sys, ref, Note, .value = i);
    }
    stage_run_ready(it);
}

static void test_X27_each_actor_has_its_own_overload_alarm(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .soft_limit = 100};
    tr_metrics_snapshot now = {.size = sizeof(now)};
    (void)state;
    stage_open_seed(&it, 1, &options);
    tr_ref refs[] = {it.one, it.two};
    for (int i = 0; i < 2; i++) {
        stage_tell(&it, refs[i], act_sleep, (void *)TR_SECONDS(5));
        stage_run_ready(&it);
        tell_many(&it, refs[i], 200);
    }
    assert_int_equal(atomic_load(&it.overloads), 2);
    tr_metrics(it.sys, &now);
    assert_int_equal(now.overloads, 200);
    stage_pass(&it, TR_SECONDS(2));  // still too deep: published again
    tell_many(&it, it.one, 200);
    assert_int_equal(atomic_load(&it.overloads), 3);
    stage_pass(&it, TR_SECONDS(5));
    tell_many(&it, it.one, 1);  // below the limit again
    assert_int_equal(atomic_load(&it.overloads), 3);
    stage_close(&it);
}

enum { FLOOD = 3000 };

typedef struct Inbox {
    int64_t handled;
} Inbox;

static struct {
    stage *stage;
    int64_t handled, wrong;
    uint32_t lives;
} inbox_seen;

static tr_err inbox_start(tr_ctx *ctx, Inbox *self)
{
    (void)self;
    inbox_seen.lives++;
    return tr_sleep(ctx, TR_MS(100));
}

static tr_err inbox_note(tr_ctx *ctx, Inbox *self, const Note *m)
{
    inbox_seen.wrong += m->value != inbox_seen.handled;
    inbox_seen.handled++;
    if (++self->handled == 1000) {
        tr_stop(ctx, tr_self(ctx));  // with two thirds of the mail left
    }
    return TR_OK;
}

TR_ACTOR(inbox, Inbox, TR_ON(Note, inbox_note),
         TR_HOOK(pre_start, inbox_start));

/* No message is lost over several activations; overloads are published. */
static void test_MB15_X27_virtual_actors_lose_no_mail(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        stage it;
        tr_system_options options = {
            .size = sizeof(options), .ns = "test", .soft_limit = 500};
        memset(&inbox_seen, 0, sizeof(inbox_seen));
        stage_open_seed(&it, seed, &options);
        expect_ok(tr_host(it.sys, inbox, .idle = TR_MINUTES(1)));
        tr_ref ref = tr_virtual(it.sys, "inbox", "one");
        for (int i = 0; i < FLOOD; i++) {
            tr_tell(it.sys, ref, Note, .value = i);
            if (i == 0) {
                stage_run_ready(&it);  // the activation starts: the rest waits
            }
        }
        stage_pass(&it, TR_SECONDS(10));
        assert_int_equal(inbox_seen.handled, FLOOD);
        assert_int_equal(inbox_seen.wrong, 0);
        assert_int_equal(inbox_seen.lives, FLOOD / 1000 + (FLOOD % 1000 > 0));
        assert_true(atomic_load(&it.overloads) > 0);
        for (int i = 0; i < STAGE_REASONS; i++) {
            assert_int_equal(stage_dead(&it, (tr_dead_reason)i), 0);
        }
        stage_close(&it);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X27_MB12_PA8_a_fast_producer_is_slowed_down),
        cmocka_unit_test(test_X27_MB12_mail_beside_a_parked_turn_is_bounded),
        cmocka_unit_test(test_X27_actors_that_flood_each_other_do_not_deadlock),
        cmocka_unit_test(test_X27_an_overload_is_published),
        cmocka_unit_test(test_X27_a_hook_is_not_slowed_down),
        cmocka_unit_test(test_X27_each_actor_has_its_own_overload_alarm),
        cmocka_unit_test(test_MB15_X27_virtual_actors_lose_no_mail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
