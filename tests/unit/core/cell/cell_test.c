/*
 * cell_test.c - a ref names one actor: neither a later actor in the same cell
 * nor an actor of another system receives its mail. tri_cell_check finds a
 * damaged cell.
 */
#include "support/stage.h"

#include "support/aborts.h"
#include "support/core.h"

static void test_rule_31_a_ref_of_another_system_is_refused(void **state)
{
    stage it, far;
    (void)state;
    stage_open(&it);
    stage_open_seed(&far, 77, NULL);
    tr_ref far_ref = far.one;
    assert_int_not_equal(it.sys->tag, far.sys->tag);
    tr_tell(it.sys, far_ref, Note, .value = 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_FOREIGN), 1);
    expect_err(tr_try_tell(it.sys, far_ref, Note, .value = 1), TR_EFOREIGN);
    expect_err(stage_ask(&it, far_ref, act_nothing, NULL), TR_EFOREIGN);
    expect_err(tr_join(it.sys, far_ref, 0, NULL, NULL), TR_EFOREIGN);
    tr_stop(it.sys, far_ref);
    tr_kill(it.sys, far_ref);
    assert_int_equal(tr_state_of(it.sys, far_ref), TR_STATE_TERMINATED);
    stage_run_ready(&far);
    assert_int_equal(tr_state_of(far.sys, far_ref), TR_STATE_RUNNING);
    stage_close(&far);
    // Its system is closed: the ref is compared and never followed.
    expect_err(tr_try_tell(it.sys, far_ref, Note, .value = 1), TR_EFOREIGN);
    stage_close(&it);
}

static tr_err act_spawn_until(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    tr_ref *refs = arg;  // the old actor, then the new one in its cell
    puppet first = {.stage = self->stage};
    (void)m;
    refs[1] = TR_NOBODY;
    for (int i = 0; i < 1000 && refs[1].cell != refs[0].cell; i++) {
        refs[1] =
            tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first));
    }
    return TR_OK;
}

static void test_rule_32_a_reused_cell_takes_no_stale_mail(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref old = stage_spawn(&it, .name = "old");
    stage_run_ready(&it);
    tr_kill(it.sys, old);
    stage_run_ready(&it);
    tr_ref refs[2] = {old, TR_NOBODY};
    expect_ok(stage_ask(&it, it.one, act_spawn_until, refs));
    stage_run_ready(&it);
    tr_ref new_one = refs[1];
    assert_int_equal(new_one.cell, old.cell);
    assert_int_not_equal(new_one.id, old.id);
    tr_tell(it.sys, old, Note, .value = 1);
    tr_tell_urgent(it.sys, old, 3, Note, .value = 2);
    expect_err(tr_try_tell(it.sys, old, Note, .value = 3), TR_EGONE);
    expect_err(stage_ask(&it, old, act_nothing, NULL), TR_EGONE);
    tr_stop(it.sys, old);
    tr_kill(it.sys, old);
    tr_poison(it.sys, old);
    stage_run_ready(&it);
    expect_notes(&it);
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 2);
    assert_int_equal(tr_state_of(it.sys, new_one), TR_STATE_RUNNING);
    expect_ok(stage_ask(&it, new_one, act_nothing, NULL));
    stage_close(&it);
}

/* Pushes as a sender does that read the id just before the actor ended. */
static void push_late(stage *it, tr_ref ref, bool poison)
{
    tri_caller who = tri_enter((tr_from){.sys = it->sys});
    tri_cell *cell = tri_ref_cell(ref);
    tr_msg *msg = tri_msg_new(&who.worker->cache, &Note_tr_type,
                              &(Note){.value = 5}, false);
    assert_non_null(msg);
    msg->to_id = ref.id - 1;
    msg->sender = TR_NOBODY;
    if (poison) {
        msg->item.kind = TRI_ITEM_POISON;
    }
    uintptr_t seen;
    uint32_t depth;
    assert_true(tri_mail_push(cell, msg, &seen, &depth));
    if (seen & TRI_MAIL_IDLE) {
        tri_schedule(who.worker, cell);
    }
    tri_leave(&who);
}

/* The new actor in the cell neither handles the message nor is poisoned. */
static void test_X7_late_mail_does_not_reach_the_next_actor_in_the_cell(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    push_late(&it, it.one, false);
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 1);
    push_late(&it, it.one, true);
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 1);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_RUNNING);
    tr_tell(it.probe, it.one, Note, .value = 6);
    stage_run_ready(&it);
    expect_notes(&it, 6);
    stage_close(&it);
}

static tr_err act_start_timers_and_asks(tr_ctx *ctx, puppet *self, const Act *m,
                                        void *arg)
{
    (void)m;
    (void)arg;
    (void)tr_every(ctx, TR_MS(5), Note, .value = 1);
    (void)tr_after(ctx, TR_SECONDS(1), Note, .value = 2);
    tr_ask_pipe(ctx, self->peer, TR_SECONDS(9), Act,
                .fn = (uint64_t)(uintptr_t)act_sleep, .arg = TR_MS(500));
    tr_watch(ctx, self->peer);
    return TR_OK;
}

enum { HEIRS = 10 };

/* Spawns where the ended actor ran, so that one new actor gets its cell. */
static tr_err act_spawn_heirs(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    tr_ref *heirs = arg;
    puppet first = {.stage = self->stage};
    for (int i = 0; i < HEIRS; i++) {
        heirs[i] =
            tr_spawn(ctx, puppets, .init = &first, .init_size = sizeof(first));
    }
    return tr_reply(ctx, m, .value = 1);
}

/* Mail, timers and answers that are on their way are dropped. */
static void test_MB9_what_was_pending_does_not_reach_the_next_actor(
    void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_meet, &it.two));
    expect_ok(stage_ask(&it, it.one, act_start_timers_and_asks, NULL));
    for (int i = 0; i < 5; i++) {
        tr_tell(it.sys, it.one, Note, .value = 10 + i);
    }
    tr_stop(it.sys, it.one);
    // The cell is in the run queue, with all that mail.
    tr_kill(it.sys, it.one);
    stage_run_ready(&it);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 5);
    tr_ref heirs[HEIRS];
    bool reused = false;
    expect_ok(stage_ask(&it, it.three, act_spawn_heirs, heirs));
    for (int i = 0; i < HEIRS; i++) {
        assert_int_equal(tr_ref_err(heirs[i]), TR_OK);
        reused |= heirs[i].cell == it.one.cell;
    }
    assert_true(reused);
    // Calls with the old ref do nothing to the new actor.
    tr_tell(it.sys, it.one, Note, .value = 3);
    tr_poison(it.sys, it.one);
    tr_stop(it.sys, it.one);
    tr_kill(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(10));
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 1);
    for (int i = 0; i < HEIRS; i++) {
        assert_int_equal(tr_state_of(it.sys, heirs[i]), TR_STATE_RUNNING);
    }
    tr_stop(it.sys, it.two);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it);
    stage_close(&it);
}

/* ---- tri_cell_check ---- */

static void damage_flags(void *cell)
{
    ((tri_cell *)cell)->flags |= UINT32_C(1) << (TRI_CELL_WRAP_SHIFT - 1);
    tri_cell_check(cell);
}

static void damage_zombie(void *cell)
{
    ((tri_cell *)cell)->flags |= TRI_CELL_NOTIFYING;
    tri_cell_check(cell);
}

static void damage_mail(void *cell)
{
    ((tri_cell *)cell)->mail |= TRI_MAIL_IDLE | TRI_MAIL_PARKED;
    tri_cell_check(cell);
}

static void damage_signals(void *cell)
{
    ((tri_cell *)cell)->signals += UINT64_C(1) << TRI_SIG_BITS;
    tri_cell_check(cell);
}

static void damage_life(void *cell)
{
    ((tri_cell *)cell)->life = TR_STATE_TERMINATED + 1;
    tri_cell_check(cell);
}

static void damage_history(void *cell)
{
    ((tri_cell *)cell)->history ^= 1;
    tri_cell_check(cell);
}

static void damage_queued(void *cell)
{
    ((tri_cell *)cell)->queued++;
    tri_cell_check(cell);
}

static void damage_attention(void *cell)
{
    ((tri_cell *)cell)->attention |= TRI_ATTENTION_PARKED;
    tri_cell_check(cell);
}

static void damage_timeout(void *cell)
{
    ((tri_cell *)cell)->attention |= TRI_ATTENTION_TIMEOUT;
    tri_cell_check(cell);
}

static void test_tri_cell_check_finds_each_damage(void **state)
{
    static void (*const damages[])(void *cell) = {
        damage_flags,   damage_zombie,    damage_mail,
        damage_signals, damage_life,      damage_history,
        damage_queued,  damage_attention, damage_timeout,
    };
    stage it;
    (void)state;
    stage_open(&it);
    stage_run_ready(&it);
    tri_cell *cell = tri_ref_cell(it.one);
    tri_cell_check(cell);
    for (size_t i = 0; i < TRI_COUNT_OF(damages); i++) {
        assert_true(aborts(damages[i], cell));
    }
    tri_cell_check(cell);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_31_a_ref_of_another_system_is_refused),
        cmocka_unit_test(test_rule_32_a_reused_cell_takes_no_stale_mail),
        cmocka_unit_test(
            test_X7_late_mail_does_not_reach_the_next_actor_in_the_cell),
        cmocka_unit_test(
            test_MB9_what_was_pending_does_not_reach_the_next_actor),
        cmocka_unit_test(test_tri_cell_check_finds_each_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
