/*
 * ask_test.c - telling and asking: T1 to T13, T18, T19, X42, X49 to X51;
 * payloads with text, bytes, lists and blobs through real sends; keeping,
 * forwarding, refusing, stashing, behaviours; what error texts say.
 */
#include "support/stage.h"

#include <stdio.h>
#include <string.h>

#include "core/runtime.h"

TR_MESSAGE(Item, (const char *, name), (int32_t, count));
TR_MESSAGE(Parcel, (const char *, label), (tr_bytes, raw), (list, Item, items),
           (array, double, weights), (nested, Item, first),
           (fixed, uint8_t, key, 4), (tr_blob, blob), (tr_ref, from));
TR_REQUEST(Echo, Parcel, (const char *, label), (tr_bytes, raw),
           (list, Item, items), (array, double, weights), (tr_blob, blob));

/* Answers with all that it was given. */
static tr_err on_echo(tr_ctx *ctx, puppet *self, const Echo *m)
{
    (void)self;
    return tr_reply(ctx, m, .label = m->label, .raw = m->raw,
                    .items = {m->items.at, m->items.count},
                    .weights = {m->weights.at, m->weights.count},
                    .first = m->items.count > 0 ? m->items.at[0] : (Item){0},
                    .key = {1, 2, 3, 4}, .blob = m->blob, .from = tr_self(ctx));
}

TR_ACTOR(echoes, puppet, TR_ON(Echo, on_echo));

static void expect_parcel(const Parcel *p, const char *label, size_t size)
{
    assert_string_equal(p->label, label);
    assert_int_equal(p->raw.size, size);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(((const unsigned char *)p->raw.at)[i], i & 0xff);
    }
    assert_int_equal(p->items.count, 2);
    assert_string_equal(p->items.at[0].name, "bolt");
    assert_int_equal(p->items.at[1].count, -7);
    assert_string_equal(p->first.name, "bolt");
    assert_int_equal(p->weights.count, 3);
    assert_true(p->weights.at[2] == 2.5);
    assert_int_equal(p->key[3], 4);
    assert_int_equal(tr_blob_bytes(p->blob).size, 5);
    assert_memory_equal(tr_blob_bytes(p->blob).at, "blob!", 5);
}

static void test_payloads_arrive_whole_at_every_size(void **state)
{
    stage it;
    tr_blob blob;
    static unsigned char raw[200000];
    static const size_t sizes[] = {0,    1,    15,   16,   100,
                                   1000, 8000, 8192, 9000, 200000};
    (void)state;
    for (size_t i = 0; i < sizeof(raw); i++) {
        raw[i] = (unsigned char)i;
    }
    stage_open(&it);
    expect_ok(tr_blob_new(it.sys, &blob, "blob!", 5));
    tr_ref echo = tr_spawn(it.sys, echoes, TR_INIT(echoes, .stage = &it));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        Item items[] = {{.name = "bolt", .count = 3},
                        {.name = "nut", .count = -7}};
        double weights[] = {0.5, 1.5, 2.5};
        char label[32] = "a label on the stack";
        Parcel parcel;
        expect_ok(tr_ask(it.sys, echo, &parcel, 0, Echo, .label = label,
                         .raw = {raw, sizes[i]}, .items = {items, 2},
                         .weights = {weights, 3}, .blob = blob));
        memset(label, 'x', sizeof(label) - 1);
        expect_parcel(&parcel, "a label on the stack", sizes[i]);
        assert_true(tr_ref_eq(parcel.from, echo));
        tr_drop(Parcel, &parcel);
    }
    tr_blob_drop(blob);
    stage_close(&it);
}

/* T1, T3, T5, T18: fire and forget, with the sender. */
static tr_err act_note_sender(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)m;
    tr_ref *out = arg;
    *out = tr_sender(ctx);
    if (out->cell != 0) {
        tr_tell(ctx, *out, Note, .value = 4);
    }
    (void)self;
    return TR_OK;
}

static tr_err act_tell_two(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)m;
    act_tell(ctx, self->stage->two, act_note_sender, arg);
    return TR_OK;
}

static void test_t03_t05_the_receiver_knows_the_sender(void **state)
{
    stage it;
    tr_ref sender = TR_NOBODY;
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.one, act_tell_two, &sender);
    stage_settle(&it);
    assert_true(tr_ref_eq(sender, it.one));
    expect_notes(&it, 4);
    act_tell(it.sys, it.two, act_note_sender, &sender);
    stage_settle(&it);
    assert_int_equal(sender.cell, 0);  // from outside: nobody
    act_tell(it.probe, it.two, act_note_sender, &sender);
    assert_int_equal(tr_expect(it.probe, 0, Note)->value, 4);
    stage_close(&it);
}

/* T6, T7, T9, T10: one reply, of the declared type; none for a tell. */
static tr_err act_reply_twice(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    tr_err *out = arg;
    (void)self;
    out[0] = tr_reply(ctx, m, .value = 1);
    out[1] = tr_reply(ctx, m, .value = 2);
    return TR_OK;
}

static void test_t06_t07_t10_a_request_is_answered_once(void **state)
{
    stage it;
    tr_err errs[2];
    Acted done;
    (void)state;
    stage_open(&it);
    expect_ok(tr_ask(it.sys, it.one, &done, 0, Act,
                     .fn = (uint64_t)(uintptr_t)act_reply_twice,
                     .arg = (uint64_t)(uintptr_t)errs));
    assert_int_equal(done.value, 1);
    expect_ok(errs[0]);
    expect_err(errs[1], TR_EEXIST);
    stage_tell(&it, it.one, act_reply_twice, errs);  // nobody waits
    stage_settle(&it);
    expect_ok(errs[0]);
    assert_int_equal(stage_dead(&it, TR_DEAD_LATE), 0);
    stage_close(&it);
}

/* T8: a failing handler, T11: no handler, T12: nobody there. */
static tr_err act_forget(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)ctx;
    (void)self;
    (void)m;
    (void)arg;
    return TR_OK;
}

static void test_t08_every_way_not_to_be_answered(void **state)
{
    stage it;
    Parcel parcel;
    (void)state;
    stage_open(&it);
    expect_err(stage_ask(&it, it.one, act_fail, NULL), TR_EUSER);
    expect_err(tr_ask(it.sys, it.two, NULL, 0, Act,
                      .fn = (uint64_t)(uintptr_t)act_forget),
               TR_ENOREPLY);
    expect_err(tr_ask(it.sys, it.two, &parcel, 0, Echo), TR_EUNHANDLED);
    expect_err(stage_ask(&it, TR_NOBODY, act_nothing, NULL), TR_ENOENT);
    stage_tell(&it, it.three, act_sleep, (void *)TR_SECONDS(1));
    stage_settle(&it);
    tr_stop(it.sys, it.three);
    stage_settle(&it);
    expect_err(stage_ask(&it, it.three, act_nothing, NULL), TR_EGONE);
    expect_err(stage_ask_for(&it, it.two, act_sleep, (void *)TR_SECONDS(9),
                             TR_SECONDS(1)),
               TR_ETIMEDOUT);
    stage_close(&it);
}

static void test_t12_mail_for_the_dead_is_a_dead_letter(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_kill(it.sys, it.one);
    stage_settle(&it);
    tr_tell(it.sys, it.one, Note, .value = 1);
    tr_tell(it.sys, TR_NOBODY, Note, .value = 1);
    assert_int_equal(stage_dead(&it, TR_DEAD_NO_SUCH_ACTOR), 2);
    tr_tell(it.sys, it.two, Stranger, .value = 1);  // T11
    assert_int_equal(stage_dead(&it, TR_DEAD_UNHANDLED), 1);
    stage_close(&it);
}

/* T19, X42: a promise has a place under /temp and no actor. */
static tr_err act_path_of_sender(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    (void)self;
    (void)tr_ref_path(ctx, tr_sender(ctx), arg, TR_PATH_SIZE);
    return tr_reply(ctx, m, .value = 1);
}

static void test_t19_x42_an_outside_asker_is_under_temp(void **state)
{
    stage it;
    char path[TR_PATH_SIZE];
    tr_metrics_snapshot before = {.size = sizeof(before)}, after = before;
    (void)state;
    stage_open(&it);
    tr_metrics(it.sys, &before);
    expect_ok(stage_ask(&it, it.one, act_path_of_sender, path));
    tr_metrics(it.sys, &after);
    assert_int_equal(strncmp(path, "/temp/", 6), 0);
    assert_int_equal(before.spawned, after.spawned);
    stage_close(&it);
}

/* ---- keep, release, forward, refuse ---- */

typedef struct later {
    stage *stage;
    tr_ref to;
    act_fn fn;
    tr_err err;
    int64_t value;
} later;

static void ask_in_thread(void *arg)
{
    later *it = arg;
    Acted done;
    it->err = tr_ask(it->stage->sys, it->to, &done, TR_SECONDS(50), Act,
                     .fn = (uint64_t)(uintptr_t)it->fn);
    it->value = done.value;
    tr_drop(Acted, &done);
}

static tr_thread *begin(later *it)
{
    tr_thread *thread;
    expect_ok(tr_thread_start(it->stage->sys, &thread, ask_in_thread, it));
    stage_settle(it->stage);
    return thread;
}

static tr_err act_answer_kept(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    const Act *kept = self->kept;
    (void)m;
    TR_TRY(tr_reply(ctx, kept, .value = (int64_t)(intptr_t)arg));
    tr_release(ctx, kept);
    tr_release(ctx, m);  // never kept: nothing happens
    self->kept = NULL;
    return TR_OK;
}

static tr_err act_release_kept(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    (void)arg;
    tr_release(ctx, self->kept);
    return TR_OK;
}

static tr_err act_forward_kept(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    tr_forward(ctx, *(tr_ref *)arg, self->kept);
    return TR_OK;
}

static tr_err act_keep_here(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    if (tr_ref_eq(tr_self(ctx), self->stage->one)) {
        return act_keep(ctx, self, m, arg);
    }
    return tr_reply(ctx, m, .value = 22);
}

static void test_a_kept_request_is_answered_later(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    later ask = {&it, it.one, act_keep, TR_EUSER, 0};
    tr_thread *thread = begin(&ask);
    expect_err(ask.err, TR_EUSER);
    expect_ok(stage_ask(&it, it.one, act_answer_kept, (void *)7));
    tr_thread_join(it.sys, thread);
    expect_ok(ask.err);
    assert_int_equal(ask.value, 7);
    // Released without an answer.
    thread = begin(&ask);
    expect_ok(stage_ask(&it, it.one, act_release_kept, NULL));
    tr_thread_join(it.sys, thread);
    expect_err(ask.err, TR_ENOREPLY);
    // Passed on, kept before; the asker is still the asker.
    ask.fn = act_keep_here;
    thread = begin(&ask);
    expect_ok(stage_ask(&it, it.one, act_forward_kept, &it.two));
    tr_thread_join(it.sys, thread);
    expect_ok(ask.err);
    assert_int_equal(ask.value, 22);
    // Kept until the end.
    ask.fn = act_keep;
    thread = begin(&ask);
    tr_stop(it.sys, it.one);
    tr_thread_join(it.sys, thread);
    expect_err(ask.err, TR_ESTOPPED);
    stage_close(&it);
}

/* Kept, stashed, forwarded twice: each message has one place. */
static tr_err act_all_at_once(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    (void)arg;
    if (self->value++ > 0) {
        return tr_reply(ctx, m, .value = 5);
    }
    const Act *kept = tr_keep(ctx, m);
    TR_ASSERT(ctx, kept == m);
    TR_ASSERT(ctx, tr_keep(ctx, m) == m);
    TR_TRY(tr_stash(ctx, m));
    TR_TRY(tr_stash(ctx, m));
    tr_unstash_all(ctx);
    tr_unstash_all(ctx);
    return TR_OK;
}

static void test_a_message_is_in_one_place(void **state)
{
    stage it;
    Acted done;
    (void)state;
    stage_open(&it);
    expect_ok(tr_ask(it.sys, it.one, &done, TR_SECONDS(5), Act,
                     .fn = (uint64_t)(uintptr_t)act_all_at_once));
    assert_int_equal(done.value, 5);
    stage_close(&it);
}

static tr_err act_forward_to(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_ref *to = arg;
    if (tr_ref_eq(tr_self(ctx), *to)) {
        TR_TRY(tr_sleep(ctx, TR_SECONDS(3)));
        return tr_reply(ctx, m, .value = 33);
    }
    (void)self;
    tr_forward(ctx, *to, m);
    return TR_OK;
}

static void test_t04_a_forwarded_request_keeps_its_time(void **state)
{
    stage it;
    Acted done;
    (void)state;
    stage_open(&it);
    expect_ok(tr_ask(it.sys, it.one, &done, TR_SECONDS(5), Act,
                     .fn = (uint64_t)(uintptr_t)act_forward_to,
                     .arg = (uint64_t)(uintptr_t)&it.two));
    assert_int_equal(done.value, 33);
    expect_err(
        stage_ask_for(&it, it.one, act_forward_to, &it.two, TR_SECONDS(2)),
        TR_ETIMEDOUT);
    // To somebody who is gone: the asker hears of it.
    tr_ref gone = it.three;
    tr_kill(it.sys, gone);
    stage_settle(&it);
    expect_err(stage_ask(&it, it.one, act_forward_to, &gone), TR_EGONE);
    stage_close(&it);
}

/* ---- stash and become ---- */

static tr_err closed_note(tr_ctx *ctx, puppet *self, const Note *m);
static tr_err open_note(tr_ctx *ctx, puppet *self, const Note *m);

TR_ACTOR(doors, puppet, TR_ON(Note, closed_note));
TR_ACTOR(doors_open, puppet, TR_ON(Note, open_note));

static tr_err closed_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    if (m->value != 0) {
        return tr_stash(ctx, m);
    }
    tr_become(ctx, self, doors_open);
    tr_unstash_all(ctx);
    return TR_OK;
}

static tr_err open_note(tr_ctx *ctx, puppet *self, const Note *m)
{
    (void)ctx;
    stage_note(self->stage, m->value);
    return TR_OK;
}

/* As if a million of them had been put aside before. */
static tr_err act_stash_at_limit(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    enum { MOST = 1 << 20 };
    uint32_t *stashed = arg;
    tri_ext *ext = tri_ext_need(ctx->worker, ctx->cell);
    TR_ASSERT(ctx, ext != NULL);
    if (self->value++ > 0) {
        return tr_reply(ctx, m, .value = ++*stashed);
    }
    ext->stashed = MOST - (*stashed == 0);
    tr_err err = tr_stash(ctx, m);
    TR_ASSERT(ctx, ext->stashed == MOST);
    ext->stashed = err == TR_OK;  // as it is
    if (err != TR_OK) {
        return tr_refuse(ctx, m, err, "full");  // it is still this turn's
    }
    tr_unstash_all(ctx);
    return TR_OK;
}

static void test_pa3_a_stash_has_its_limit(void **state)
{
    stage it;
    Acted done;
    uint32_t stashed = 0;
    (void)state;
    stage_open(&it);
    // The last that has room comes back, and the one after it is refused.
    expect_ok(tr_ask(it.sys, it.one, &done, TR_SECONDS(5), Act,
                     .fn = (uint64_t)(uintptr_t)act_stash_at_limit,
                     .arg = (uint64_t)(uintptr_t)&stashed));
    assert_int_equal(done.value, 1);
    expect_err(stage_ask(&it, it.two, act_stash_at_limit, &stashed), TR_ELIMIT);
    assert_int_equal(stashed, 1);
    expect_ok(stage_ask(&it, it.two, act_nothing, NULL));
    stage_close(&it);
}

static void test_pa3_stash_and_become(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = tr_spawn(it.sys, doors, TR_INIT(doors, .stage = &it));
    for (int i = 1; i <= 3; i++) {
        tr_tell(it.sys, ref, Note, .value = i);
    }
    tr_tell(it.sys, ref, Note, .value = 0);
    tr_tell(it.sys, ref, Note, .value = 4);
    stage_settle(&it);
    expect_notes(&it, 1, 2, 3, 4);
    stage_close(&it);
}

/* ---- futures ---- */

static tr_err act_futures(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_future futures[3];
    tr_ref to[] = {self->stage->two, self->stage->three, self->stage->two};
    Acted out;
    size_t index;
    (void)arg;
    for (int i = 0; i < 3; i++) {
        futures[i] = tr_async(ctx, to[i], i == 2 ? TR_SECONDS(1) : 0, Act,
                              .fn = (uint64_t)(uintptr_t)act_sleep,
                              .arg = (uint64_t)TR_SECONDS(3 - i));
    }
    TR_TRY(tr_await_any(ctx, futures, 3, &index));
    TR_ASSERT(ctx, index == 2);  // it timed out first
    TR_ASSERT(ctx, tr_await(ctx, futures[2], Act, &out) == TR_ETIMEDOUT);
    TR_ASSERT(ctx, tr_await(ctx, futures[2], Act, &out) == TR_EINVAL);
    TR_TRY(tr_await_any(ctx, futures, 2, &index));
    TR_ASSERT(ctx, index == 1);
    TR_TRY(tr_await(ctx, futures[1], Act, &out));
    TR_ASSERT(ctx, out.value == 2);
    TR_TRY(tr_await(ctx, futures[0], Act, &out));
    TR_ASSERT(ctx, tr_await_any(ctx, futures, 0, &index) == TR_EINVAL);
    return tr_reply(ctx, m, .value = 1);
}

static void test_futures_end_in_their_own_order(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_futures, NULL));
    stage_close(&it);
}

/* ---- what an error says ---- */

static tr_err act_ask_and_tell(tr_ctx *ctx, puppet *self, const Act *m,
                               void *arg)
{
    (void)m;
    tr_err err = act_ask(ctx, self->stage->two, act_sleep,
                         (uintptr_t)TR_SECONDS(9), TR_SECONDS(1));
    snprintf(arg, STAGE_TEXT, "%s", tr_error_text(ctx));
    return err;
}

static void expect_said(const char *text, const char *const *parts)
{
    for (; *parts != NULL; parts++) {
        if (strstr(text, *parts) == NULL) {
            fail_msg("\"%s\" does not say \"%s\"", text, *parts);
        }
    }
}

static void test_an_error_names_target_type_state_depth_and_site(void **state)
{
    static const char *const parts[] = {"Act",      "/user/two",   "RUNNING",
                                        "3 queued", "ask_test.c:", "timed out",
                                        NULL};
    stage it;
    char text[STAGE_TEXT] = "";
    (void)state;
    stage_open(&it);
    stage_tell(&it, it.two, act_sleep, (void *)TR_SECONDS(20));
    stage_settle(&it);
    stage_tell(&it, it.one, act_ask_and_tell, text);
    stage_settle(&it);
    tr_tell(it.sys, it.two, Note, .value = 1);
    tr_tell(it.sys, it.two, Note, .value = 1);
    stage_pass(&it, TR_SECONDS(2));
    expect_said(text, parts);
    static const char *const outside[] = {
        "Act",         "/user/two", "RUNNING", "4 queued",
        "ask_test.c:", "timed out", NULL};
    expect_err(tr_ask(it.sys, it.two, NULL, TR_SECONDS(1), Act), TR_ETIMEDOUT);
    expect_said(tr_error_text(it.sys), outside);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_payloads_arrive_whole_at_every_size),
        cmocka_unit_test(test_t03_t05_the_receiver_knows_the_sender),
        cmocka_unit_test(test_t06_t07_t10_a_request_is_answered_once),
        cmocka_unit_test(test_t08_every_way_not_to_be_answered),
        cmocka_unit_test(test_t12_mail_for_the_dead_is_a_dead_letter),
        cmocka_unit_test(test_t19_x42_an_outside_asker_is_under_temp),
        cmocka_unit_test(test_a_kept_request_is_answered_later),
        cmocka_unit_test(test_a_message_is_in_one_place),
        cmocka_unit_test(test_t04_a_forwarded_request_keeps_its_time),
        cmocka_unit_test(test_pa3_stash_and_become),
        cmocka_unit_test(test_pa3_a_stash_has_its_limit),
        cmocka_unit_test(test_futures_end_in_their_own_order),
        cmocka_unit_test(test_an_error_names_target_type_state_depth_and_site),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
