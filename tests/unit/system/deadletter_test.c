/*
 * deadletter_test.c - what nobody handles, and where what is left goes
 * (DL1..DL9, DR1..DR5, X41, X52).
 */
#include "support/core.h"
#include "support/fixture.h"

#include "system/deadletter.h"
#include "system/layers.h"

static uint64_t dead_count(stage *s)
{
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    return m.dead_letters;
}

/* ---- records ---- */

static void recorded(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", ());
    tr_stop(s->sys, a);
    (void)joined(s, a);
    tr_nanos before = tr_now(s->sys);
    uint64_t count = dead_count(s);
    tr_tell(s->probe, a, Say, .text = "late");
    const tr_dead_letter *dead =
        tr_expect(s->probe, patience(s), tr_dead_letter);
    assert_true(tr_ref_eq(dead->to, a));
    assert_true(tr_ref_eq(dead->sender, s->to));
    assert_string_equal(dead->type, "Say");
    assert_string_equal(dead->text, tr_dead_reason_text(dead->reason));
    assert_true(dead->at >= before && dead->at <= tr_now(s->sys));
    assert_int_equal(dead_count(s), count + 1);
    assert_true(stage_logged(s, "dead letter: Say to gone"));
    // The newest record of the ring is this one.
    tri_dead_letters *all = &tri_layers_of(s->sys)->dead;
    tri_lock_take(&all->lock);
    tri_dead_record *newest = &all->ring[(all->count - 1) % TRI_DEAD_RING];
    assert_string_equal(newest->type, "Say");
    assert_true(tr_ref_eq(newest->to, a));
    tri_lock_drop(&all->lock);
}

static void test_DL1_DL3_DL4_T12_a_dead_letter_is_recorded(void **state)
{
    (void)state;
    everywhere(recorded);
}

static void reasons(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    tr_ref a = PLAY(s, "a", ());
    (void)gotten(s, a);
    tr_tell(s->sys, TR_NOBODY, Strange);
    assert_int_equal(tr_expect(s->probe, patience(s), tr_dead_letter)->reason,
                     TR_DEAD_NO_SUCH_ACTOR);
    tr_ref foreign = {a.cell ^ (UINT64_C(1) << 50), a.id};
    tr_tell(s->sys, foreign, Strange);
    assert_int_equal(tr_expect(s->probe, patience(s), tr_dead_letter)->reason,
                     TR_DEAD_FOREIGN);
    tr_tell(s->sys, a, Strange);
    assert_int_equal(tr_expect(s->probe, patience(s), tr_dead_letter)->reason,
                     TR_DEAD_UNHANDLED);
    // RG9: a ref to a former owner of the same memory.
    tr_ref stale = {a.cell, a.id + 1000000};
    tr_tell(s->sys, stale, Say, .text = "not for you");
    assert_int_equal(tr_expect(s->probe, patience(s), tr_dead_letter)->reason,
                     TR_DEAD_NO_SUCH_ACTOR);
    quiet(s);
    // X52: who asks how it went leaves no dead letter.
    uint64_t count = dead_count(s);
    assert_int_equal(tr_try_tell(s->sys, TR_NOBODY, Strange), TR_EGONE);
    assert_int_equal(tr_try_tell(s->sys, foreign, Strange), TR_EFOREIGN);
    assert_int_equal(tr_try_tell(s->sys, stale, Strange), TR_EGONE);
    assert_int_equal(dead_count(s), count);
}

static void test_DL5_C6_RG9_X52_why_a_message_is_dead(void **state)
{
    (void)state;
    everywhere(reasons);
}

static void test_DL1_each_reason_has_a_text(void **state)
{
    (void)state;
    assert_string_equal(tr_dead_reason_text(TR_DEAD_FULL), "mailbox full");
    assert_string_equal(tr_dead_reason_text(0), "unknown reason");
    for (uint32_t i = 1; i <= TR_DEAD_CANCELLED; i++) {
        assert_string_not_equal(tr_dead_reason_text(i), "unknown reason");
    }
}

static void test_DL_every_reason_has_the_text_of_its_table(void **state)
{
    (void)state;
#define TR_X(name, number, text)                                               \
    assert_string_equal(tr_dead_reason_text(TR_DEAD_##name), text);
    TR_DEAD_REASONS(TR_X)
#undef TR_X
    assert_non_null(tr_dead_reason_text((tr_dead_reason)77));
}

static void flood(stage *s)
{
    enum { MANY = TRI_DEAD_RING + 100 };
    for (int i = 0; i < MANY; i++) {
        tr_tell(s->sys, TR_NOBODY, Strange);
    }
    assert_int_equal(dead_count(s), MANY);  // all are counted
    tri_dead_letters *all = &tri_layers_of(s->sys)->dead;
    tri_lock_take(&all->lock);
    uint32_t logged = all->logged;
    tri_lock_drop(&all->lock);
    assert_true(logged <= TRI_DEAD_LOGGED);  // a few are logged
    tr_sim_advance(s->sim, TR_SECONDS(2));
    tr_tell(s->sys, TR_NOBODY, Strange);
    assert_true(stage_logged(s, "dead letters more were not logged"));
}

static void test_DL2_DL3_X41_a_flood_is_counted_and_not_logged(void **state)
{
    (void)state;
    virtually(flood);
}

/* An event about a dead letter that is dead itself makes no other. */
static void no_echo(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_tell(s->sys, a, Watch, .ref = TR_NOBODY);
    heard(s, "a terminated");
    uint64_t count = dead_count(s);
    tr_probe *other;
    assert_int_equal(tr_probe_new(&other, s->sys), TR_OK);
    tr_probe_subscribe(other, tr_dead_letter);
    tr_tell(s->sys, TR_NOBODY, Strange);
    tr_probe_free(other);  // with the event unread
    assert_int_equal(dead_count(s), count + 2);
}

static void test_DL5_X41_an_unread_event_makes_no_other(void **state)
{
    (void)state;
    everywhere(no_echo);
}

/* ---- what is left in a mailbox ---- */

/* Three messages are left in the mailbox of an actor that is stopped. */
static tr_ref leave_three(stage *s, tr_drain drain, tr_ref to)
{
    tr_ref a = PLAY(s, NULL, (), .drain = drain, .drain_to = to,
                    .stop_timeout = TR_MINUTES(10));
    tr_tell(s->sys, a, Nap, .span = TR_SECONDS(10));
    tr_sim_advance(s->sim, TR_SECONDS(1));
    for (int i = 0; i < 3; i++) {
        tr_tell(s->probe, a, Say, .text = "left", .number = i);
    }
    tr_stop(s->sys, a);
    (void)tr_expect(s->probe, patience(s), Note);  // it woke
    (void)joined(s, a);
    return a;
}

static void drains(stage *s)
{
    tr_probe_subscribe(s->probe, tr_dead_letter);
    // DR2: to dead letters, by default.
    (void)leave_three(s, TR_DRAIN_DEAD_LETTERS, TR_NOBODY);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tr_expect(s->probe, 0, tr_dead_letter)->reason,
                         TR_DEAD_DRAINED);
    }
    // DR1: dropped without a word.
    uint64_t count = dead_count(s);
    (void)leave_three(s, TR_DRAIN_DROP, TR_NOBODY);
    assert_int_equal(dead_count(s), count);
    // DR3: handed on, in order, with their sender.
    tr_ref heir = PLAY(s, "heir", ());
    (void)leave_three(s, TR_DRAIN_REDIRECT, heir);
    for (int i = 0; i < 3; i++) {
        const Note *n = tr_expect(s->probe, 0, Note);
        assert_string_equal(n->text, "heir left");
        assert_int_equal(n->number, i);
        assert_true(tr_ref_eq(n->ref, s->to));
    }
    assert_int_equal(dead_count(s), count);
    // Without a target: dead letters.
    (void)leave_three(s, TR_DRAIN_REDIRECT, TR_NOBODY);
    assert_int_equal(dead_count(s), count + 3);
    for (int i = 0; i < 3; i++) {
        (void)tr_expect(s->probe, 0, tr_dead_letter);
    }
    quiet(s);
    assert_int_equal(tr_ref_err(tr_spawn(s->sys, player, .drain = 9)),
                     TR_EINVAL);
}

static void test_DR1_DR2_DR3_DR4_DL6_MB8_remaining_mail_is_drained(void **state)
{
    (void)state;
    virtually(drains);
}

/* X47: a question among the rest is answered in each case. */
typedef struct Asker {
    tr_ref probe;
    tr_ref whom;
} Asker;

static tr_err asker_asks(tr_ctx *ctx, Asker *self, const Say *m)
{
    (void)m;
    tr_err err = tr_ask(ctx, self->whom, NULL, TR_MINUTES(30), Get);
    tr_tell(ctx, self->probe, Note, .text = "answer", .number = err);
    return TR_OK;
}

TR_ACTOR(asker, Asker, TR_ON(Say, asker_asks));

static void questions(stage *s)
{
    for (int drain = TR_DRAIN_DEAD_LETTERS; drain <= TR_DRAIN_DROP; drain++) {
        tr_ref a = PLAY(s, NULL, (), .drain = (tr_drain)drain,
                        .stop_timeout = TR_MINUTES(10));
        tr_tell(s->sys, a, Nap, .span = TR_SECONDS(10));
        tr_sim_advance(s->sim, TR_SECONDS(1));
        tr_ref q =
            tr_spawn(s->sys, asker, TR_INIT(asker, .probe = s->to, .whom = a));
        tr_tell(s->sys, q, Say, .text = "");
        tr_sim_advance(s->sim, TR_SECONDS(1));
        tr_nanos start = tr_sim_now(s->sim);
        tr_stop(s->sys, a);
        (void)tr_expect(s->probe, patience(s), Note);  // it woke
        tr_err err = (tr_err)heard(s, "answer");
        assert_true(err == TR_EGONE || err == TR_ESTOPPED);
        assert_true(tr_sim_now(s->sim) - start < TR_SECONDS(20));
    }
}

static void test_DR5_S13_X47_a_pending_request_is_answered(void **state)
{
    (void)state;
    virtually(questions);
}

static void closing_counts(stage *s)
{
    tr_tell(s->sys, TR_NOBODY, Strange);
    tr_tell(s->sys, TR_NOBODY, Strange);
    // Its last words, when /system ends, are for a probe that is gone: dead
    // letters are closed after that.
    tri_caller who = tri_enter((tr_from){.sys = s->sys});
    tr_ref ref = tri_spawn_under(
        &who, s->sys->system, &player,
        TR_OPTIONS(tr_spawn_options, AS_(s, (.says = POST_STOP))), 0);
    tri_leave(&who);
    assert_int_equal(tr_started(s->sys, ref, 0), TR_OK);
}

static void test_DL8_SH13_the_report_counts_dead_letters(void **state)
{
    (void)state;
    static stage s;
    for (uint64_t seed = 0; seed < 3; seed++) {
        stage_open(&s, seed, NULL);
        closing_counts(&s);
        tr_probe_free(s.probe);
        tr_probe_free(s.deaths);
        tr_close_report report = {.size = sizeof(report)};
        assert_int_equal(tr_system_close_report(s.sys, 0, &report), TR_OK);
        assert_int_equal(report.dead_letters, 3);
        tr_sim_free(s.sim);
    }
}

/* ---- the newest ---- */

static void newest_first(stage *s)
{
    tr_ref a = PLAY(s, "a", ());
    tr_stop(s->sys, a);
    (void)joined(s, a);
    tr_dead_info infos[2] = {{.size = sizeof(infos[0])}};
    size_t before = tr_dead_letters(s->sys, NULL, 0);
    tr_tell(s->sys, a, Add, .number = 1);
    tr_tell(s->sys, a, Say, .text = "last");
    assert_int_equal(tr_dead_letters(s->sys, infos, 2), before + 2);
    assert_string_equal(infos[0].type, "Say");
    assert_string_equal(infos[1].type, "Add");
    assert_true(tr_ref_eq(infos[0].to, a));
    assert_true(infos[0].reason == TR_DEAD_NO_SUCH_ACTOR ||
                infos[0].reason == TR_DEAD_STOPPING);
    assert_true(infos[0].at >= infos[1].at);
    for (int i = 0; i < TRI_DEAD_RING; i++) {
        tr_tell(s->sys, a, Add, .number = i);
    }
    assert_int_equal(tr_dead_letters(s->sys, infos, 1), TRI_DEAD_RING);
    assert_string_equal(infos[0].type, "Add");
}

static void test_DL5_X41_the_newest_dead_letters_can_be_read(void **state)
{
    (void)state;
    everywhere(newest_first);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_DL1_DL3_DL4_T12_a_dead_letter_is_recorded),
        cmocka_unit_test(test_DL5_C6_RG9_X52_why_a_message_is_dead),
        cmocka_unit_test(test_DL1_each_reason_has_a_text),
        cmocka_unit_test(test_DL_every_reason_has_the_text_of_its_table),
        cmocka_unit_test(test_DL2_DL3_X41_a_flood_is_counted_and_not_logged),
        cmocka_unit_test(test_DL5_X41_an_unread_event_makes_no_other),
        cmocka_unit_test(
            test_DR1_DR2_DR3_DR4_DL6_MB8_remaining_mail_is_drained),
        cmocka_unit_test(test_DR5_S13_X47_a_pending_request_is_answered),
        cmocka_unit_test(test_DL8_SH13_the_report_counts_dead_letters),
        cmocka_unit_test(test_DL5_X41_the_newest_dead_letters_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
