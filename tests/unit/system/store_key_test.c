/*
 * store_key_test.c - the keys under which actors store: a path that is too
 * long to be one, and reading the events of another key.
 */
#include "support/stage.h"

#include <string.h>

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
static void test_ST_a_path_too_long_for_a_key_is_refused(void **state)
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
    expect_err(read_all(&it, with, "saver", NULL, "is not a valid key"),
               TR_EINVAL);
    expect_err(read_all(&it, with, "saver", longest, "is not a valid key"),
               TR_ELIMIT);
    stage_close(&it);
    tr_storage_close(store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ST_a_path_too_long_for_a_key_is_refused),
        cmocka_unit_test(test_ST_events_are_read_from_a_store_by_a_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
