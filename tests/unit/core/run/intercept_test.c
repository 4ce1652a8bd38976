/*
 * intercept_test.c - code around handlers, and the context that a call carries
 * along.
 */
#include "support/fixture.h"

#include <stdatomic.h>

#include "support/core.h"

/* ---- interceptors ---- */

TR_MESSAGE(Seen, (int64_t, number), (uint64_t, trace), (uint64_t, span),
           (const char *, text));
TR_REQUEST(Look, Seen, (tr_ref, next), (int64_t, how));
TR_MESSAGE(Odd, (int64_t, number));
TR_MESSAGE(Switch);

typedef struct Walker {
    tr_ref probe;
    int64_t count;
} Walker;

static uint64_t trace_of(tr_ctx *ctx)
{
    const tr_context *c = tr_context_of(ctx);
    return c != NULL ? c->trace[0] : 0;
}

static void tell_seen(tr_ctx *ctx, tr_ref to, int64_t number, const char *text)
{
    const tr_context *c = tr_context_of(ctx);
    tr_tell(ctx, to, Seen, .number = number, .trace = trace_of(ctx),
            .span = c != NULL ? c->span : 0, .text = text);
}

static const Seen *seen(stage *s)
{
    return tr_expect(s->probe, patience(s), Seen);
}

typedef struct Gate {
    tr_ref probe;
    const char *name;
    bool closed, twice;
    tr_err instead;
    _Atomic(int32_t) inside;
} Gate;

static tr_err around(tr_ctx *ctx, const tr_msg *msg, tr_call *call, void *user)
{
    Gate *gate = user;
    tell_seen(
        ctx, gate->probe, 1,
        tr_textf(ctx, "%s before %s", gate->name, tr_msg_type(msg)->name));
    if (gate->closed) {
        return tr_refuse(ctx, msg, TR_EUSER + 1, "%s is closed", gate->name);
    }
    tr_err err = tr_proceed(call);
    if (gate->twice) {
        TR_ASSERT(ctx, tr_proceed(call) == TR_EINVAL);
    }
    tell_seen(ctx, gate->probe, err, tr_textf(ctx, "%s after", gate->name));
    return gate->instead != TR_OK ? gate->instead : err;
}

static tr_err on_look(tr_ctx *ctx, Walker *self, const Look *m)
{
    self->count++;
    tell_seen(ctx, self->probe, self->count, "look");
    if (m->how == 1) {
        return tr_fail(ctx, TR_EUSER, "as told");
    }
    if (m->how == 2) {
        TR_TRY(tr_sleep(ctx, TR_MS(1)));
    }
    return tr_reply(ctx, m, .number = self->count, .trace = trace_of(ctx));
}

static tr_err on_any(tr_ctx *ctx, Walker *self, const tr_msg *m)
{
    tell_seen(ctx, self->probe, 7, tr_msg_type(m)->name);
    return TR_OK;
}

TR_ACTOR_FORWARD(other, Walker);

static tr_err on_switch(tr_ctx *ctx, Walker *self, const Switch *m)
{
    (void)m;
    tr_become(ctx, self, other);
    return TR_OK;
}

TR_ACTOR(walker, Walker, TR_ON(Look, on_look), TR_ON(Switch, on_switch),
         TR_ON_ANY(on_any));
TR_ACTOR(other, Walker, TR_ON_ANY(on_any));

static void saw(stage *s, const char *text)
{
    assert_string_equal(seen(s)->text, text);
}

static tr_ref spawn_walker(stage *s, const tr_interceptor *const *list)
{
    return tr_spawn(s->sys, walker, TR_INIT(walker, .probe = s->to),
                    .interceptors = list,
                    .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
}

static void in_order(stage *s)
{
    Gate a = {.probe = s->to, .name = "a", .twice = true};
    Gate b = {.probe = s->to, .name = "b"};
    const tr_interceptor first = {"a", around, &a}, second = {"b", around, &b};
    const tr_interceptor *const both[] = {&first, &second, NULL};
    tr_ref ref = spawn_walker(s, both);
    Seen out;
    assert_int_equal(tr_ask(s->sys, ref, &out, patience(s), Look, .how = 2),
                     TR_OK);
    assert_int_equal(out.number, 1);
    tr_drop(Seen, &out);
    saw(s, "a before Look");
    saw(s, "b before Look");
    saw(s, "look");
    saw(s, "b after");
    saw(s, "a after");
    // Also around TR_ON_ANY, and after tr_become.
    tr_tell(s->sys, ref, Odd);
    saw(s, "a before Odd");
    saw(s, "b before Odd");
    saw(s, "Odd");
    saw(s, "b after");
    saw(s, "a after");
    tr_tell(s->sys, ref, Switch);
    tr_tell(s->sys, ref, Look);
    for (int i = 0; i < 4; i++) {
        (void)seen(s);
    }
    saw(s, "a before Look");
    saw(s, "b before Look");
    saw(s, "Look");
    saw(s, "b after");
    saw(s, "a after");
    tr_ref bare = spawn_walker(s, NULL);
    tr_tell(s->sys, bare, Odd);
    saw(s, "Odd");
    // The lists are on this stack.
    watch_end(s, ref);
    tr_stop(s->sys, ref);
    (void)ended(s, ref);
}

static void test_interceptors_run_around_every_handler(void **state)
{
    (void)state;
    everywhere(in_order);
}

static void refusing(stage *s)
{
    Gate a = {.probe = s->to, .name = "a", .closed = true};
    Gate b = {.probe = s->to, .name = "b", .instead = TR_EIO};
    const tr_interceptor shut = {"a", around, &a}, bad = {"b", around, &b};
    const tr_interceptor *const closed[] = {&shut, NULL};
    const tr_interceptor *const failing[] = {&bad, NULL};
    tr_ref ref = spawn_walker(s, closed);
    // The handler does not run, the asker gets the text, nobody fails.
    assert_int_equal(tr_ask(s->sys, ref, NULL, patience(s), Look),
                     TR_EUSER + 1);
    assert_non_null(strstr(tr_error_text(s->sys), "a is closed"));
    saw(s, "a before Look");
    tr_ref worse = spawn_walker(s, failing);
    assert_int_equal(tr_ask(s->sys, worse, NULL, patience(s), Look, .how = 1),
                     TR_EIO);
    saw(s, "b before Look");
    saw(s, "look");
    // "b after" sees the error of the handler.
    assert_int_equal(seen(s)->number, TR_EUSER);
    tr_ref refs[] = {ref, worse};
    for (int i = 0; i < 2; i++) {
        watch_end(s, refs[i]);
        tr_stop(s->sys, refs[i]);
        (void)ended(s, refs[i]);
    }
    tr_metrics_snapshot m = {.size = sizeof(m)};
    tr_metrics(s->sys, &m);
    assert_int_equal(m.failures, 1);
}

static void test_an_interceptor_refuses_or_fails_a_call(void **state)
{
    (void)state;
    everywhere(refusing);
}

static tr_err count_calls(tr_ctx *ctx, const tr_msg *msg, tr_call *call,
                          void *user)
{
    (void)ctx;
    (void)msg;
    atomic_fetch_add((_Atomic(uint64_t) *)user, 1);
    return tr_proceed(call);
}

static void test_the_system_has_interceptors_of_its_own(void **state)
{
    _Atomic(uint64_t) calls = 0;
    const tr_interceptor counter = {"count", count_calls, &calls};
    const tr_interceptor *const list[] = {&counter, NULL};
    static stage s;
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        tr_system_options o = {
            .size = sizeof(o), .workers = 2, .interceptors = list};
        atomic_store(&calls, 0);
        stage_open(&s, seed, &o);
        Gate a = {.probe = s.to, .name = "a"};
        const tr_interceptor own = {"a", around, &a};
        const tr_interceptor *const mine[] = {&own, NULL};
        tr_ref ref = spawn_walker(&s, mine), plain = spawn_walker(&s, NULL);
        tr_tell(s.sys, ref, Odd);
        saw(&s, "a before Odd");
        saw(&s, "Odd");
        saw(&s, "a after");
        tr_tell(s.sys, plain, Odd);
        saw(&s, "Odd");
        assert_int_equal(atomic_load(&calls), 2);
        stage_close(&s);
    }
}

/* The wrapped behaviour of a list of interceptors is made once. */
static void test_PA_actors_share_the_wrapped_behaviour_of_a_list(void **state)
{
    static stage s;
    _Atomic(uint64_t) calls = 0, more = 0;
    const tr_interceptor first = {"first", count_calls, &calls};
    const tr_interceptor second = {"second", count_calls, &more};
    const tr_interceptor *const a[] = {&first, NULL};
    const tr_interceptor *const b[] = {&second, NULL};
    (void)state;
    stage_open(&s, 1, NULL);
    tr_ref one = PLAY(&s, "one", (), .interceptors = a);
    tr_ref two = PLAY(&s, "two", (), .interceptors = b);
    tr_ref three = PLAY(&s, "three", (), .interceptors = a);
    (void)gotten(&s, one);
    (void)gotten(&s, two);
    (void)gotten(&s, three);
    assert_int_equal(atomic_load(&calls), 2);
    assert_int_equal(atomic_load(&more), 1);
    assert_ptr_equal(tri_cell_behaviour(tri_ref_cell(one)),
                     tri_cell_behaviour(tri_ref_cell(three)));
    assert_ptr_not_equal(tri_cell_behaviour(tri_ref_cell(one)),
                         tri_cell_behaviour(tri_ref_cell(two)));
    // The lists are on this stack.
    tr_ref refs[] = {one, two, three};
    for (int i = 0; i < 3; i++) {
        tr_stop(s.sys, refs[i]);
        (void)joined(&s, refs[i]);
    }
    stage_close(&s);
}

/* ---- contexts ---- */

TR_MESSAGE(Step, (int64_t, number), (tr_ref, next));

typedef struct Hop {
    tr_ref probe;
    int64_t left;
} Hop;

TR_MESSAGE(Begin, (tr_ref, next), (uint64_t, trace), (int64_t, deadline));
TR_REQUEST(Slow, Seen);

static tr_err on_begin(tr_ctx *ctx, Hop *self, const Begin *m)
{
    tr_context c = {.trace = {m->trace, 1}, .span = 1, .deadline = m->deadline};
    TR_ASSERT(ctx, tr_context_of(ctx) == NULL);
    memcpy(c.baggage, "luggage", 8);
    tell_seen(ctx, self->probe, 0, "bare");
    tr_context_set(ctx, &c);
    tr_tell(ctx, m->next, Step, .number = 3, .next = tr_self(ctx));
    return TR_OK;
}

static tr_err after_ask(tr_ctx *ctx, void *hop, const void *reply, tr_err err)
{
    const Hop *self = hop;
    TR_ASSERT(ctx, err == TR_OK && reply != NULL);
    tell_seen(ctx, self->probe, 5, "then");
    return TR_OK;
}

/* Sends in each possible way, each time with another span. */
static tr_err on_step(tr_ctx *ctx, Hop *self, const Step *m)
{
    const tr_context *now = tr_context_of(ctx);
    TR_ASSERT(ctx, now != NULL &&
                       strcmp((const char *)now->baggage, "luggage") == 0);
    tr_context c = *now;
    c.span++;
    tr_context_set(ctx, &c);
    tell_seen(ctx, self->probe, m->number, "step");
    tr_ref me = tr_self(ctx);
    switch (m->number) {
    case 3:
        TR_ASSERT(ctx, tr_try_tell(ctx, me, Step, .number = 2,
                                   .next = m->next) == TR_OK);
        break;
    case 2:
        tr_tell_urgent(ctx, me, 1, Step, .number = 1, .next = m->next);
        break;
    case 1:
        TR_ASSERT(ctx, tr_sleep(ctx, TR_MS(1)) == TR_OK);
        tr_ask_then(ctx, m->next, TR_MINUTES(5), after_ask, Slow);
        break;
    default:
        break;
    }
    return TR_OK;
}

static tr_err on_slow(tr_ctx *ctx, Hop *self, const Slow *m)
{
    tell_seen(ctx, self->probe, 4, "slow");
    return tr_reply(ctx, m, .trace = trace_of(ctx));
}

static tr_err on_hop_odd(tr_ctx *ctx, Hop *self, const Odd *m)
{
    tell_seen(ctx, self->probe, m->number, "odd");
    return TR_OK;
}

TR_ACTOR(hop, Hop, TR_ON(Begin, on_begin), TR_ON(Step, on_step),
         TR_ON(Slow, on_slow), TR_ON(Odd, on_hop_odd));

static void carried(stage *s)
{
    tr_ref a = tr_spawn(s->sys, hop, TR_INIT(hop, .probe = s->to));
    tr_ref b = tr_spawn(s->sys, hop, TR_INIT(hop, .probe = s->to));
    tr_tell(s->sys, a, Begin, .next = b, .trace = 77);
    assert_int_equal(seen(s)->trace, 0);  // no context yet
    for (int64_t number = 3; number > 0; number--) {
        const Seen *step = seen(s);
        assert_int_equal(step->number, number);
        assert_int_equal(step->trace, 77);
        assert_int_equal(step->span, 5 - number);
    }
    const Seen *asked = seen(s);
    assert_string_equal(asked->text, "slow");
    assert_int_equal(asked->trace, 77);
    assert_int_equal(asked->span, 4);
    const Seen *then = seen(s);
    assert_string_equal(then->text, "then");
    assert_int_equal(then->trace, 77);
    assert_int_equal(then->span, 4);
    // The context ended with its turn.
    tr_tell(s->sys, a, Odd, .number = 9);
    assert_int_equal(seen(s)->trace, 0);
    tr_tell(s->sys, b, Odd, .number = 9);
    assert_int_equal(seen(s)->trace, 0);
}

static void test_a_context_travels_with_every_kind_of_send(void **state)
{
    (void)state;
    everywhere(carried);
}

TR_MESSAGE(Text, (const char *, text), (int64_t, how));
TR_REQUEST(Query, Seen, (const char *, text), (int64_t, how));

typedef struct Post {
    tr_ref probe, next;
    const Query *kept;
} Post;

static tr_err on_text(tr_ctx *ctx, Post *self, const Text *m)
{
    tell_seen(ctx, self->probe, m->how, m->text);
    switch (m->how) {
    case 1:
        return tr_fail(ctx, TR_EUSER, "as told");
    case 2:
        tr_forward(ctx, self->next, m);
        return TR_OK;
    case 3:
        return tr_stash(ctx, m);
    default:
        return TR_OK;
    }
}

static tr_err on_query(tr_ctx *ctx, Post *self, const Query *m)
{
    tell_seen(ctx, self->probe, m->how, m->text);
    switch (m->how) {
    case 1:
        return tr_fail(ctx, TR_EUSER, "as told");
    case 2:
        return tr_refuse(ctx, m, TR_EUSER + 2, "no");
    case 3:
        self->kept = tr_keep(ctx, m);
        tr_forward(ctx, self->next, self->kept);
        return TR_OK;
    case 4:
        return TR_OK;  // no answer
    default:
        return tr_reply(ctx, m, .trace = trace_of(ctx), .text = m->text);
    }
}

TR_ACTOR(post, Post, TR_ON(Text, on_text), TR_ON(Query, on_query));

TR_MESSAGE(Errand, (tr_ref, to), (int64_t, how), (int64_t, deadline),
           (bool, ask));

static tr_err on_errand(tr_ctx *ctx, Post *self, const Errand *m)
{
    tr_context c = {
        .trace = {5, 5}, .span = (uint64_t)m->how, .deadline = m->deadline};
    tr_context_set(ctx, &c);
    if (!m->ask) {
        tr_tell(ctx, m->to, Text, .text = "a text", .how = m->how);
        tr_context_set(ctx, NULL);
        tell_seen(ctx, self->probe, 0, "dropped");
        return TR_OK;
    }
    Seen out;
    tr_err err = tr_ask(ctx, m->to, &out, TR_MINUTES(5), Query,
                        .text = "a query", .how = m->how);
    tell_seen(ctx, self->probe, err, "asked");
    return TR_OK;
}

TR_ACTOR(errands, Post, TR_ON(Errand, on_errand));

static void errand(stage *s, tr_ref who, tr_ref to, int64_t how, bool ask)
{
    tr_tell(s->sys, who, Errand, .to = to, .how = how, .ask = ask);
}

static void saw_with(stage *s, const char *text, int64_t number, uint64_t trace)
{
    const Seen *it = seen(s);
    assert_string_equal(it->text, text);
    assert_int_equal(it->number, number);
    assert_int_equal(it->trace, trace);
}

static void all_ends(stage *s)
{
    tr_ref last = tr_spawn(s->sys, post, TR_INIT(post, .probe = s->to));
    tr_ref a =
        tr_spawn(s->sys, post, TR_INIT(post, .probe = s->to, .next = last),
                 .supervision = TR_SUPERVISE(.on_failure = TR_RESUME));
    tr_ref e = tr_spawn(s->sys, errands, TR_INIT(errands, .probe = s->to));
    tr_ref none = tr_spawn(s->sys, errands, TR_INIT(errands, .probe = s->to));
    const tr_err asked[] = {TR_OK, TR_EUSER, TR_EUSER + 2, TR_OK, TR_ENOREPLY};
    for (int64_t how = 0; how <= 4; how++) {
        errand(s, e, a, how, true);
        saw_with(s, "a query", how, 5);
        if (how == 3) {  // forwarded to `last`, which forwards to nobody
            saw_with(s, "a query", how, 5);
            saw_with(s, "asked", TR_ENOENT, 5);
        } else {
            saw_with(s, "asked", asked[how], 5);
        }
    }
    // An unhandled request leaves no context for the next message.
    errand(s, e, none, 0, true);
    saw_with(s, "asked", TR_EUNHANDLED, 5);
    tr_tell(s->sys, a, Text, .text = "plain");
    saw_with(s, "plain", 0, 0);
    for (int64_t how = 0; how <= 3; how++) {
        errand(s, e, a, how, false);
        // Two actors send these notes: either may be first.
        for (int i = 0; i < (how == 2 ? 3 : 2); i++) {
            const Seen *it = seen(s);
            bool bare = strcmp(it->text, "dropped") == 0;
            assert_int_equal(it->trace, bare ? 0 : 5);
        }
    }
    tr_tell(s->sys, a, Text, .text = "plain");
    saw_with(s, "plain", 0, 0);
    watch_end(s, a);
    tr_stop(s->sys, a);  // with a message in its stash
    (void)ended(s, a);
    errand(s, e, a, 0, true);
    saw_with(s, "asked", TR_EGONE, 5);
}

static void test_a_message_with_a_context_is_freed_on_every_path(void **state)
{
    (void)state;
    everywhere(all_ends);
}

static tr_err on_sleepy(tr_ctx *ctx, Post *self, const Query *m)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_MINUTES(1)));
    return tr_reply(ctx, m, .trace = 1);
}

TR_ACTOR(sleepy, Post, TR_ON(Query, on_sleepy));

static void deadlines(stage *s)
{
    tr_ref e = tr_spawn(s->sys, errands, TR_INIT(errands, .probe = s->to));
    tr_ref a = tr_spawn(s->sys, sleepy, TR_INIT(sleepy, .probe = s->to));
    tr_nanos start = tr_now(s->sys);
    tr_tell(s->sys, e, Errand, .to = a, .ask = true,
            .deadline = start + TR_SECONDS(2));
    saw_with(s, "asked", TR_ETIMEDOUT, 5);
    // The ask alone would have waited for five minutes.
    assert_true(tr_now(s->sys) - start < TR_SECONDS(3));
}

static void test_no_ask_waits_beyond_the_deadline_of_its_context(void **state)
{
    (void)state;
    virtually(deadlines);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interceptors_run_around_every_handler),
        cmocka_unit_test(test_an_interceptor_refuses_or_fails_a_call),
        cmocka_unit_test(test_the_system_has_interceptors_of_its_own),
        cmocka_unit_test(test_PA_actors_share_the_wrapped_behaviour_of_a_list),
        cmocka_unit_test(test_a_context_travels_with_every_kind_of_send),
        cmocka_unit_test(test_a_message_with_a_context_is_freed_on_every_path),
        cmocka_unit_test(test_no_ask_waits_beyond_the_deadline_of_its_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
