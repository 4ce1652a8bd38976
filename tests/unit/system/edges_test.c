/*
 * edges_test.c - calls that nobody should make, and memory that is not there.
 *
 * Refs that point nowhere, refs of another system, numbers out of range,
 * futures of other turns, expectations that are not met: each has a defined
 * answer and harms nobody. Then the scenario of nomem_test.c again with the
 * parts it leaves out: routers, topics, descriptors, joins, stores.
 */
#include "support/stage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/runtime.h"
#include "support/dying.h"

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
    tr_ref redirected = stage_spawn(it, .drain = TR_DRAIN_REDIRECT,
                                    .drain_to = bad);
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
    snprintf(self->seen->again, sizeof(self->seen->again), "%s",
             tr_name(ctx));
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
    tr_ref ref = stage_spawn(&it, .heap_limit = 1000,
                             .supervision = TR_SUPERVISE(
                                 .on_failure = TR_RESUME));
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
    (type *)&(struct { type options; uint64_t more; }) {                       \
        {.size = sizeof(type) + sizeof(uint64_t)}, 1                           \
    }

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
    assert_int_not_equal(tr_ref_err(tr_lookup(it.sys, "/user/one/two")),
                         TR_OK);
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
                                          "characters"), TR_EINVAL);
    expect_err(tr_dispatcher_add(it->sys, "blocking"), TR_EEXIST);
    expect_ok(tr_dispatcher_add(it->sys, "one",
                                .kind = TR_DISPATCH_CONCURRENT,
                                .threads = 9));
    expect_err(tr_dispatcher_add(it->sys, "one"), TR_EEXIST);
    expect_ok(tr_dispatcher_add(it->sys, "two"));
    expect_ok(tr_ref_err(stage_spawn(it, .dispatcher = "two")));
    expect_ok(tr_ref_err(stage_spawn(it, .dispatcher = "pinned")));
    expect_err(tr_ref_err(stage_spawn(it, .dispatcher = "no-such")),
               TR_ENOENT);
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
    tr_ref r = tr_router(it->sys, parcels, .count = 5, .field = field,
                         .routing = TR_HASH_OF_FIELD,
                         .worker = TR_OPTIONS(tr_spawn_options,
                                              .supervision = TR_SUPERVISE(
                                                  .max_restarts = 9)));
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

/* ---- expectations that are not met end the process ---- */

static void fails_with(void (*fn)(stage *it), const char *text)
{
    int pipes[2];
    char out[4096] = "";
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stage it;
        dying_child();
        dup2(pipes[1], STDERR_FILENO);
        stage_open(&it);
        fn(&it);
        _exit(0);
    }
    close(pipes[1]);
    size_t used = 0;
    for (ssize_t n; (n = read(pipes[0], out + used,
                              sizeof(out) - 1 - used)) > 0;) {
        used += (size_t)n;
    }
    close(pipes[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    if (strstr(out, text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, out);
    }
}

static void expect_in_vain(stage *it)
{
    (void)tr_expect(it->probe, TR_SECONDS(1), Note);
}

static void expect_another(stage *it)
{
    tr_tell(it->sys, tr_probe_ref(it->probe), Stranger, .value = 1);
    (void)tr_expect(it->probe, TR_SECONDS(1), Note);
}

static void expect_any_in_vain(stage *it)
{
    (void)tr_expect_any(it->probe, TR_SECONDS(1));
}

static void expect_silence(stage *it)
{
    tr_tell(it->sys, tr_probe_ref(it->probe), Stranger, .value = 1);
    tr_expect_nothing(it->probe, TR_SECONDS(1));
}

static void test_expectations_say_what_came_instead(void **state)
{
    (void)state;
    fails_with(expect_in_vain, "expected Note, got nothing in time");
    fails_with(expect_another, "expected Note, got Stranger");
    fails_with(expect_any_in_vain, "expected a message, got nothing in time");
    fails_with(expect_silence, "expected nothing, got Stranger");
}

/* A probe that is asked and says nothing answers when it goes on. */
static tr_err act_ask_probe(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_err *out = arg;
    (void)m;
    *out = act_ask(ctx, self->peer, act_nothing, NULL, TR_SECONDS(100));
    return TR_OK;
}

static void test_a_probe_may_be_asked(void **state)
{
    stage it;
    tr_err err = TR_OK;
    (void)state;
    stage_open(&it);
    tr_ref to = tr_probe_ref(it.probe);
    expect_ok(stage_ask(&it, it.one, act_meet, &to));
    stage_tell(&it, it.one, act_ask_probe, &err);
    (void)tr_expect(it.probe, TR_SECONDS(1), Act);
    tr_expect_nothing(it.probe, TR_SECONDS(1));
    stage_settle(&it);
    expect_err(err, TR_ENOREPLY);
    stage_close(&it);
}

typedef struct vigil {
    tr_ref ref;
    tr_err joined;
    tr_result result;
} vigil;

static tr_err act_wait_for_probe(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    vigil *v = arg;
    (void)self;
    (void)m;
    tr_watch(ctx, v->ref);
    v->joined = tr_join(ctx, v->ref, TR_SECONDS(100), &v->result, NULL);
    return TR_OK;
}

/* A probe is somebody whose end can be waited for; poison does not hurt. */
static void test_DW21_K20_a_probe_may_be_watched_and_joined(void **state)
{
    (void)state;
    for (int reads = 0; reads < 2; reads++) {  // what comes, or is left there
        stage it;
        tr_probe *probe;
        vigil v = {.joined = TR_EUSER};
        stage_open(&it);
        expect_ok(tr_probe_new(&probe, it.sys));
        v.ref = tr_probe_ref(probe);
        stage_tell(&it, it.one, act_wait_for_probe, &v);
        tr_poison(it.sys, v.ref);
        stage_settle(&it);
        if (reads) {
            tr_expect_nothing(probe, TR_SECONDS(1));
        }
        expect_err(v.joined, TR_EUSER);  // it waits
        tr_probe_free(probe);
        stage_settle(&it);
        expect_ok(v.joined);
        assert_int_equal(v.result.reason, TR_STOPPED);
        expect_notes(&it, 1000 + TR_STOPPED);
        stage_close(&it);
    }
}

static tr_err act_wait_for_asker(tr_ctx *ctx, puppet *self, const Act *m,
                                 void *arg)
{
    vigil *v = arg;
    v->ref = tr_sender(ctx);
    return act_wait_for_probe(ctx, self, m, arg);
}

/* So is a thread that asks, until it has its answer or waits no longer. */
static void test_DW21_T19_a_thread_that_asks_may_be_joined(void **state)
{
    stage it;
    vigil v = {.joined = TR_EUSER};
    (void)state;
    stage_open(&it);
    expect_err(stage_ask_for(&it, it.one, act_wait_for_asker, &v,
                             TR_SECONDS(5)), TR_ETIMEDOUT);
    stage_settle(&it);
    expect_ok(v.joined);
    assert_int_equal(v.result.reason, TR_STOPPED);
    expect_notes(&it, 1000 + TR_STOPPED);
    stage_close(&it);
}

/* All that can be sent to whoever asks, before the answer. */
static tr_err act_noise(tr_ctx *ctx, puppet *self, const Act *m, void *arg)
{
    tr_ref asker = tr_sender(ctx), gone = *(tr_ref *)arg;
    (void)self;
    tr_tell(ctx, asker, Acted, .value = 1);
    tr_poison(ctx, asker);
    tr_watch_for(ctx, asker, gone);
    tr_watch(ctx, asker);
    tr_unwatch(ctx, asker);
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    return tr_reply(ctx, m, .value = 2);
}

static void test_T6_T19_only_a_reply_answers_a_thread(void **state)
{
    stage it;
    Acted done;
    (void)state;
    stage_open(&it);
    tr_ref gone = it.three;
    tr_kill(it.sys, gone);
    stage_settle(&it);
    expect_ok(tr_ask(it.sys, it.one, &done, TR_SECONDS(5), Act,
                     .fn = (uint64_t)(uintptr_t)act_noise,
                     .arg = (uint64_t)(uintptr_t)&gone));
    assert_int_equal(done.value, 2);
    assert_int_equal(stage_dead(&it, TR_DEAD_DRAINED), 1);  // what was told
    stage_settle(&it);
    assert_int_equal(atomic_load(&it.note_count), 0);
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

/* ---- out of memory, the other half ---- */

TR_STATE(Kept, (int64_t, value), (const char *, text));
TR_REQUEST(Keep, tr_none, (int64_t, value));

static tr_err on_keep(tr_ctx *ctx, Kept *self, const Keep *m)
{
    Kept next = {.value = m->value, .text = "kept"};
    TR_OR_REFUSE(ctx, m, tr_persist(ctx, self, &next));
    return tr_reply(ctx, m);
}

TR_ACTOR(keepers, Kept, TR_ON(Keep, on_keep));

static tr_err nothing_blocking(void *arg)
{
    (void)arg;
    return TR_OK;
}

static tr_err then_nothing(tr_ctx *ctx, void *self, const void *reply,
                           tr_err err)
{
    (void)ctx;
    (void)self;
    (void)reply;
    (void)err;
    return TR_OK;
}

static void close_nothing(void *object)
{
    (void)object;
}

static tr_err act_other_half(tr_ctx *ctx, puppet *self, const Act *m,
                             void *arg)
{
    stage *it = self->stage;
    (void)arg;
    if (tr_ref_eq(tr_self(ctx), it->three)) {
        return tr_reply(ctx, m, .value = 1);
    }
    tr_on_end(ctx, close_nothing, NULL);
    (void)tr_scratch(ctx, 5000);
    if (tr_topic_join(ctx, "news") == TR_OK) {
        tr_topic_publish(ctx, "news", Note, .value = 1);
        tr_topic_leave(ctx, "news");
    }
    (void)!tr_blocking(ctx, nothing_blocking, NULL);
    tr_ask_then(ctx, it->two, 0, then_nothing, Act,
                .fn = (uint64_t)(uintptr_t)act_nothing);
    tr_ref child = tr_spawn(ctx, puppets, TR_INIT(puppets, .stage = it));
    tr_watch_in_order(ctx, child);
    (void)!tr_started(ctx, child, TR_SECONDS(1));
    tr_stop(ctx, child);
    tr_result result;
    (void)!tr_join(ctx, child, TR_SECONDS(5), &result, NULL);
    tr_tell(ctx, it->three, Stranger, .value = 1);
    tr_become(ctx, self, puppets);
    (void)!tr_on_terminate(ctx);
    tr_forward(ctx, it->three, m);
    return TR_OK;
}

static void other_half(stage *it, tr_storage *store)
{
    tr_probe *probe;
    tr_ref r = tr_router(it->sys, parcels, .name = "router", .count = 3,
                         .routing = TR_BROADCAST);
    tr_tell(it->sys, r, Parcel, .text = "a", .back = it->two);
    tr_tell(it->sys, r, tr_resize, .count = 10);
    if (tr_probe_new(&probe, it->sys) == TR_OK) {
        tr_probe_free(probe);  // its own calls end the process instead
    }
    (void)!tr_dispatcher_add(it->sys, "more", .threads = 2);
    tr_ref top = stage_spawn(it, .dispatcher = "pinned");
    (void)!tr_top_level(it->sys, "top", top);
    (void)!tr_on_event(it->sys, tr_unhandled, NULL, NULL);
    tr_ref keeper = tr_spawn(it->sys, keepers, .name = "keeper",
                             .storage = store, .joinable = true,
                             .supervision = TR_SUPERVISE(.max_restarts = 9));
    (void)!stage_ask_for(it, it->one, act_other_half, NULL, TR_SECONDS(20));
    (void)!tr_ask(it->sys, keeper, NULL, TR_SECONDS(5), Keep, .value = 5);
    tr_tell_urgent(it->sys, it->two, 4, Note, .value = 1);
    stage_pass(it, TR_SECONDS(2));
    tr_stop(it->sys, keeper);
    stage_pass(it, TR_SECONDS(1));
    Kept last = {0};
    if (tr_join(it->sys, keeper, TR_SECONDS(1), NULL, &last) == TR_OK) {
        tr_drop(Kept, &last);
    }
    tr_stop(it->sys, r);
    stage_pass(it, TR_SECONDS(2));
}

static void test_rule_27_the_nth_allocation_fails_elsewhere(void **state)
{
    enum { ALL = 5000 };
    int64_t n = 0;
    bool reached = TRI_FAULTS;
    (void)state;
    for (; reached; n++) {
        stage it;
        tr_storage *store;
        expect_ok(tr_storage_memory(&store));
        stage_open(&it);
        tri_mem_fail_after(&it.sys->mem, n);
        other_half(&it, store);
        // Relaxed: one thread.
        reached = atomic_load_explicit(&it.sys->mem.fail_at,
                                       memory_order_relaxed) < 0;
        tri_mem_fail_after(&it.sys->mem, -1);
        stage_close(&it);
        tr_storage_close(store);
        assert_true(n < ALL);
    }
    assert_true(!TRI_FAULTS || n > 50);
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
        cmocka_unit_test(test_expectations_say_what_came_instead),
        cmocka_unit_test(test_a_probe_may_be_asked),
        cmocka_unit_test(test_DW21_K20_a_probe_may_be_watched_and_joined),
        cmocka_unit_test(test_DW21_T19_a_thread_that_asks_may_be_joined),
        cmocka_unit_test(test_T6_T19_only_a_reply_answers_a_thread),
        cmocka_unit_test(test_PA_topics_at_their_edges),
        cmocka_unit_test(test_DW2_DW22_virtual_actors_are_unwatched),
        cmocka_unit_test(test_rule_27_the_nth_allocation_fails_elsewhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
