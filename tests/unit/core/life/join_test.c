/*
 * join_test.c - tr_join: the result of an actor, its final state, and the
 * memory that the state points to.
 */
#include "support/fixture.h"

/* ---- results ---- */

static void results(stage *s)
{
    tr_result r;
    Player end;
    tr_ref a = PLAY(s, "a", (.count = 4), .joinable = true);
    tr_tell(s->sys, a, Add, .number = 3);
    tr_poison(s->sys, a);
    assert_int_equal(tr_join(s->sys, a, patience(s), &r, &end), TR_OK);
    assert_int_equal(r.reason, TR_STOPPED);  // stopped, not killed
    assert_int_equal(r.err, TR_OK);
    assert_string_equal(r.text, "");
    assert_int_equal(end.count, 7);

    tr_ref b = PLAY(s, "b", (.count = 5), .joinable = true);
    tr_kill(s->sys, b);
    memset(&end, 0, sizeof(end));
    assert_int_equal(tr_join(s->sys, b, patience(s), &r, &end), TR_OK);
    assert_int_equal(r.reason, TR_KILLED);

    tr_ref c = PLAY(s, "c", (.count = 6), .joinable = true,
                    .supervision = TR_SUPERVISE(.on_failure = TR_STOP));
    watch_end(s, c);
    tr_tell(s->sys, c, Fail, .err = TR_EUSER + 5);
    assert_int_equal(ended(s, c), TR_FAILED);
    // The result is kept after the end for one join.
    assert_int_equal(tr_join(s->sys, c, patience(s), &r, &end), TR_OK);
    assert_int_equal(r.reason, TR_FAILED);
    assert_int_equal(r.err, TR_EUSER + 5);
    assert_int_equal(r.phase, TR_IN_HANDLER);
    assert_string_equal(r.text, "told to fail");
    assert_int_equal(end.count, 6);
    assert_int_equal(tr_join(s->sys, c, patience(s), &r, &end), TR_ENOENT);

    tr_ref d = PLAY(s, "d", (.count = 6, .fails = PRE_START), .joinable = true);
    end.count = -1;
    assert_int_equal(tr_join(s->sys, d, patience(s), &r, &end), TR_OK);
    assert_int_equal(r.phase, TR_IN_START);
    assert_int_equal(end.count, 0);  // there is no final state
}

static void test_K17_K18_K19_K20_K21_SP18_X35_join_the_result(void **state)
{
    (void)state;
    everywhere(results);
}

static void joins_that_fail(stage *s)
{
    tr_result r;
    tr_ref a = PLAY(s, "a", ());
    assert_int_equal(tr_join(s->sys, a, TR_MS(1), &r, NULL), TR_ETIMEDOUT);
    assert_int_equal(tr_join(s->sys, TR_NOBODY, 0, &r, NULL), TR_ENOENT);
    tr_stop(s->sys, a);
    tr_err err = tr_join(s->sys, a, patience(s), &r, NULL);
    assert_true(err == TR_OK || err == TR_ENOENT);
    assert_int_equal(tr_join(s->sys, a, 0, &r, NULL), TR_ENOENT);
}

static void test_K20_joins_that_fail(void **state)
{
    (void)state;
    everywhere(joins_that_fail);
}

typedef struct Joiner {
    tr_ref probe;
    tr_ref whom;
} Joiner;

static tr_err joiner_joins(tr_ctx *ctx, Joiner *self, const Say *m)
{
    (void)m;
    tr_result r = {0};
    Player end = {0};
    tr_err err = tr_join(ctx, self->whom, TR_FOREVER, &r, &end);
    tr_tell(ctx, self->probe, Note, .text = "joined", .number = err);
    tr_tell(ctx, self->probe, Note, .text = "reason", .number = r.reason);
    tr_tell(ctx, self->probe, Note, .text = "count", .number = end.count);
    err = tr_join(ctx, tr_self(ctx), 0, NULL, NULL);
    tr_tell(ctx, self->probe, Note, .text = "self", .number = err);
    err = tr_join(ctx, tr_parent(ctx), 0, NULL, NULL);
    tr_tell(ctx, self->probe, Note, .text = "parent", .number = err);
    return TR_OK;
}

TR_ACTOR(joiner, Joiner, TR_ON(Say, joiner_joins));

static void join_from_inside(stage *s)
{
    tr_ref a = PLAY(s, "a", (.count = 11), .joinable = true);
    tr_ref j =
        tr_spawn(s->sys, joiner, TR_INIT(joiner, .probe = s->to, .whom = a));
    tr_tell(s->sys, j, Say, .text = "");
    assert_int_equal(tr_started(s->sys, a, 0), TR_OK);
    tr_stop(s->sys, a);
    assert_int_equal(heard(s, "joined"), TR_OK);
    assert_int_equal(heard(s, "reason"), TR_STOPPED);
    assert_int_equal(heard(s, "count"), 11);
    assert_int_equal(heard(s, "self"), TR_EDEADLOCK);
    assert_int_equal(heard(s, "parent"), TR_EDEADLOCK);
}

static void test_K20_an_actor_joins_another(void **state)
{
    (void)state;
    everywhere(join_from_inside);
}

/* ---- final states ---- */

TR_STATE(Letter, (const char *, text), (int64_t, number));

static tr_err on_letter(tr_ctx *ctx, Letter *self, const Say *m)
{
    self->text = tr_dup(ctx, m->text);
    self->number = m->number;
    return TR_OK;
}

static tr_err on_torn(tr_ctx *ctx, Letter *self, const Fail *m)
{
    (void)self;
    (void)m;
    return tr_fail(ctx, TR_EIO, "torn");
}

TR_ACTOR(letter, Letter, TR_ON(Say, on_letter), TR_ON(Fail, on_torn));

/* An actor that was never watched and never allocated memory. */
static void ended_without_extras(stage *s)
{
    tr_result result;
    tr_ref a = tr_spawn(s->sys, letter, .joinable = true,
                        TR_INIT(letter, .number = 5));
    tr_sim_advance(s->sim, 0);
    tr_stop(s->sys, a);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, a), TR_STATE_TERMINATED);
    Letter end = {.number = 1};
    assert_int_equal(tr_join(s->sys, a, 0, &result, &end), TR_OK);
    assert_int_equal(result.reason, TR_STOPPED);
    assert_int_equal(end.number, 5);
    tr_drop(Letter, &end);
    assert_int_equal(tr_join(s->sys, a, 0, &result, &end), TR_ENOENT);
}

static void test_K21_X51_a_final_state_is_kept_until_it_is_joined(void **state)
{
    (void)state;
    virtually(ended_without_extras);
}

typedef struct Diary {
    char *first, *last;
} Diary;

static tr_err on_write(tr_ctx *ctx, Diary *self, const Say *m)
{
    if (self->first == NULL) {
        self->first = tr_dup(ctx, m->text);
    }
    self->last = tr_dup(ctx, m->text);
    return TR_OK;
}

static tr_err on_lost(tr_ctx *ctx, Diary *self, const Fail *m)
{
    (void)self;
    (void)m;
    return tr_fail(ctx, TR_EIO, "lost");
}

TR_ACTOR(old_diary, Diary, TR_ON(Say, on_write), TR_ON(Fail, on_lost));

/* Brings ref into the delay before its next incarnation. */
static void bring_between(stage *s, tr_ref ref)
{
    tr_tell(s->sys, ref, Say, .text = "a text of its own heap", .number = 7);
    tr_tell(s->sys, ref, Fail);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, ref), TR_STATE_RESTARTING);
    watch_end(s, ref);
}

static void ended_between(stage *s)
{
    const tr_supervision *later = TR_SUPERVISE(.backoff_min = TR_SECONDS(9),
                                               .backoff_max = TR_SECONDS(9));
    tr_result result;
    tr_ref a = tr_spawn(s->sys, letter, .joinable = true, .supervision = later);
    bring_between(s, a);
    tr_stop(s->sys, a);
    assert_int_equal(ended(s, a), TR_STOPPED);
    Letter end = {.text = "before", .number = 1};
    assert_int_equal(tr_join(s->sys, a, 0, &result, &end), TR_OK);
    assert_int_equal(result.reason, TR_STOPPED);
    assert_null(end.text);
    assert_int_equal(end.number, 0);

    tr_ref b =
        tr_spawn(s->sys, old_diary, .joinable = true, .supervision = later);
    bring_between(s, b);
    tr_kill(s->sys, b);
    assert_int_equal(ended(s, b), TR_KILLED);
    Diary book = {.last = (char *)(uintptr_t)"before"};
    assert_int_equal(tr_join(s->sys, b, 0, &result, &book), TR_OK);
    assert_int_equal(result.reason, TR_KILLED);
    assert_null(book.last);

    // An actor that has restarted leaves the state of the last incarnation.
    tr_ref c = tr_spawn(s->sys, letter, .joinable = true, .supervision = later);
    bring_between(s, c);
    tr_sim_advance(s->sim, TR_SECONDS(10));
    tr_tell(s->sys, c, Say, .text = "anew", .number = 8);
    tr_poison(s->sys, c);
    assert_int_equal(ended(s, c), TR_STOPPED);
    assert_int_equal(tr_join(s->sys, c, 0, &result, &end), TR_OK);
    assert_string_equal(end.text, "anew");
    tr_drop(Letter, &end);
}

static void test_K21_X51_there_is_no_state_between_two_incarnations(
    void **state)
{
    (void)state;
    virtually(ended_between);
}

TR_ACTOR(diary, Diary, TR_ON(Say, on_write));

static tr_ref written(stage *s)
{
    tr_ref ref = tr_spawn(s->sys, diary, .joinable = true);
    tr_tell(s->sys, ref, Say, .text = "monday");
    tr_tell(s->sys, ref, Say, .text = "sunday");
    tr_poison(s->sys, ref);
    return ref;
}

static void outside_joins(stage *s)
{
    Diary final = {0};
    assert_int_equal(tr_join(s->sys, written(s), patience(s), NULL, &final),
                     TR_OK);
    assert_string_equal(final.first, "monday");
    assert_string_equal(final.last, "sunday");

    tr_ref late = written(s);
    watch_end(s, late);
    (void)ended(s, late);
    Diary kept = {0};
    assert_int_equal(tr_join(s->sys, late, patience(s), NULL, &kept), TR_OK);
    assert_string_equal(kept.last, "sunday");
    // The second join finds nothing.
    assert_int_equal(tr_join(s->sys, late, patience(s), NULL, &kept),
                     TR_ENOENT);
    // A join without a state frees state and heap.
    assert_int_equal(tr_join(s->sys, written(s), patience(s), NULL, NULL),
                     TR_OK);
    // The heap outlives its actor.
    assert_string_equal(final.first, "monday");
    (void)written(s);  // never joined
}

TR_REQUEST(Read, Count, (tr_ref, of));

typedef struct Reader {
    Diary book;
} Reader;

static tr_err on_read(tr_ctx *ctx, Reader *self, const Read *m)
{
    TR_TRY(tr_join(ctx, m->of, 0, NULL, &self->book));
    bool right = strcmp(self->book.last, "sunday") == 0;
    tr_free(ctx, self->book.last);  // it is in the heap of the joiner now
    return tr_reply(ctx, m, .number = right);
}

static tr_err on_recall(tr_ctx *ctx, Reader *self, const Get *m)
{
    return tr_reply(ctx, m, .number = strcmp(self->book.first, "monday") == 0);
}

TR_ACTOR(reader, Reader, TR_ON(Read, on_read), TR_ON(Get, on_recall));

static void actor_joins(stage *s)
{
    tr_ref r = tr_spawn(s->sys, reader);
    Count count;
    assert_int_equal(
        tr_ask(s->sys, r, &count, patience(s), Read, .of = written(s)), TR_OK);
    assert_true(count.number);
    assert_true(gotten(s, r).number);
}

static void test_X51_K21_a_final_state_brings_its_heap_along(void **state)
{
    (void)state;
    everywhere(outside_joins);
    everywhere(actor_joins);
}

/* ---- a thread that joins ---- */

typedef struct Finder {
    stage *s;
} Finder;

/* Returns the outside box of the thread that joins, or nobody. */
static tr_ref joining_thread(tr_ctx *ctx, stage *s)
{
    for (unsigned id = 1; id < 10000; id++) {
        char path[32];
        snprintf(path, sizeof(path), "/temp/$%x", id);
        tr_ref ref = tr_lookup(ctx, path);
        if (tr_ref_err(ref) == TR_OK &&
            !tr_ref_eq(ref, tr_probe_ref(s->probe)) &&
            !tr_ref_eq(ref, tr_probe_ref(s->deaths))) {
            return ref;
        }
    }
    return TR_NOBODY;
}

static tr_err on_seek(tr_ctx *ctx, Finder *self, const Say *m)
{
    (void)m;
    tr_ref thread = joining_thread(ctx, self->s);
    while (tr_ref_err(thread) != TR_OK) {
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
        thread = joining_thread(ctx, self->s);
    }
    tr_watch(ctx, thread);
    tr_tell(ctx, thread, Say, .text = "not for a join");
    tr_poison(ctx, thread);
    tr_stop(ctx, tr_self(ctx));
    return TR_OK;
}

TR_ACTOR(finder, Finder, TR_ON(Say, on_seek));

static void other_mail_comes(stage *s)
{
    tr_result result;
    tr_ref a = tr_spawn(s->sys, finder, TR_INIT(finder, .s = s));
    tr_tell(s->sys, a, Say, .text = "");
    assert_int_equal(tr_join(s->sys, a, patience(s), &result, NULL), TR_OK);
    assert_int_equal(result.reason, TR_STOPPED);
}

static void test_K20_a_thread_that_joins_ignores_other_mail(void **state)
{
    (void)state;
    everywhere(other_mail_comes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_K17_K18_K19_K20_K21_SP18_X35_join_the_result),
        cmocka_unit_test(test_K20_joins_that_fail),
        cmocka_unit_test(test_K20_an_actor_joins_another),
        cmocka_unit_test(test_K21_X51_a_final_state_is_kept_until_it_is_joined),
        cmocka_unit_test(
            test_K21_X51_there_is_no_state_between_two_incarnations),
        cmocka_unit_test(test_X51_K21_a_final_state_brings_its_heap_along),
        cmocka_unit_test(test_K20_a_thread_that_joins_ignores_other_mail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
