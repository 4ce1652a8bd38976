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
    return tr_reply(ctx, m,
                    .number = strcmp(self->book.first, "monday") == 0);
}

TR_ACTOR(reader, Reader, TR_ON(Read, on_read), TR_ON(Get, on_recall));

static void actor_joins(stage *s)
{
    tr_ref r = tr_spawn(s->sys, reader);
    Count count;
    assert_int_equal(tr_ask(s->sys, r, &count, patience(s), Read,
                            .of = written(s)), TR_OK);
    assert_true(count.number);
    assert_true(gotten(s, r).number);
}

static void test_X51_K21_a_plain_state_is_joined_with_its_heap(void **state)
{
    (void)state;
    everywhere(outside_joins);
    everywhere(actor_joins);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X51_K21_a_plain_state_is_joined_with_its_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
