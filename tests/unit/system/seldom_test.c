/*
 * seldom_test.c - calls of the system that hardly anybody makes, and what they
 * say: paths that lead nowhere, keys that are too long, events without a
 * store, a close that virtual actors hold up. On virtual time.
 */
#include "support/stage.h"

#include <stdio.h>
#include <string.h>

#include "core/runtime.h"

/* ---- paths ---- */

static tr_err act_look(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    tr_ref ref = tr_lookup(ctx, arg);
    return tr_reply(ctx, m, .value = tr_ref_err(ref),
                    .text = tr_error_text(ctx));
}

/* GD: the path that was looked for is said as a whole. */
static void test_GD_a_path_that_leads_nowhere_is_named(void **state)
{
    static const char *const paths[][2] = {
        {"nobody", "no actor has the path ./nobody"},
        {"/user/nobody", "no actor has the path /user/nobody"},
        {"/temp/nobody", "no actor has the path /temp/nobody"},
        {"/nowhere/nobody", "no actor has the path /nowhere/nobody"},
        {"$zz", "no actor has the path ./$zz"},
        {"$12x", "no actor has the path ./$12x"},
    };
    stage it;
    Acted out;
    (void)state;
    stage_open(&it);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        expect_ok(tr_ask(it.sys, it.one, &out, TR_SECONDS(5), Act,
                         .fn = (uint64_t)(uintptr_t)act_look,
                         .arg = (uint64_t)(uintptr_t)paths[i][0]));
        if (strstr(out.text, paths[i][1]) == NULL) {
            fail_msg("%s: %s", paths[i][0], out.text);
        }
        tr_drop(Acted, &out);
    }
    // From outside a relative path is one below /user.
    assert_int_equal(tr_lookup(it.sys, "nobody").cell, 0);
    assert_non_null(strstr(tr_error_text(it.sys), "/user/nobody"));
    assert_true(tr_ref_eq(tr_lookup(it.sys, "one"), it.one));
    stage_close(&it);
}

/* ---- keys of stores ---- */

TR_STATE(Saved, (int64_t, value));
TR_REQUEST(Save, tr_none, (int64_t, value));
TR_REQUEST(Below, Acted, (uint64_t, storage), (int64_t, deep));
TR_REQUEST(ReadAll, Acted, (const char *, kind), (const char *, key));

enum { NAME = 60, DEEP = 10 };

static tr_err on_save(tr_ctx *ctx, Saved *self, const Save *m)
{
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &(Saved){.value = m->value}));
    return tr_reply(ctx, m);
}

static tr_err on_read_all(tr_ctx *ctx, Saved *self, const ReadAll *m)
{
    tr_event_page page;
    (void)self;
    tr_err err = tr_events_read(ctx, m->kind, m->key, 0, &page);
    return tr_reply(ctx, m, .value = err, .text = tr_error_text(ctx));
}

TR_ACTOR_FORWARD(saver, Saved);

/* Ends with the error of the deepest one's start. */
static tr_err on_below(tr_ctx *ctx, Saved *self, const Below *m)
{
    char name[NAME + 1];
    Acted out;
    (void)self;
    memset(name, 'a', NAME);
    name[NAME] = '\0';
    tr_storage *store = (tr_storage *)(uintptr_t)m->storage;
    tr_ref child = tr_spawn(ctx, saver, .name = name,
                            .storage = m->deep == 0 ? store : NULL);
    TR_TRY(tr_ref_err(child));
    if (m->deep == 0) {
        return tr_reply(ctx, m, .value = tr_started(ctx, child, TR_SECONDS(5)));
    }
    TR_OR_REFUSE(ctx, m,
                 tr_ask(ctx, child, &out, TR_SECONDS(5), Below,
                        .storage = m->storage, .deep = m->deep - 1));
    return tr_reply(ctx, m, .value = out.value);
}

TR_ACTOR(saver, Saved, TR_ON(Save, on_save), TR_ON(Below, on_below),
         TR_ON(ReadAll, on_read_all));

/* A path beyond what a key holds: the start fails, nothing is cut off. */
static void test_ST_a_path_that_is_no_key_is_refused(void **state)
{
    stage it;
    tr_storage *store;
    Acted out;
    (void)state;
    expect_ok(tr_storage_memory(&store));
    stage_open(&it);
    tr_ref top = tr_spawn(it.sys, saver, .name = "top");
    expect_ok(tr_ask(it.sys, top, &out, TR_SECONDS(5), Below,
                     .storage = (uint64_t)(uintptr_t)store, .deep = 1));
    expect_ok((tr_err)out.value);
    tr_drop(Acted, &out);
    top = tr_spawn(it.sys, saver, .name = "deep");
    expect_ok(tr_ask(it.sys, top, &out, TR_SECONDS(5), Below,
                     .storage = (uint64_t)(uintptr_t)store, .deep = DEEP));
    assert_int_not_equal(out.value, TR_OK);
    tr_drop(Acted, &out);
    stage_close(&it);
    tr_storage_close(store);
}

static tr_err read_all(stage *it, tr_ref ref, const char *kind, const char *key,
                       const char *says)
{
    Acted out;
    expect_ok(tr_ask(it->sys, ref, &out, TR_SECONDS(5), ReadAll, .kind = kind,
                     .key = key));
    tr_err err = (tr_err)out.value;
    if (says != NULL) {
        assert_non_null(strstr(out.text, says));
    }
    tr_drop(Acted, &out);
    return err;
}

static void test_ST_events_are_read_from_a_store_by_a_key(void **state)
{
    stage it;
    tr_storage *store;
    char longest[600];
    (void)state;
    memset(longest, 'k', sizeof(longest));
    longest[sizeof(longest) - 1] = '\0';
    expect_ok(tr_storage_memory(&store));
    tr_system_options options = {.size = sizeof(options), .ns = "space"};
    stage_open_seed(&it, 1, &options);
    tr_ref without = tr_spawn(it.sys, saver, .name = "without");
    tr_ref with = tr_spawn(it.sys, saver, .name = "with", .storage = store);
    expect_err(read_all(&it, without, "saver", "a", "has no storage"),
               TR_ESTORAGE);
    expect_ok(read_all(&it, with, "saver", "a", NULL));
    expect_ok(read_all(&it, with, NULL, NULL, NULL));
    expect_err(read_all(&it, with, "saver", NULL, "is no key"), TR_EINVAL);
    expect_err(read_all(&it, with, "saver", longest, "is no key"), TR_ELIMIT);
    stage_close(&it);
    tr_storage_close(store);
}

/* ---- closing ---- */

typedef struct Slow {
    int64_t value;
} Slow;

static tr_err slow_act(tr_ctx *ctx, Slow *self, const Act *m)
{
    (void)self;
    (void)m;
    return tr_sleep(ctx, TR_MINUTES(600));
}

TR_ACTOR(slow, Slow, TR_ON(Act, slow_act));

/* SH: a virtual actor that takes its time is not given all of it. */
static void test_SH_virtual_actors_are_ended_in_half_of_the_time(void **state)
{
    stage it;
    tr_close_report report = {.size = sizeof(report)};
    (void)state;
    stage_open(&it);
    expect_ok(tr_host(
        it.sys, slow,
        .spawn = TR_OPTIONS(tr_spawn_options, .stop_timeout = TR_MINUTES(60))));
    tr_tell(it.sys, tr_virtual(it.sys, "slow", "a"), Act, .fn = 0);
    stage_pass(&it, TR_SECONDS(1));
    tr_probe_free(it.probe);
    tr_nanos start = tr_sim_now(it.sim);
    tr_err err = tr_system_close_report(it.sys, TR_SECONDS(20), &report);
    assert_true(err == TR_OK || err == TR_ETIMEDOUT);
    assert_int_equal(report.zombies, 0);
    assert_true(tr_sim_now(it.sim) - start <= TR_SECONDS(30));
    tr_sim_free(it.sim);
}

/* ---- words ---- */

static void test_DL_every_reason_has_its_words(void **state)
{
    (void)state;
#define TR_X(name, number, text)                                               \
    assert_string_equal(tr_dead_reason_text(TR_DEAD_##name), text);
    TR_DEAD_REASONS(TR_X)
#undef TR_X
    assert_non_null(tr_dead_reason_text((tr_dead_reason)77));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_GD_a_path_that_leads_nowhere_is_named),
        cmocka_unit_test(test_ST_a_path_that_is_no_key_is_refused),
        cmocka_unit_test(test_ST_events_are_read_from_a_store_by_a_key),
        cmocka_unit_test(test_SH_virtual_actors_are_ended_in_half_of_the_time),
        cmocka_unit_test(test_DL_every_reason_has_its_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
