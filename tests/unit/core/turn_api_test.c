/*
 * turn_api_test.c - calls inside a turn that are refused or limited: futures
 * of other turns, a message that was given away, more heap than allowed; and
 * what a turn without a message knows of its sender.
 */
#include "support/stage.h"

#include <stdio.h>
#include <string.h>

/* ---- futures, kept and stashed messages ---- */

static tr_err act_misuse_futures(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    Acted out;
    size_t index;
    tr_future *kept = arg;
    tr_future none = {0}, unknown = {77};
    TR_ASSERT(ctx, tr_await(ctx, none, Act, &out) == TR_EINVAL);
    TR_ASSERT(ctx, tr_await(ctx, unknown, Act, &out) == TR_EINVAL);
    TR_ASSERT(ctx, tr_await_any(ctx, &unknown, 1, &index) == TR_EINVAL);
    if (kept->id != 0) {  // of the turn before: it has ended with it
        TR_ASSERT(ctx, tr_await(ctx, *kept, Act, &out) == TR_EINVAL);
        TR_ASSERT(ctx, tr_await_any(ctx, kept, 1, &index) == TR_EINVAL);
    }
    *kept = tr_async(ctx, self->stage->two, TR_FOREVER, Act,
                     .fn = (uint64_t)(uintptr_t)act_nothing);
    TR_ASSERT(ctx, tr_ask(ctx, self->stage->two, NULL, TR_FOREVER, Act,
                          .fn = (uint64_t)(uintptr_t)act_nothing) == TR_OK);
    return tr_reply(ctx, m, .value = 1);
}

static void test_futures_of_other_turns_are_refused(void **state)
{
    stage it;
    tr_future kept = {0};
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_misuse_futures, &kept));
    expect_ok(stage_ask(&it, it.one, act_misuse_futures, &kept));
    stage_close(&it);
}

static tr_err act_after_forward(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    (void)arg;
    if (tr_ref_eq(tr_self(ctx), self->stage->two)) {
        return tr_reply(ctx, m, .value = 2);
    }
    tr_forward(ctx, self->stage->two, m);
    tr_forward(ctx, self->stage->three, m);  // it has gone already
    TR_ASSERT(ctx, tr_keep(ctx, m) == NULL || tr_stash(ctx, m) != TR_OK);
    return TR_OK;
}

static tr_err act_refuse_twice(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)self;
    (void)arg;
    (void)tr_refuse(ctx, m, TR_EUSER, "first");
    return tr_refuse(ctx, m, TR_EINVAL, "second");
}

static void test_a_message_is_given_away_once(void **state)
{
    stage it;
    Acted out;
    (void)state;
    stage_open(&it);
    tr_err err = tr_ask(it.sys, it.one, &out, 0, Act,
                        .fn = (uint64_t)(uintptr_t)act_after_forward);
    assert_true(err == TR_OK ? out.value == 2 : err == TR_EPANIC);
    expect_err(stage_ask(&it, it.two, act_refuse_twice, NULL), TR_EUSER);
    stage_close(&it);
}

/* ---- who, in places without a message ---- */

typedef struct seen {
    tr_ref sender;
    char name[32], again[32];
    size_t children;
    bool stopping;
} seen;

typedef struct hooked {
    seen *seen;
} hooked;

static tr_err hooked_start(tr_ctx *ctx, hooked *self)
{
    self->seen->sender = tr_sender(ctx);
    snprintf(self->seen->name, sizeof(self->seen->name), "%s", tr_name(ctx));
    snprintf(self->seen->again, sizeof(self->seen->again), "%s", tr_name(ctx));
    self->seen->children = tr_children(ctx, NULL, 0);
    TR_ASSERT(ctx, tr_child(ctx, "nobody").cell == 0);
    return TR_OK;
}

static tr_err hooked_timer(tr_ctx *ctx, hooked *self, const Note *m)
{
    if (m->value == 0) {
        (void)tr_after(ctx, TR_MS(1), Note, .value = 1);
    } else {
        self->seen->sender = tr_sender(ctx);
        self->seen->stopping = tr_stopping(ctx);
    }
    return TR_OK;
}

TR_ACTOR(hooked_kind, hooked, TR_HOOK(pre_start, hooked_start),
         TR_ON(Note, hooked_timer));

static void test_C7_hooks_and_timers_have_no_sender(void **state)
{
    stage it;
    seen s = {.sender = {1, 1}, .stopping = true, .children = 9};
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, hooked_kind, TR_INIT(hooked_kind, &s));
    stage_run_ready(&it);
    assert_int_equal(s.sender.cell, 0);
    assert_int_equal(s.name[0], '$');
    assert_string_equal(s.name, s.again);
    assert_int_equal(s.children, 0);
    s.sender = (tr_ref){1, 1};
    tr_tell(it.probe, ref, Note, .value = 0);
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(s.sender.cell, 0);
    assert_false(s.stopping);
    stage_close(&it);
}

/* ---- memory of an actor ---- */

static tr_err act_heap(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)m;
    tr_free(ctx, NULL);
    char *text = tr_dup(ctx, "some text");
    text = tr_realloc(ctx, text, 500);
    TR_ASSERT(ctx, strcmp(text, "some text") == 0);
    tr_free(ctx, text);
    TR_ASSERT(ctx, strlen(tr_scratch(ctx, 100000)) == 0);
    (void)tr_alloc(ctx, (size_t)(uintptr_t)arg);
    return tr_reply(ctx, m, .value = 1);
}

static void test_a_heap_has_its_limit(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref =
        stage_spawn(&it, .heap_limit = 1000,
                    .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    expect_ok(stage_ask(&it, ref, act_heap, (void *)100));
    expect_err(stage_ask(&it, ref, act_heap, (void *)2000), TR_EPANIC);
    expect_err(stage_ask(&it, ref, act_heap, (void *)(SIZE_MAX - 8)),
               TR_EPANIC);
    expect_ok(stage_ask(&it, ref, act_heap, (void *)100));
    expect_ok(stage_ask(&it, it.one, act_heap, (void *)2000));
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_futures_of_other_turns_are_refused),
        cmocka_unit_test(test_a_message_is_given_away_once),
        cmocka_unit_test(test_C7_hooks_and_timers_have_no_sender),
        cmocka_unit_test(test_a_heap_has_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
