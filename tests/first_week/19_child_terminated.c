/*
 * 19_child_terminated.c - a parent hears of the end of each child, with reason
 * and error, without asking.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

enum { SEEDS = 20 };

TR_MESSAGE(Break);
TR_MESSAGE(Sleep);
TR_MESSAGE(Born, (tr_ref, ref));
TR_REQUEST(Bear, Born, (const char *, name), (bool, bad_end), (bool, watch));
TR_MESSAGE(Heard, (const char *, name), (uint32_t, reason), (uint32_t, err),
           (uint32_t, phase), (const char *, text), (uint32_t, incarnation),
           (bool, terminated));

static tr_err on_break(tr_ctx *ctx, void *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER + 5, "out of paper");
}

static tr_err bad_end(tr_ctx *ctx, void *self, tr_reason reason)
{
    (void)self, (void)reason;
    return tr_fail(ctx, TR_EUSER + 6, "jammed");
}

TR_ACTOR(printer, void, TR_ON(Break, on_break));
TR_ACTOR(bad_printer, void, TR_ON(Break, on_break),
         TR_HOOK(post_stop, bad_end));

typedef struct Office {
    tr_ref probe;
    bool panics;  // in its hook, once
} Office;

static tr_err on_bear(tr_ctx *ctx, Office *self, const Bear *m)
{
    (void)self;
    tr_spawn_options options = {.size = sizeof(options),
                                .name = m->name,
                                .watch = m->watch,
                                .supervision =
                                    TR_SUPERVISE(.on_failure = TR_STOP)};
    tr_ref ref = (tr_spawn)((tr_from){.ctx = ctx},
                            m->bad_end ? &bad_printer : &printer, &options);
    return tr_reply(ctx, m, .ref = ref);
}

static tr_err on_end(tr_ctx *ctx, Office *self, const tr_child_end *end)
{
    tr_tell(ctx, self->probe, Heard, .name = end->name, .reason = end->reason,
            .err = end->err, .phase = end->phase, .text = end->text,
            .incarnation = tr_incarnation(ctx));
    if (self->panics && tr_incarnation(ctx) == 1) {
        tr_panic(ctx, "no printers");
    }
    return TR_OK;
}

static tr_err on_terminated(tr_ctx *ctx, Office *self, const tr_terminated *m)
{
    tr_tell(ctx, self->probe, Heard, .reason = m->reason, .terminated = true);
    return TR_OK;
}

static tr_err on_office_break(tr_ctx *ctx, Office *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "closed");
}

static tr_err on_sleep(tr_ctx *ctx, Office *self, const Sleep *m)
{
    (void)self, (void)m;
    return tr_sleep(ctx, TR_SECONDS(1));
}

TR_ACTOR(office, Office, TR_ON(Bear, on_bear), TR_ON(Break, on_office_break),
         TR_ON(Sleep, on_sleep), TR_ON(tr_terminated, on_terminated),
         TR_HOOK(child_terminated, on_end));

typedef struct world {
    tr_sim *sim;
    tr_system *sys;
    tr_probe *probe;
} world;

static tr_ref open_world(world *w, uint64_t seed, bool panics)
{
    assert_int_equal(tr_sim_new(&w->sim, seed), TR_OK);
    assert_int_equal(tr_system_open(&w->sys, .world = tr_sim_world(w->sim),
                                    .log_level = TR_LOG_ERROR + 1),
                     TR_OK);
    assert_int_equal(tr_probe_new(&w->probe, w->sys), TR_OK);
    return tr_spawn(
        w->sys, office, .supervision = TR_SUPERVISE(),
        TR_INIT(office, .probe = tr_probe_ref(w->probe), .panics = panics));
}

static void close_world(world *w)
{
    tr_expect_nothing(w->probe, TR_SECONDS(1));
    tr_probe_free(w->probe);
    assert_int_equal(tr_system_close(w->sys, 0), TR_OK);
    tr_sim_free(w->sim);
}

static tr_ref bear(world *w, tr_ref parent, const char *name, bool bad,
                   bool watch)
{
    Born born;
    assert_int_equal(tr_ask(w->sys, parent, &born, 0, Bear, .name = name,
                            .bad_end = bad, .watch = watch),
                     TR_OK);
    return born.ref;
}

static void expect_heard(world *w, const char *name, tr_reason reason,
                         tr_err err, tr_phase phase, const char *text)
{
    const Heard *h = tr_expect(w->probe, TR_SECONDS(5), Heard);
    assert_false(h->terminated);
    if (name != NULL) {
        assert_string_equal(h->name, name);
    } else {
        assert_int_equal(h->name[0], '$');
    }
    assert_int_equal(h->reason, reason);
    assert_int_equal(h->err, err);
    assert_int_equal(h->phase, phase);
    assert_string_equal(h->text != NULL ? h->text : "", text);
}

static void each_end(uint64_t seed)
{
    world w;
    tr_ref o = open_world(&w, seed, false);
    tr_stop(w.sys, bear(&w, o, "a", false, false));
    expect_heard(&w, "a", TR_STOPPED, TR_OK, 0, "");
    tr_kill(w.sys, bear(&w, o, NULL, false, false));
    expect_heard(&w, NULL, TR_KILLED, TR_OK, 0, "");
    tr_tell(w.sys, bear(&w, o, "c", false, false), Break);
    expect_heard(&w, "c", TR_FAILED, TR_EUSER + 5, TR_IN_HANDLER,
                 "out of paper");
    tr_ref d = bear(&w, o, "d", true, false);
    assert_int_equal(tr_started(w.sys, d, 0), TR_OK);
    tr_stop(w.sys, d);
    expect_heard(&w, "d", TR_STOPPED, TR_EUSER + 6, TR_IN_STOP, "jammed");
    // A watched child: the notice of the watch comes as well, and first.
    tr_stop(w.sys, bear(&w, o, "e", false, true));
    assert_true(tr_expect(w.probe, TR_SECONDS(5), Heard)->terminated);
    expect_heard(&w, "e", TR_STOPPED, TR_OK, 0, "");
    // The parent's own restart and stop end children without a word.
    (void)bear(&w, o, "f", false, false);
    tr_tell(w.sys, o, Break);
    tr_sim_advance(w.sim, TR_SECONDS(1));
    (void)bear(&w, o, "g", false, false);
    tr_stop(w.sys, o);
    close_world(&w);
}

static void test_first_week_19_DW25_L16_a_parent_hears_of_each_child(
    void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        each_end(seed);
    }
}

/* The hook fails: the restart ends the other children without a word. */
static void test_first_week_19_L16_a_hook_that_panics(void **state)
{
    (void)state;
    world w;
    tr_ref o = open_world(&w, 1, true);
    tr_ref a = bear(&w, o, "a", false, false);
    tr_ref b = bear(&w, o, "b", false, false);
    tr_stop(w.sys, a);
    expect_heard(&w, "a", TR_STOPPED, TR_OK, 0, "");
    tr_sim_advance(w.sim, TR_SECONDS(1));
    assert_int_equal(tr_state_of(w.sys, o), TR_STATE_RUNNING);
    assert_int_equal(tr_state_of(w.sys, b), TR_STATE_TERMINATED);
    tr_stop(w.sys, bear(&w, o, "c", false, false));
    expect_heard(&w, "c", TR_STOPPED, TR_OK, 0, "");
    close_world(&w);
}

/*
 * Both ends wait when the hook fails. With keep_children nothing else ends, so
 * what the next incarnation hears is the second end.
 */
static void test_first_week_19_L16_ends_not_told_are_told_later(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        world w;
        tr_ref o = open_world(&w, seed, true);
        tr_ref a = bear(&w, o, "a", false, false);
        tr_ref b = bear(&w, o, "b", false, false);
        tr_tell(w.sys, o, Sleep);
        tr_sim_advance(w.sim, TR_MS(10));
        tr_stop(w.sys, a);
        tr_stop(w.sys, b);
        tr_sim_advance(w.sim, TR_SECONDS(5));
        const Heard *first = tr_expect(w.probe, TR_SECONDS(5), Heard);
        assert_int_equal(first->incarnation, 1);
        bool was_a = strcmp(first->name, "a") == 0;
        const Heard *second = tr_expect(w.probe, TR_SECONDS(5), Heard);
        assert_int_equal(second->incarnation, 2);
        assert_string_equal(second->name, was_a ? "b" : "a");
        close_world(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            test_first_week_19_DW25_L16_a_parent_hears_of_each_child),
        cmocka_unit_test(test_first_week_19_L16_a_hook_that_panics),
        cmocka_unit_test(test_first_week_19_L16_ends_not_told_are_told_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
