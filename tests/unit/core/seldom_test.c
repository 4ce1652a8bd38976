/*
 * seldom_test.c - what actors may do and hardly ever do.
 *
 * Futures of a turn next to the waits of another, callbacks that fail, asks
 * without end, one option at a time, a child that fails in the restart of its
 * group, mailboxes that are full for their own actor, mail that comes after
 * the end of whom it was for. On virtual time.
 */
#include "support/stage.h"

#include "core/mailbox.h"
#include "core/runtime.h"

/* ---- futures beside the waits of other turns ---- */

typedef struct two_turns {
    tr_future theirs;
    tr_err await, any, later;
    int ended;
} two_turns;

static tr_err act_make_future(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    two_turns *t = arg;
    Acted out;
    (void)m;
    t->theirs = tr_async(ctx, self->stage->two, TR_SECONDS(60), Act,
                         .fn = (uint64_t)(uintptr_t)act_sleep,
                         .arg = (uint64_t)TR_SECONDS(5));
    TR_TRY(tr_sleep(ctx, TR_SECONDS(10)));
    t->later = tr_await(ctx, t->theirs, Act, &out);
    t->ended++;
    return TR_OK;
}

static tr_err act_take_future(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    two_turns *t = arg;
    Acted out;
    size_t index;
    (void)m;
    t->await = tr_await(ctx, t->theirs, Act, &out);
    t->any = tr_await_any(ctx, &t->theirs, 1, &index);
    // One of its own ends with its turn, the other's does not.
    (void)tr_async(ctx, self->stage->three, TR_SECONDS(60), Act,
                   .fn = (uint64_t)(uintptr_t)act_sleep,
                   .arg = (uint64_t)TR_SECONDS(1));
    t->ended++;
    return TR_OK;
}

static void read_by(stage *it, tr_ref ref, act_fn fn, void *arg)
{
    tr_tell(it->probe, ref, ActRead, .fn = (uint64_t)(uintptr_t)fn,
            .arg = (uint64_t)(uintptr_t)arg);
}

static void test_rule_18_a_future_belongs_to_its_turn(void **state)
{
    stage it;
    two_turns t = {.await = TR_OK, .any = TR_OK, .later = TR_EUSER};
    (void)state;
    stage_open(&it);
    read_by(&it, it.one, act_make_future, &t);
    stage_pass(&it, TR_MS(1));
    read_by(&it, it.one, act_take_future, &t);
    stage_pass(&it, TR_MS(1));
    assert_int_equal(t.ended, 1);  // the second, beside the first
    expect_err(t.await, TR_EINVAL);
    expect_err(t.any, TR_EINVAL);
    stage_pass(&it, TR_SECONDS(20));
    assert_int_equal(t.ended, 2);
    assert_true(t.later == TR_OK || t.later == TR_ENOREPLY);
    stage_close(&it);
}

/* ---- callbacks ---- */

static tr_err then_fails(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    (void)reply;
    stage_note(((puppet *)self)->stage, err);
    return tr_fail(ctx, TR_EUSER, "the callback fails");
}

static tr_err then_notes(tr_ctx *ctx, void *self, const void *reply, tr_err err)
{
    (void)ctx;
    (void)reply;
    stage_note(((puppet *)self)->stage, 100 + err);
    return TR_OK;
}

static tr_err act_then_fails(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    tr_ask_then(ctx, self->stage->two, (tr_nanos)(uintptr_t)arg, then_fails,
                Act, .fn = (uint64_t)(uintptr_t)act_nothing);
    return TR_OK;
}

/* With a limit and for ever; its failure is that of a handler. */
static void test_rule_18_a_callback_that_fails_is_a_failure(void **state)
{
    static const tr_nanos limits[] = {TR_SECONDS(1), TR_FOREVER,
                                      TR_FOREVER - 1};
    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        stage it;
        stage_open(&it);
        stage_tell(&it, it.one, act_then_fails, (void *)limits[i]);
        stage_pass(&it, TR_SECONDS(5));
        assert_int_equal(atomic_load(&it.note_count), 1);
        assert_int_equal(atomic_load(&it.restarts), 1);
        expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
        stage_close(&it);
    }
}

static tr_err act_ask_and_fail(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)arg;
    (void)m;
    // Never answered in time; for ever; and one whose answer is there.
    tr_ask_then(ctx, self->stage->two, TR_SECONDS(30), then_notes, Act,
                .fn = (uint64_t)(uintptr_t)act_sleep,
                .arg = (uint64_t)TR_SECONDS(60));
    tr_ask_then(ctx, self->stage->three, TR_FOREVER, then_notes, Act,
                .fn = (uint64_t)(uintptr_t)act_sleep,
                .arg = (uint64_t)TR_SECONDS(60));
    tr_ask_then(ctx, TR_NOBODY, TR_SECONDS(1), then_notes, Act, .fn = 0);
    return tr_fail(ctx, TR_EUSER, "and now it fails");
}

/* Nobody calls back into the next incarnation. */
static void test_rule_18_a_restart_forgets_its_callbacks(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_ask_and_fail, NULL);
    stage_pass(&it, TR_SECONDS(300));
    assert_int_equal(atomic_load(&it.restarts), 1);
    assert_int_equal(atomic_load(&it.note_count), 0);
    stage_tell(&it, it.one, act_ask_and_fail, NULL);
    stage_settle(&it);
    tr_kill(it.sys, it.one);  // nor into one that is gone
    stage_pass(&it, TR_SECONDS(300));
    assert_int_equal(atomic_load(&it.note_count), 0);
    stage_close(&it);
}

/* ---- one option at a time ---- */

typedef struct bare {
    int64_t value;
} bare;

static tr_err bare_note(tr_ctx *ctx, bare *self, const Note *m)
{
    (void)ctx;
    self->value = m->value;
    return TR_OK;
}

TR_ACTOR(bares, bare, TR_ON(Note, bare_note));

static void test_each_spawn_option_counts_by_itself(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    const tr_spawn_options alone[] = {
        {.restart = TR_TEMPORARY},
        {.soft_limit = 10},
        {.mailbox_limit = 2},
        {.heap_limit = 1000},
        {.stop_timeout = TR_SECONDS(1)},
        {.drain = TR_DRAIN_DROP},
        {.joinable = true},
        {.inherit_supervision = true},
        {.auto_stop = true},
    };
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        // Without a state of its own: nothing else needs the properties.
        tr_spawn_options o = alone[i];
        o.size = sizeof(o);
        tr_ref ref = (tr_spawn)((tr_from){.sys = it.sys}, &bares, &o);
        expect_ok(tr_ref_err(ref));
        tri_cell *cell = tri_ref_cell(ref);
        assert_non_null(cell->props);
        assert_int_equal(cell->props->restart, o.restart);
        assert_int_equal(cell->props->soft_limit, o.soft_limit);
        assert_int_equal(cell->props->mailbox_limit, o.mailbox_limit);
        assert_int_equal(cell->props->drain, o.drain);
        assert_int_equal(cell->props->joinable, o.joinable);
    }
    stage_close(&it);
}

/* ---- a child that fails in the restart of its group ---- */

typedef struct member {
    stage *stage;
    int64_t number;
    uint32_t bad;  // the start of this incarnation fails
} member;

TR_MESSAGE(Break, (int64_t, value));

static tr_err member_start(tr_ctx *ctx, member *self)
{
    stage_note(self->stage, self->number * 10 + tr_incarnation(ctx));
    return tr_incarnation(ctx) == self->bad
               ? tr_fail(ctx, TR_EUSER, "a bad start")
               : TR_OK;
}

static tr_err member_break(tr_ctx *ctx, member *self, const Break *m)
{
    (void)self;
    (void)m;
    return tr_fail(ctx, TR_EUSER, "as told");
}

TR_ACTOR(members, member, TR_HOOK(pre_start, member_start),
         TR_ON(Break, member_break));

typedef struct family {
    const tr_supervision *policy;
    tr_ref all[3];
    uint32_t bad;  // of the second
} family;

static tr_err act_bear_members(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    family *f = arg;
    (void)m;
    for (int i = 0; i < 3; i++) {
        f->all[i] =
            tr_spawn(ctx, members, .supervision = f->policy,
                     TR_INIT(members, .stage = self->stage, .number = i + 1,
                             .bad = i == 1 ? f->bad : 0));
    }
    return TR_OK;
}

/* X44: the group begins once more, and again in the order of its birth. */
static void test_X44_a_bad_start_in_a_group_begins_it_anew(void **state)
{
    stage it;
    family f = {.bad = 2,
                .policy =
                    TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .max_restarts = 5,
                                 .backoff_min = TR_MS(1),
                                 .backoff_max = TR_MS(1))};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_bear_members, &f));
    stage_pass(&it, TR_SECONDS(1));
    atomic_store(&it.note_count, 0);  // they were born in any order
    tr_tell(it.probe, f.all[2], Break);
    stage_pass(&it, TR_SECONDS(1));
    // The third has not begun again when the second fails.
    expect_notes(&it, 12, 22, 13, 23, 32);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tr_state_of(it.sys, f.all[i]), TR_STATE_RUNNING);
    }
    stage_close(&it);
}

/* SV9, SV18: beyond its limit it is the failure of the parent. */
static void test_SV9_SV18_a_bad_start_in_a_group_beyond_its_limit(void **state)
{
    stage it;
    family f = {
        .bad = 2,
        .policy = TR_SUPERVISE(.scope = TR_ALL_FOR_ONE, .max_restarts = 1,
                               .on_limit = TR_ESCALATE, .backoff_min = TR_MS(1),
                               .backoff_max = TR_MS(1))};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_bear_members, &f));
    stage_pass(&it, TR_SECONDS(1));
    tr_tell(it.probe, f.all[2], Break);
    stage_pass(&it, TR_SECONDS(5));
    assert_int_equal(atomic_load(&it.restarts), 1);  // of the parent
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tr_state_of(it.sys, f.all[i]), TR_STATE_TERMINATED);
    }
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

/* ---- one list of interceptors for many ---- */

static tr_err pass_on(tr_ctx *ctx, const tr_msg *msg, tr_call *call, void *user)
{
    (void)ctx;
    (void)msg;
    ++*(int *)user;
    return tr_proceed(call);
}

/* What is made for a list is made once. */
static void test_PA_interceptors_are_shared(void **state)
{
    stage it;
    int calls = 0, more = 0;
    const tr_interceptor first = {"first", pass_on, &calls};
    const tr_interceptor other = {"other", pass_on, &more};
    const tr_interceptor *const a[] = {&first, NULL}, *const b[] = {&other,
                                                                    NULL};
    (void)state;
    stage_open(&it);
    tr_ref one = stage_spawn(&it, .interceptors = a);
    tr_ref two = stage_spawn(&it, .interceptors = b);
    tr_ref three = stage_spawn(&it, .interceptors = a);
    expect_ok(stage_ask(&it, one, act_nothing, NULL));
    expect_ok(stage_ask(&it, two, act_nothing, NULL));
    expect_ok(stage_ask(&it, three, act_nothing, NULL));
    assert_int_equal(calls, 2);
    assert_int_equal(more, 1);
    assert_ptr_equal(tri_cell_behaviour(tri_ref_cell(one)),
                     tri_cell_behaviour(tri_ref_cell(three)));
    assert_ptr_not_equal(tri_cell_behaviour(tri_ref_cell(one)),
                         tri_cell_behaviour(tri_ref_cell(two)));
    stage_close(&it);
}

/* ---- a full mailbox, its own actor, and one that is stopped ---- */

static tr_err act_fill_itself(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)self;
    (void)arg;
    for (int i = 0; i < 5; i++) {
        tr_tell(ctx, tr_self(ctx), Note, .value = i);
    }
    return tr_reply(ctx, m, .value = 1);
}

/* Rule 23: who would wait for itself does not wait. */
static void test_rule_23_nobody_waits_for_room_of_its_own(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_BLOCK);
    expect_ok(stage_ask(&it, ref, act_fill_itself, NULL));
    stage_settle(&it);
    expect_notes(&it, 0, 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 3);
    stage_close(&it);
}

static tr_err act_fill_other(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    (void)!tr_sleep(ctx, TR_SECONDS(60));  // and does not care why it wakes
    for (int i = 0; i < 5; i++) {
        tr_tell(ctx, *(tr_ref *)arg, Note, .value = i);
    }
    stage_note(self->stage, 77);
    return TR_OK;
}

/* Rule 4: a turn that was cut short waits for nothing any more. */
static void test_rule_4_a_turn_that_is_cut_does_not_wait_for_room(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref full =
        stage_spawn(&it, .mailbox_limit = 2, .overflow = TR_OVERFLOW_BLOCK);
    stage_tell(&it, full, act_sleep, (void *)TR_SECONDS(30));
    stage_tell(&it, it.one, act_fill_other, &full);
    stage_pass(&it, TR_SECONDS(1));
    tr_kill(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(1));
    expect_notes(&it, 77);
    assert_int_equal(stage_dead(&it, TR_DEAD_FULL), 3);
    stage_pass(&it, TR_SECONDS(60));
    expect_notes(&it, 77, 0, 1);
    stage_close(&it);
}

/* ---- what is left in a mailbox at the end ---- */

static tr_err act_timers_and_sleep(tr_ctx *ctx, puppet *self, const Act *m,
                                   void *arg)
{
    (void)self;
    (void)m;
    (void)tr_after(ctx, TR_MS(1), Note, .value = 5);
    tr_ask_pipe(ctx, TR_NOBODY, TR_SECONDS(1), Act, .fn = 0);
    return act_sleep(ctx, self, m, arg);
}

/* DR: what is no message of others is not passed on, and not counted. */
static void test_DR_timers_and_answers_are_not_redirected(void **state)
{
    static const tr_drain drains[] = {TR_DRAIN_REDIRECT, TR_DRAIN_DROP,
                                      TR_DRAIN_DEAD_LETTERS};
    (void)state;
    for (int i = 0; i < 3; i++) {
        stage it;
        stage_open(&it);
        tr_ref ref = stage_spawn(&it, .drain = drains[i], .drain_to = it.two);
        stage_tell(&it, ref, act_timers_and_sleep, (void *)TR_SECONDS(30));
        stage_pass(&it, TR_SECONDS(1));
        tr_tell(it.probe, ref, Note, .value = 1);
        tr_tell_urgent(it.probe, ref, 2, Note, .value = 2);
        stage_settle(&it);
        tr_kill(it.sys, ref);
        stage_pass(&it, TR_SECONDS(1));
        if (drains[i] == TR_DRAIN_REDIRECT) {
            expect_notes(&it, 1, 2);
        } else {
            assert_int_equal(atomic_load(&it.note_count), 0);
        }
        assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED),
                         drains[i] == TR_DRAIN_DEAD_LETTERS ? 2 : 0);
        stage_close(&it);
    }
}

/* ---- mail for a former owner of the cell ---- */

/* As from one who has looked at the id just before that actor ended. */
static void push_late(stage *it, tr_ref ref, bool poison)
{
    tri_actor_from who = tri_enter((tr_from){.sys = it->sys});
    tri_cell *cell = tri_ref_cell(ref);
    tr_msg *msg = tri_msg_new(&who.worker->cache, &Note_tr_type,
                              &(Note){.value = 5}, false);
    assert_non_null(msg);
    msg->to_id = ref.id - 1;
    msg->sender = TR_NOBODY;
    if (poison) {
        msg->node.kind = TRI_NODE_POISON;
    }
    uintptr_t seen;
    uint32_t depth;
    assert_true(tri_mail_push(cell, msg, &seen, &depth));
    if (seen & TRI_MAIL_IDLE) {
        tri_schedule(who.worker, cell);
    }
    tri_leave(&who);
}

/* X7: who has the cell now neither handles it nor ends by it. */
static void test_X7_mail_for_a_former_owner_is_not_for_the_next(void **state)
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
    stage_settle(&it);
    expect_notes(&it, 6);
    stage_close(&it);
}

/* ---- one that is told to end while it runs ---- */

static tr_err act_end_itself(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    stage_note(self->stage, tr_stopping(ctx));
    if (arg != NULL) {
        tr_kill(ctx, tr_self(ctx));
    } else {
        tr_stop(ctx, tr_self(ctx));
    }
    stage_note(self->stage, tr_stopping(ctx));
    return TR_OK;
}

static tr_err act_sleep_and_look(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)m;
    stage_note(self->stage, tr_sleep(ctx, (tr_nanos)(uintptr_t)arg));
    stage_note(self->stage, tr_stopping(ctx));
    return TR_OK;
}

/* Rule 3: one whose wait may end hears of it behind the wait. */
static void test_rule_3_a_stop_is_seen_behind_a_wait(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_sleep_and_look, (void *)TR_SECONDS(2));
    stage_pass(&it, TR_SECONDS(1));
    tr_stop(it.sys, it.one);
    stage_pass(&it, TR_SECONDS(2));
    expect_notes(&it, TR_OK, true);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    stage_close(&it);
}

/* Rule 5: and so does one that is cut by a restart, before its end. */
static void test_rule_5_a_restart_is_seen_behind_a_wait(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_sleep_and_look, (void *)TR_SECONDS(2));
    stage_pass(&it, TR_SECONDS(1));
    tri_actor_from who = tri_enter((tr_from){.sys = it.sys});
    tri_signal(who.worker, tri_ref_cell(it.one), it.one.id, TRI_SIG_RESTART);
    tri_leave(&who);
    stage_pass(&it, TR_MS(500));
    expect_notes(&it, TR_ERESTARTED, true);
    stage_pass(&it, TR_SECONDS(2));
    assert_int_equal(atomic_load(&it.restarts), 1);
    expect_ok(stage_ask(&it, it.one, act_nothing, NULL));
    stage_close(&it);
}

/* K2: a handler that looks hears of it before it returns. */
static void test_K2_a_stop_and_a_kill_are_seen_in_the_same_turn(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_end_itself, NULL);
    stage_tell(&it, it.two, act_end_itself, &it);
    stage_settle(&it);
    expect_notes(&it, false, true, false, true);
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_TERMINATED);
    assert_int_equal(tr_state_of(it.sys, it.two), TR_STATE_TERMINATED);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_18_a_future_belongs_to_its_turn),
        cmocka_unit_test(test_rule_18_a_callback_that_fails_is_a_failure),
        cmocka_unit_test(test_rule_18_a_restart_forgets_its_callbacks),
        cmocka_unit_test(test_each_spawn_option_counts_by_itself),
        cmocka_unit_test(test_X44_a_bad_start_in_a_group_begins_it_anew),
        cmocka_unit_test(test_SV9_SV18_a_bad_start_in_a_group_beyond_its_limit),
        cmocka_unit_test(test_PA_interceptors_are_shared),
        cmocka_unit_test(test_rule_23_nobody_waits_for_room_of_its_own),
        cmocka_unit_test(test_rule_4_a_turn_that_is_cut_does_not_wait_for_room),
        cmocka_unit_test(test_DR_timers_and_answers_are_not_redirected),
        cmocka_unit_test(test_X7_mail_for_a_former_owner_is_not_for_the_next),
        cmocka_unit_test(test_rule_3_a_stop_is_seen_behind_a_wait),
        cmocka_unit_test(test_rule_5_a_restart_is_seen_behind_a_wait),
        cmocka_unit_test(test_K2_a_stop_and_a_kill_are_seen_in_the_same_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
