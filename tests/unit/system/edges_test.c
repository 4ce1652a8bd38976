/*
 * edges_test.c - calls that nobody should make.
 *
 * Refs that point nowhere, refs of another system, numbers out of range,
 * futures of other turns: each has a defined answer and harms nobody.
 */
#include "support/stage.h"

#include <stdio.h>
#include <string.h>

#include "core/runtime.h"

/* ---- refs ---- */

static tr_err act_misuse_refs(tr_ctx *ctx, puppet *self, const Act *m,
                              void *arg)
{
    const tr_ref *bad = arg;
    (void)self;
    tr_tell(ctx, *bad, Note, .value = 1);
    tr_tell_urgent(ctx, *bad, 3, Note, .value = 1);
    tr_stop(ctx, *bad);
    tr_poison(ctx, *bad);
    tr_kill(ctx, *bad);
    tr_watch(ctx, *bad);
    tr_unwatch(ctx, *bad);
    tr_watch_in_order(ctx, *bad);
    tr_handle_drop(ctx, tr_handle_hold(ctx, *bad).ref);
    TR_ASSERT(ctx, tr_join(ctx, *bad, TR_MS(1), NULL, NULL) != TR_OK);
    TR_ASSERT(ctx, tr_started(ctx, *bad, TR_MS(1)) != TR_OK);
    TR_ASSERT(ctx, act_ask(ctx, *bad, act_nothing, NULL, TR_MS(1)) != TR_OK);
    TR_ASSERT(ctx, tr_state_of(ctx, *bad) == TR_STATE_TERMINATED);
    tr_forward(ctx, *bad, m);
    return TR_OK;
}

static void misuse_refs(stage *it, tr_ref bad)
{
    char path[TR_PATH_SIZE];
    tr_actor_info info = {.size = sizeof(info)};
    assert_int_not_equal(stage_ask(it, it->one, act_misuse_refs, &bad), TR_OK);
    tr_tell(it->sys, bad, Note, .value = 1);
    tr_tell_urgent(it->sys, bad, 3, Note, .value = 1);
    assert_int_not_equal(tr_try_tell(it->sys, bad, Note), TR_OK);
    assert_int_not_equal(tr_join(it->sys, bad, TR_MS(1), NULL, NULL), TR_OK);
    assert_int_not_equal(tr_started(it->sys, bad, TR_MS(1)), TR_OK);
    assert_int_not_equal(tr_actor_info_of(it->sys, bad, &info), TR_OK);
    assert_int_equal(tr_state_of(it->sys, bad), TR_STATE_TERMINATED);
    assert_int_equal(tr_state_of(it->probe, bad), TR_STATE_TERMINATED);
    assert_non_null(tr_ref_path(it->probe, bad, path, sizeof(path)));
    tr_stop(it->sys, bad);
    tr_kill(it->probe, bad);
    tr_poison(it->sys, bad);
    tr_watch_for(it->sys, bad, it->one);
    tr_watch_for(it->sys, it->two, bad);
    tr_handle_drop(it->sys, tr_handle_hold(it->sys, bad).ref);
    tr_probe_watch(it->probe, bad);
    assert_int_equal(tr_expect(it->probe, TR_SECONDS(5), tr_terminated)->reason,
                     TR_NO_SUCH_ACTOR);
    tr_ref redirected =
        stage_spawn(it, .drain = TR_DRAIN_REDIRECT, .drain_to = bad);
    tr_tell(it->sys, redirected, Note, .value = 1);
    tr_kill(it->sys, redirected);
    stage_settle(it);
}

static void test_rule_31_refs_that_lead_nowhere_do_no_harm(void **state)
{
    stage it, other;
    (void)state;
    stage_open(&it);
    stage_open_seed(&other, 2, NULL);
    tr_ref gone = it.three;
    tr_kill(it.sys, gone);
    stage_settle(&it);
    const tr_ref bad[] = {
        TR_NOBODY,
        {0, TR_EEXIST},  // of a spawn that failed
        other.one,
        gone,
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        misuse_refs(&it, bad[i]);
    }
    assert_int_equal(tr_state_of(it.sys, it.one), TR_STATE_RUNNING);
    assert_int_equal(tr_state_of(it.sys, it.two), TR_STATE_RUNNING);
    expect_ok(stage_ask(&other, other.one, act_nothing, NULL));
    // Equal: the same actor, or nobody twice, whatever the reason.
    assert_true(tr_ref_eq(bad[0], bad[1]));
    assert_true(tr_ref_eq(it.one, it.one));
    assert_false(tr_ref_eq(it.one, it.two));
    tr_ref older = it.one;
    older.id++;
    assert_false(tr_ref_eq(it.one, older));
    stage_close(&other);
    stage_close(&it);
}

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
    stage_settle(&it);
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

/* ---- options out of range ---- */

/* Options of a newer caller, with a field that means something. */
#define NEWER(type)                                                            \
    (type *)&(struct {                                                         \
        type options;                                                          \
        uint64_t more;                                                         \
    }){{.size = sizeof(type) + sizeof(uint64_t)}, 1}

static void test_options_out_of_range_are_refused(void **state)
{
    stage it;
    tr_system *sys;
    char none[1];
    tr_ref ref;
    (void)state;
    expect_err((tr_system_open)(&sys, NEWER(tr_system_options)), TR_EINVAL);
    stage_open(&it);
    ref = (tr_router)((tr_from){.sys = it.sys}, NULL, NULL);
    expect_err(tr_ref_err(ref), TR_EINVAL);
    ref = (tr_router)((tr_from){.sys = it.sys}, &puppets,
                      NEWER(tr_router_options));
    expect_err(tr_ref_err(ref), TR_EINVAL);
    ref = tr_router(it.sys, puppets, .routing = 99);
    expect_err(tr_ref_err(ref), TR_EINVAL);
    ref = tr_router(it.sys, puppets, .count = UINT32_MAX);
    expect_err(tr_ref_err(ref), TR_EINVAL);
    ref = tr_router(it.sys, puppets, .worker = NEWER(tr_spawn_options));
    expect_err(tr_ref_err(ref), TR_EINVAL);
    expect_err(tr_top_level(it.sys, NULL, it.one), TR_EINVAL);
    expect_err(tr_top_level(it.sys, "user", it.one), TR_EINVAL);
    expect_err(tr_top_level(it.sys, "extra", TR_NOBODY), TR_EINVAL);
    assert_int_not_equal(tr_ref_err(tr_lookup(it.sys, NULL)), TR_OK);
    assert_int_not_equal(tr_ref_err(tr_lookup(it.sys, "/user/one/two")), TR_OK);
    assert_int_not_equal(tr_ref_err(tr_lookup(it.sys, "/user/$999")), TR_OK);
    assert_int_equal(tr_tree(it.sys, NULL, 0),
                     tr_tree(it.sys, none, sizeof(none)));
    assert_int_equal(tr_metrics_text(it.sys, NULL, 0),
                     tr_metrics_text(it.sys, none, sizeof(none)));
    assert_string_equal(none, "");
    tr_probe_free(NULL);
    stage_close(&it);
}

static void bad_dispatchers(stage *it)
{
    char small[8];
    expect_err((tr_dispatcher_add)(it->sys, "x", NEWER(tr_dispatcher_options)),
               TR_EINVAL);
    expect_err(tr_dispatcher_add(it->sys, "x", .kind = 77), TR_EINVAL);
    expect_err(tr_dispatcher_add(it->sys, "a-name-of-more-than-thirty-one-"
                                          "characters"),
               TR_EINVAL);
    expect_err(tr_dispatcher_add(it->sys, "blocking"), TR_EEXIST);
    expect_ok(tr_dispatcher_add(it->sys, "one", .kind = TR_DISPATCH_CONCURRENT,
                                .threads = 9));
    expect_err(tr_dispatcher_add(it->sys, "one"), TR_EEXIST);
    expect_ok(tr_dispatcher_add(it->sys, "two"));
    expect_ok(tr_ref_err(stage_spawn(it, .dispatcher = "two")));
    expect_ok(tr_ref_err(stage_spawn(it, .dispatcher = "pinned")));
    expect_err(tr_ref_err(stage_spawn(it, .dispatcher = "no-such")), TR_ENOENT);
    for (int i = 0; i < TRI_GROUPS_MAX; i++) {
        snprintf(small, sizeof(small), "d%d", i);
        if (tr_dispatcher_add(it->sys, small) != TR_OK) {
            break;
        }
        assert_true(i < TRI_GROUPS_MAX - 1);  // there is a limit
    }
    expect_err(tr_dispatcher_add(it->sys, "last"), TR_ELIMIT);
    tr_system_terminate(it->sys);
    expect_err(tr_dispatcher_add(it->sys, "late"), TR_ECLOSED);
}

/* The same on threads and where one thread runs everything. */
static void test_DP4_dispatchers_out_of_range_are_refused(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 1};
    (void)state;
    stage_open_real(&it, &options);
    bad_dispatchers(&it);
    stage_close(&it);
    stage_open(&it);
    bad_dispatchers(&it);
    stage_close(&it);
    options.poll = true;
    stage_open_real(&it, &options);
    bad_dispatchers(&it);
    stage_close(&it);
}

/* ---- routers by every kind of field ---- */

TR_MESSAGE(Parcel, (const char *, text), (tr_bytes, bytes), (uint32_t, number),
           (optional, int32_t, zone), (optional, int32_t, none),
           (array, uint32_t, stamps), (tr_ref, back));

static tr_err on_parcel(tr_ctx *ctx, puppet *self, const Parcel *m)
{
    (void)self;
    tr_tell(ctx, m->back, Note, .value = (int64_t)tr_self(ctx).id);
    return TR_OK;
}

TR_ACTOR(parcels, puppet, TR_ON(Parcel, on_parcel));

static void expect_same_worker(stage *it, const char *field)
{
    tr_ref r = tr_router(
        it->sys, parcels, .count = 5, .field = field,
        .routing = TR_HASH_OF_FIELD,
        .worker = TR_OPTIONS(tr_spawn_options,
                             .supervision = TR_SUPERVISE(.max_restarts = 9)));
    int64_t first = 0;
    for (int i = 0; i < 4; i++) {
        tr_tell(it->sys, r, Parcel, .text = i < 2 ? "a" : NULL,
                .bytes = {"xyz", 3}, .number = 77, .zone = {5, true},
                .none = {i, false}, .stamps = {(uint32_t[]){(uint32_t)i}, 1},
                .back = tr_probe_ref(it->probe));
        int64_t id = tr_expect(it->probe, TR_SECONDS(5), Note)->value;
        bool same = i > 0 && (i != 2 || strcmp(field, "text") != 0);
        if (same) {
            assert_int_equal(id, first);
        }
        first = id;
    }
}

static void test_PA2_any_field_can_be_hashed(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    expect_same_worker(&it, "text");
    expect_same_worker(&it, "bytes");
    expect_same_worker(&it, "number");
    expect_same_worker(&it, "zone");
    expect_same_worker(&it, "none");    // absent is one key, too
    expect_same_worker(&it, "stamps");  // no key: one worker for all
    stage_close(&it);
}

/* ---- topics ---- */

static tr_err act_topics(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    (void)self;
    (void)arg;
    TR_ASSERT(ctx, tr_topic_join(ctx, NULL) == TR_EINVAL);
    TR_ASSERT(ctx, tr_topic_join(ctx, "") == TR_EINVAL);
    TR_ASSERT(ctx, tr_topic_join(ctx, "news") == TR_OK);
    TR_ASSERT(ctx, tr_topic_join(ctx, "news") == TR_OK);  // once is enough
    TR_ASSERT(ctx, tr_topic_join(ctx, "sport") == TR_OK);
    tr_topic_leave(ctx, "weather");
    tr_topic_leave(ctx, "sport");
    tr_topic_leave(ctx, "sport");
    return tr_reply(ctx, m, .value = 1);
}

/* EV: joined twice is joined once; who has left, or never came, is not told. */
static void test_PA_topics_at_their_edges(void **state)
{
    enum { MEMBERS = 100 };
    stage it;
    (void)state;
    stage_open(&it);
    expect_ok(stage_ask(&it, it.one, act_topics, NULL));
    tr_topic_publish(it.sys, "news", Note, .value = 1);
    tr_topic_publish(it.sys, "sport", Note, .value = 2);
    tr_topic_publish(it.sys, "nowhere", Note, .value = 3);
    stage_settle(&it);
    expect_notes(&it, 1);
    for (int i = 0; i < MEMBERS; i++) {
        tr_ref ref = stage_spawn(&it, .soft_limit = 0);
        expect_ok(stage_ask(&it, ref, act_topics, NULL));
    }
    tr_topic_publish(it.sys, "news", Note, .value = 4);
    stage_settle(&it);
    assert_int_equal(atomic_load(&it.note_count), 1 + MEMBERS + 1);
    tr_kill(it.sys, it.one);
    stage_settle(&it);
    tr_topic_publish(it.sys, "news", Note, .value = 5);
    stage_settle(&it);
    assert_int_equal(atomic_load(&it.note_count), 2 * (1 + MEMBERS));
    stage_close(&it);  // the others are members to the end
}

/* ---- watching a virtual actor ---- */

typedef struct Inert {
    int unused;
} Inert;

static tr_err watched_act(tr_ctx *ctx, Inert *self, const Act *m)
{
    (void)self;
    return tr_reply(ctx, m, .value = 1);
}

TR_ACTOR(inert, Inert, TR_ON(Act, watched_act));

static tr_err act_watch_and_not(tr_ctx *ctx, puppet *self, const Act *m,
                                void *arg)
{
    const tr_ref *ref = arg;
    (void)self;
    tr_watch(ctx, *ref);
    tr_unwatch(ctx, *ref);
    tr_watch_in_order(ctx, *ref);
    return tr_reply(ctx, m, .value = 1);
}

/* DW2, DW22: a watch that was taken back is gone in each of its lives. */
static void test_DW2_DW22_virtual_actors_are_unwatched(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .ns = "test"};
    (void)state;
    stage_open_seed(&it, 1, &options);
    expect_ok(tr_host(it.sys, inert, .idle = TR_SECONDS(1)));
    tr_ref ref = tr_virtual(it.sys, "inert", "a");
    for (int life = 1; life <= 3; life++) {
        expect_ok(stage_ask(&it, ref, act_nothing, NULL));
        expect_ok(stage_ask(&it, it.one, act_watch_and_not, &ref));
        expect_ok(stage_ask(&it, it.two, act_watch_and_not, &ref));
        stage_pass(&it, TR_SECONDS(10));
        assert_int_equal(atomic_load(&it.note_count), 2 * life);
    }
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rule_31_refs_that_lead_nowhere_do_no_harm),
        cmocka_unit_test(test_futures_of_other_turns_are_refused),
        cmocka_unit_test(test_a_message_is_given_away_once),
        cmocka_unit_test(test_C7_hooks_and_timers_have_no_sender),
        cmocka_unit_test(test_a_heap_has_its_limit),
        cmocka_unit_test(test_options_out_of_range_are_refused),
        cmocka_unit_test(test_DP4_dispatchers_out_of_range_are_refused),
        cmocka_unit_test(test_PA2_any_field_can_be_hashed),
        cmocka_unit_test(test_PA_topics_at_their_edges),
        cmocka_unit_test(test_DW2_DW22_virtual_actors_are_unwatched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
