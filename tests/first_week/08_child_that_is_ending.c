/*
 * 08_child_that_is_ending.c - tr_child says whether there is no child of the
 * name, or one that ends; "the next message makes it anew" loses no message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 30 };

TR_MESSAGE(Write, (uint32_t, number));
TR_MESSAGE(Answers, (uint32_t, absent), (uint32_t, present),
           (uint32_t, ending));
TR_REQUEST(Look, Answers);

static uint32_t written;

static tr_err on_write(tr_ctx *ctx, void *self, const Write *m)
{
    (void)ctx, (void)self, (void)m;
    written++;
    return TR_OK;
}

TR_ACTOR(page, void, TR_ON(Write, on_write));

static tr_err on_look(tr_ctx *ctx, void *self, const Look *m)
{
    (void)self;
    tr_err absent = tr_ref_err(tr_child(ctx, "p"));
    tr_ref p = tr_spawn(ctx, page, .name = "p", .watch = true);
    bool same = tr_ref_eq(tr_child(ctx, "p"), p);
    tr_stop(ctx, p);
    tr_err ending = tr_ref_err(tr_child(ctx, "p"));
    return tr_reply(ctx, m, .absent = absent, .present = same,
                    .ending = ending);
}

/* Passes the message to the child, which is made when it is needed. */
static tr_err on_book_write(tr_ctx *ctx, void *self, const Write *m)
{
    (void)self;
    tr_ref p = tr_child(ctx, "p");
    if (tr_ref_err(p) == TR_ESTOPPED) {
        return tr_stash(ctx, m);  // until its name is free
    }
    if (tr_ref_err(p) == TR_ENOENT) {
        p = tr_spawn(ctx, page, .name = "p", .watch = true);
        TR_TRY(tr_ref_err(p));
    }
    tr_tell(ctx, p, Write, .number = m->number);
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, void *self, const tr_terminated *m)
{
    (void)self, (void)m;
    tr_unstash_all(ctx);
    return TR_OK;
}

TR_ACTOR(book, void, TR_ON(Look, on_look), TR_ON(Write, on_book_write),
         TR_ON(tr_terminated, on_terminated));

static void test_first_week_08_tr_child_tells_absent_from_ending(void **state)
{
    (void)state;
    tr_sim *sim;
    tr_system *sys;
    assert_int_equal(tr_sim_new(&sim, 1), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim)), TR_OK);
    Answers answers;
    assert_int_equal(tr_ask(sys, tr_spawn(sys, book), &answers, 0, Look),
                     TR_OK);
    assert_int_equal(answers.absent, TR_ENOENT);
    assert_true(answers.present);
    assert_int_equal(answers.ending, TR_ESTOPPED);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

/* A stop in between, at any moment: each message is written by some child. */
static void made_anew(uint64_t seed)
{
    tr_sim *sim;
    tr_system *sys;
    written = 0;
    assert_int_equal(tr_sim_new(&sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&sys, .world = tr_sim_world(sim)), TR_OK);
    tr_ref b = tr_spawn(sys, book);
    tr_tell(sys, b, Write, .number = 1);
    tr_sim_advance(sim, TR_MS(1));
    char path[TR_PATH_SIZE];
    (void)tr_ref_path(sys, b, path, sizeof(path) - 2);
    strcat(path, "/p");
    tr_ref p = tr_lookup(sys, path);
    assert_int_equal(tr_ref_err(p), TR_OK);
    tr_stop(sys, p);
    tr_tell(sys, b, Write, .number = 2);
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(written, 2);
    assert_int_equal(tr_system_close(sys, 0), TR_OK);
    tr_sim_free(sim);
}

static void test_first_week_08_the_next_message_makes_it_anew(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        made_anew(seed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_week_08_tr_child_tells_absent_from_ending),
        cmocka_unit_test(test_first_week_08_the_next_message_makes_it_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
