/*
 * cancelled_turn_test.c - a cancelled turn can no longer wait: rule 8 (a wait ends
 * early).
 *
 * The actor sleeps in a handler while it is stopped or killed; its wait ends
 * with an error. Whatever it calls then that would wait gives the same error
 * at once, is stored nowhere, and the actor ends.
 */
#include "support/stage.h"

#include <string.h>

#include "support/core.h"

TR_STATE(Book, (int64_t, pages));
TR_MESSAGE(Bell, (int64_t, number));
TR_MESSAGE(Written, (int64_t, pages));
TR_REQUEST(Rest, tr_none, (int64_t, how));
TR_REQUEST(Pages, Acted);

enum { CALLS = 9 };

/* What each call said in the cut turn; everything runs in one thread. */
static struct {
    tr_err cut, said[CALLS];
    int count;
    tr_ref other;
} seen;

static tr_err nothing(void *arg)
{
    (void)arg;
    return TR_OK;
}

static void say(tr_err err)
{
    assert_true(seen.count < CALLS);
    seen.said[seen.count++] = err;
}

static void common(tr_ctx *ctx)
{
    size_t index;
    say(tr_sleep(ctx, 1));
    say(tr_blocking(ctx, nothing, NULL));
    say(tr_wait_fd(ctx, 0, TR_FD_READ, TR_SECONDS(1), NULL));
    say(act_ask(ctx, seen.other, act_nothing, NULL, TR_SECONDS(1)));
    say(tr_join(ctx, seen.other, TR_SECONDS(1), NULL, NULL));
    tr_future f = tr_async(ctx, seen.other, TR_SECONDS(1), Act,
                           .fn = (uint64_t)(uintptr_t)act_nothing);
    say(tr_await_any(ctx, &f, 1, &index));
    say(tr_await(ctx, f, Act, NULL));
}

static tr_err book_rest(tr_ctx *ctx, Book *self, const Rest *m)
{
    Book next = {.pages = self->pages + 1};
    (void)m;
    seen.cut = tr_sleep(ctx, TR_SECONDS(1000));
    common(ctx);
    say(tr_persist(ctx, self, &next));
    say(tr_remind(ctx, "r", TR_SECONDS(1), 0, Bell, .number = 1));
    return seen.cut;
}

static tr_err book_bell(tr_ctx *ctx, Book *self, const Bell *m)
{
    (void)ctx;
    (void)self;
    (void)m;
    seen.count = -1;  // it must not be set
    return TR_OK;
}

static tr_err book_pages(tr_ctx *ctx, Book *self, const Pages *m)
{
    return tr_reply(ctx, m, .value = self->pages);
}

TR_ACTOR(books, Book, TR_ON(Rest, book_rest), TR_ON_REMINDER(Bell, book_bell),
         TR_ON(Pages, book_pages));

static void ledger_apply(Book *self, const Written *e)
{
    self->pages += e->pages;
}

static tr_err ledger_rest(tr_ctx *ctx, Book *self, const Rest *m)
{
    (void)m;
    seen.cut = tr_sleep(ctx, TR_SECONDS(1000));
    common(ctx);
    say(tr_emit(ctx, self, Written, .pages = 1));
    say(tr_forget(ctx, "r"));
    return seen.cut;
}

TR_ACTOR(ledgers, Book, TR_ON(Rest, ledger_rest), TR_ON(Pages, book_pages),
         TR_APPLY(Written, ledger_apply));

static tr_ref keep_book(stage *it, const tr_actor_def *def, tr_storage *store)
{
    tr_spawn_options options = {.size = sizeof(options),
                                .name = "book",
                                .storage = store,
                                .joinable = true};
    tr_ref ref = (tr_spawn)((tr_from){.sys = it->sys}, def, &options);
    expect_ok(tr_ref_err(ref));
    return ref;
}

static void cut(const tr_actor_def *def, bool kill)
{
    stage it;
    tr_storage *store;
    Acted pages;
    expect_ok(tr_storage_memory(&store));
    stage_open(&it);
    memset(&seen, 0, sizeof(seen));
    seen.other = it.two;
    tr_ref ref = keep_book(&it, def, store);
    tr_tell(it.sys, ref, Rest, .how = 1);
    stage_run_ready(&it);
    if (kill) {
        tr_kill(it.sys, ref);
    } else {
        tr_stop(it.sys, ref);
    }
    stage_pass(&it, TR_SECONDS(60));
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    assert_int_not_equal(seen.cut, TR_OK);
    assert_int_equal(seen.count, CALLS);
    for (int i = 0; i < seen.count; i++) {
        if (seen.said[i] != seen.cut) {
            fail_msg("call %d says %s", i, tr_errname(seen.said[i]));
        }
    }
    // The next life finds nothing of it.
    ref = keep_book(&it, def, store);
    expect_ok(tr_ask(it.sys, ref, &pages, TR_SECONDS(5), Pages));
    assert_int_equal(pages.value, 0);
    stage_pass(&it, TR_SECONDS(60));
    assert_int_equal(seen.count, CALLS);
    stage_close(&it);
    tr_storage_close(store);
}

static void test_rule_7_a_cancelled_turn_waits_for_nothing(void **state)
{
    (void)state;
    cut(&books, false);
    cut(&books, true);
    cut(&ledgers, false);
    cut(&ledgers, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_7_a_cancelled_turn_waits_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
