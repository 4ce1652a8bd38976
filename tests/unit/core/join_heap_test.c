/*
 * join_heap_test.c - a final state takes along what it points to (X51).
 */
#include "support/fixture.h"

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
    mourn(s, late);
    (void)ended(s, late);
    Diary kept = {0};
    assert_int_equal(tr_join(s->sys, late, patience(s), NULL, &kept), TR_OK);
    assert_string_equal(kept.last, "sunday");
    // Joined already: there is nothing left, and that is said.
    assert_int_equal(tr_join(s->sys, late, patience(s), NULL, &kept),
                     TR_ENOENT);
    // Nobody wants the state: it is freed, with its heap.
    assert_int_equal(tr_join(s->sys, written(s), patience(s), NULL, NULL),
                     TR_OK);
    // Still there, when its actor has long been gone.
    assert_string_equal(final.first, "monday");
    (void)written(s);  // nobody joins it at all
}

TR_REQUEST(Read, Count, (tr_ref, of));

typedef struct Reader {
    Diary book;
} Reader;

static tr_err on_read(tr_ctx *ctx, Reader *self, const Read *m)
{
    TR_TRY(tr_join(ctx, m->of, 0, NULL, &self->book));
    bool right = strcmp(self->book.last, "sunday") == 0;
    tr_free(ctx, self->book.last);  // it is in our heap now
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

static void test_X51_K21_a_plain_state_is_joined_with_its_heap(void **state)
{
    (void)state;
    everywhere(outside_joins);
    everywhere(actor_joins);
}

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

static tr_err on_lost(tr_ctx *ctx, Diary *self, const Fail *m)
{
    (void)self;
    (void)m;
    return tr_fail(ctx, TR_EIO, "lost");
}

TR_ACTOR(old_diary, Diary, TR_ON(Say, on_write), TR_ON(Fail, on_lost));

/* In the pause before its next incarnation. */
static void bring_between(stage *s, tr_ref ref)
{
    tr_tell(s->sys, ref, Say, .text = "a text of its own heap", .number = 7);
    tr_tell(s->sys, ref, Fail);
    tr_sim_advance(s->sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(s->sys, ref), TR_STATE_RESTARTING);
    mourn(s, ref);
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

    // One that came to its next incarnation leaves that one's state.
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

/* It was never watched, never allocated: it has a state all the same. */
static void ended_without_more(stage *s)
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

static void test_K21_X51_the_simplest_actor_is_joined_late(void **state)
{
    (void)state;
    virtually(ended_without_more);
}

static void test_K21_X51_no_state_between_two_incarnations(void **state)
{
    (void)state;
    virtually(ended_between);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_K21_X51_the_simplest_actor_is_joined_late),
        cmocka_unit_test(test_K21_X51_no_state_between_two_incarnations),
        cmocka_unit_test(test_X51_K21_a_plain_state_is_joined_with_its_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
