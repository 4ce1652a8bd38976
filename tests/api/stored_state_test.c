/*
 * stored_state_test.c - what a program may expect of a store, by the public
 * headers alone: a save replaces the whole state, keys are apart, a store sees
 * bytes, serves many actors, and can be captured and made to fail. Virtual
 * actors are found by name, and a ref activates nothing.
 */
#define _GNU_SOURCE  // for memmem
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

TR_STATE(Purse, (int64_t, cents), (const char *, memo));
TR_MESSAGE(Content, (int64_t, cents), (const char *, memo));
TR_REQUEST(Put, Content, (int64_t, cents), (const char *, memo));
TR_REQUEST(Look, Content);

static uint32_t starts;

static tr_err purse_starts(tr_ctx *ctx, Purse *self)
{
    (void)ctx, (void)self;
    starts++;
    return TR_OK;
}

static tr_err on_put(tr_ctx *ctx, Purse *self, const Put *m)
{
    Purse next = {.cents = m->cents, .memo = m->memo};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m, .cents = self->cents, .memo = self->memo);
}

static tr_err on_look(tr_ctx *ctx, Purse *self, const Look *m)
{
    return tr_reply(ctx, m, .cents = self->cents, .memo = self->memo);
}

TR_ACTOR(purse, Purse, TR_HOOK(pre_start, purse_starts), TR_ON(Put, on_put),
         TR_ON(Look, on_look));
TR_ACTOR(wallet, Purse, TR_ON(Put, on_put), TR_ON(Look, on_look));

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    tr_storage *inner, *store;
} world;

static void open_system(world *w, const char *ns)
{
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .ns = ns, .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    assert_int_equal(tr_host(w->sys, purse, .storage = w->store), TR_OK);
    assert_int_equal(tr_host(w->sys, wallet, .storage = w->store), TR_OK);
}

static void open_world(world *w)
{
    starts = 0;
    assert_int_equal(tr_sim_new(&w->sim, 1), TR_OK);
    assert_int_equal(tr_storage_memory(&w->inner), TR_OK);
    assert_int_equal(tr_storage_capture(&w->store, w->inner), TR_OK);
    open_system(w, "one");
}

static void reopen(world *w, const char *ns)
{
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    open_system(w, ns);
}

static void close_world(world *w)
{
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_storage_close(w->store);
    tr_storage_close(w->inner);
    tr_sim_free(w->sim);
}

static tr_err put(world *w, const char *kind, const char *key, int64_t cents,
                  const char *memo)
{
    Content c;
    tr_err err = tr_ask(w->sys, tr_virtual(w->sys, kind, key), &c, 0, Put,
                        .cents = cents, .memo = memo);
    if (err == TR_OK) {
        tr_drop(Content, &c);
    }
    return err;
}

static void assert_holds(world *w, const char *kind, const char *key,
                         int64_t cents, const char *memo)
{
    Content c;
    assert_int_equal(tr_ask(w->sys, tr_virtual(w->sys, kind, key), &c, 0, Look),
                     TR_OK);
    assert_int_equal(c.cents, cents);
    assert_string_equal(c.memo != NULL ? c.memo : "", memo);
    tr_drop(Content, &c);
}

static void test_ST3_ST4_a_save_replaces_all_of_the_state(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    assert_holds(&w, "purse", "a", 0, "");  // nothing is stored: no error
    assert_int_equal(put(&w, "purse", "a", 5, "rent"), TR_OK);
    assert_int_equal(put(&w, "purse", "a", 6, NULL), TR_OK);
    reopen(&w, "one");
    assert_holds(&w, "purse", "a", 6, "");
    close_world(&w);
}

static void test_ST8_ST14_ST21_keys_kinds_and_spaces_are_apart(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    assert_int_equal(put(&w, "purse", "a", 1, "a"), TR_OK);
    assert_int_equal(put(&w, "purse", "b", 2, "b"), TR_OK);
    assert_int_equal(put(&w, "wallet", "a", 3, "c"), TR_OK);
    reopen(&w, "two");
    assert_holds(&w, "purse", "a", 0, "");
    assert_int_equal(put(&w, "purse", "a", 4, "d"), TR_OK);
    reopen(&w, "one");
    assert_holds(&w, "purse", "a", 1, "a");
    assert_holds(&w, "purse", "b", 2, "b");
    assert_holds(&w, "wallet", "a", 3, "c");
    close_world(&w);
}

static void test_ST7_ST13_TE13_a_capture_shows_the_bytes(void **state)
{
    (void)state;
    world w;
    tr_captured seen = {0};
    size_t saves = 0;
    open_world(&w);
    assert_int_equal(put(&w, "purse", "a", 7, "ink"), TR_OK);
    for (size_t i = 0; i < tr_storage_captured_count(w.store); i++) {
        tr_captured each;
        assert_true(tr_storage_captured(w.store, i, &each));
        if (each.call == TR_STORE_SAVE) {
            seen = each;
            saves++;
        }
    }
    assert_int_equal(saves, 1);
    assert_non_null(strstr(seen.key, "purse"));
    assert_int_equal(seen.err, TR_OK);
    assert_non_null(memmem(seen.bytes, seen.size, "ink", 3));
    close_world(&w);
}

static void test_ST17_saves_that_fail_change_nothing(void **state)
{
    (void)state;
    world w;
    uint32_t failed = 0;
    int64_t last = 0;
    open_world(&w);
    tr_storage_fail_saves(w.store, 0.5, 7);
    for (int64_t i = 1; i <= 40; i++) {
        tr_err err = put(&w, "purse", "a", i, "x");
        assert_true(err == TR_OK || err == TR_ESTORAGE);
        failed += err != TR_OK;
        last = err == TR_OK ? i : last;
        assert_holds(&w, "purse", "a", last, last > 0 ? "x" : "");
    }
    assert_true(failed > 5 && failed < 35);
    tr_storage_fail_saves(w.store, 0, 7);
    reopen(&w, "one");
    assert_holds(&w, "purse", "a", last, "x");
    close_world(&w);
}

static void test_ST5_VA3_VA4_VA5_names_that_cannot_be_stored(void **state)
{
    (void)state;
    world w;
    static char key[600];
    static const char *const bad[] = {"", "a/b", "a::b"};
    open_world(&w);
    memset(key, 'k', sizeof(key) - 1);
    assert_int_equal(tr_ref_err(tr_virtual(w.sys, "purse", key)), TR_EINVAL);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tr_ref_err(tr_virtual(w.sys, "purse", bad[i])),
                         TR_EINVAL);
    }
    close_world(&w);
}

static void test_T14_T15_T17_VA1_VA6_AC12_the_first_message_activates(
    void **state)
{
    (void)state;
    world w;
    open_world(&w);
    tr_ref a = tr_virtual(w.sys, "purse", "a");
    tr_sim_advance(w.sim, TR_SECONDS(1));
    assert_int_equal(starts, 0);  // a ref alone does nothing
    assert_true(tr_ref_eq(a, tr_virtual(w.sys, "purse", "a")));
    assert_false(tr_ref_eq(a, tr_virtual(w.sys, "purse", "b")));
    assert_false(tr_ref_eq(a, tr_virtual(w.sys, "wallet", "a")));
    tr_tell(w.sys, a, Put, .cents = 9, .memo = "told");
    tr_sim_advance(w.sim, TR_SECONDS(1));
    assert_int_equal(starts, 1);
    assert_holds(&w, "purse", "a", 9, "told");
    assert_int_equal(starts, 1);  // it is the same activation
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ST3_ST4_a_save_replaces_all_of_the_state),
        cmocka_unit_test(test_ST8_ST14_ST21_keys_kinds_and_spaces_are_apart),
        cmocka_unit_test(test_ST7_ST13_TE13_a_capture_shows_the_bytes),
        cmocka_unit_test(test_ST17_saves_that_fail_change_nothing),
        cmocka_unit_test(test_ST5_VA3_VA4_VA5_names_that_cannot_be_stored),
        cmocka_unit_test(
            test_T14_T15_T17_VA1_VA6_AC12_the_first_message_activates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
