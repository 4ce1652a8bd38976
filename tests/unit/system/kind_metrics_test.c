/*
 * kind_metrics_test.c - what is counted and timed per kind of actor (PA5).
 *
 * Under a simulated world each handler is timed, by virtual time: what a test
 * expects of a histogram is exact.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <troupe/troupe.h>

#include "core/cell/tally.h"

TR_MESSAGE(Work, (int64_t, nanos));
TR_MESSAGE(Break);
TR_MESSAGE(Crash);
TR_MESSAGE(Turn);
TR_REQUEST(Look, tr_none);

static tr_err on_work(tr_ctx *ctx, void *self, const Work *m)
{
    (void)self;
    return m->nanos > 0 ? tr_sleep(ctx, m->nanos) : TR_OK;
}

static tr_err on_break(tr_ctx *ctx, void *self, const Break *m)
{
    (void)self, (void)m;
    return tr_fail(ctx, TR_EUSER, "told to");
}

static tr_err on_crash(tr_ctx *ctx, void *self, const Crash *m)
{
    (void)self, (void)m;
    TR_TRY(tr_sleep(ctx, TR_MS(3)));
    tr_panic(ctx, "told to");
}

static tr_err on_look(tr_ctx *ctx, const void *self, const Look *m)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_MS(7)));
    return tr_reply(ctx, m);
}

TR_ACTOR(tin, void, TR_ON(Work, on_work));

static tr_err on_turn(tr_ctx *ctx, void *self, const Turn *m)
{
    (void)self, (void)m;
    tr_become(ctx, self, tin);
    return TR_OK;
}

TR_ACTOR(copper, void, TR_ON(Work, on_work), TR_ON(Break, on_break),
         TR_ON(Crash, on_crash), TR_ON(Turn, on_turn),
         TR_ON_INTERLEAVE(Look, on_look));

typedef struct fixture {
    tr_sim *sim;
    tr_system *sys;
} fixture;

static fixture begin(const char *name)
{
    fixture it;
    TR_MUST(tr_sim_new(&it.sim, 7));
    TR_MUST(tr_system_open(&it.sys, .world = tr_sim_world(it.sim),
                           .log_level = 9, .name = name));
    return it;
}

static void end(fixture *it)
{
    (void)!tr_system_close(it->sys, 0);
    tr_sim_free(it->sim);
}

static tr_kind_metrics of(tr_system *sys, const char *name)
{
    static tr_kind_metrics all[TR_KINDS_MAX];
    all[0].size = sizeof(all[0]);
    size_t count = tr_metrics_kinds(sys, all, TR_KINDS_MAX);
    assert_true(count <= TR_KINDS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(all[i].kind, name) == 0) {
            return all[i];
        }
    }
    return (tr_kind_metrics){.kind = NULL};
}

static void check_time(tr_nanos span)
{
    uint32_t bucket = tri_time_bucket(span);
    assert_in_range(bucket, 0, TR_TIME_BUCKETS - 1);
    assert_true(span <= tr_time_bound(bucket));
    assert_true(bucket == 0 || span > tr_time_bound(bucket - 1));
    if (bucket > 0 && bucket < TR_TIME_BUCKETS - 1) {  // to a quarter
        assert_true(4 * (tr_time_bound(bucket) - tr_time_bound(bucket - 1)) <=
                    tr_time_bound(bucket));
    }
}

static void test_PA5_a_bound_belongs_to_the_bucket_below_it(void **state)
{
    (void)state;
    check_time(0);
    check_time(INT64_MAX);
    for (uint32_t i = 0; i < TR_TIME_BUCKETS - 1; i++) {
        check_time(tr_time_bound(i) - 1);
        check_time(tr_time_bound(i));
        check_time(tr_time_bound(i) + 1);
        assert_int_equal(tri_time_bucket(tr_time_bound(i)), i);
    }
    assert_int_equal(tr_time_bound(TR_TIME_BUCKETS - 1), TR_FOREVER);
    for (uint32_t i = 0; i < TR_DEPTH_BUCKETS - 1; i++) {
        assert_int_equal(tri_depth_bucket(tr_depth_bound(i)), i);
        assert_int_equal(tri_depth_bucket(tr_depth_bound(i) + 1), i + 1);
    }
    assert_int_equal(tri_depth_bucket(UINT64_MAX), TR_DEPTH_BUCKETS - 1);
    assert_true(tr_depth_bound(TR_DEPTH_BUCKETS - 1) == UINT64_MAX);
}

static void test_PA5_handler_times_are_of_virtual_time(void **state)
{
    (void)state;
    fixture it = begin(NULL);
    tr_ref ref = tr_spawn(it.sys, tin);
    static const tr_nanos spans[] = {TR_MS(5), TR_MS(5), TR_MS(80),
                                     TR_SECONDS(2)};
    for (size_t i = 0; i < 4; i++) {
        tr_tell(it.sys, ref, Work, .nanos = spans[i]);
        tr_sim_advance(it.sim, TR_SECONDS(3));
    }
    tr_kind_metrics kind = of(it.sys, "tin");
    assert_int_equal(kind.samples, 4);
    assert_int_equal(kind.times[tri_time_bucket(TR_MS(5))], 2);
    assert_int_equal(kind.times[tri_time_bucket(TR_MS(80))], 1);
    assert_int_equal(kind.times[tri_time_bucket(TR_SECONDS(2))], 1);
    assert_in_range(kind.time_sum, TR_MS(2090), TR_MS(2091));
    assert_int_equal(kind.depths[0], 4);
    tr_nanos median = tr_time_quantile(&kind, 0.5);
    assert_in_range(median, TR_MS(5), TR_MS(5) * 5 / 4);
    assert_in_range(tr_time_quantile(&kind, 0.99), TR_SECONDS(2),
                    TR_SECONDS(2) * 5 / 4);
    assert_int_equal(tr_time_quantile(&kind, 0), median);
    kind.samples = 0;
    assert_int_equal(tr_time_quantile(&kind, 0.5), 0);
    assert_int_equal(tr_depth_quantile(&kind, 0.5), 0);
    end(&it);
}

static void test_PA5_depths_are_of_what_waits_behind(void **state)
{
    (void)state;
    fixture it = begin(NULL);
    tr_ref ref = tr_spawn(it.sys, tin);
    tr_tell(it.sys, ref, Work, .nanos = TR_MS(1));
    tr_sim_advance(it.sim, 1);
    for (int i = 0; i < 6; i++) {
        tr_tell(it.sys, ref, Work);
    }
    tr_sim_advance(it.sim, TR_SECONDS(1));
    tr_kind_metrics kind = of(it.sys, "tin");
    assert_int_equal(kind.samples, 7);
    assert_int_equal(kind.depth_sum, 0 + 5 + 4 + 3 + 2 + 1 + 0);
    assert_int_equal(kind.depths[0], 2);
    assert_int_equal(kind.depths[1], 1);  // 1
    assert_int_equal(kind.depths[2], 1);  // 2
    assert_int_equal(kind.depths[3], 2);  // 3 and 4
    assert_int_equal(kind.depths[4], 1);  // 5
    assert_int_equal(tr_depth_quantile(&kind, 0.5), 2);
    assert_int_equal(tr_depth_quantile(&kind, 1), 8);
    end(&it);
}

static void test_PA5_failures_and_lives_count_for_their_kind(void **state)
{
    (void)state;
    fixture it = begin(NULL);
    tr_ref ref = tr_spawn(it.sys, copper);
    tr_ref other = tr_spawn(it.sys, tin);
    tr_tell(it.sys, ref, Break);
    tr_tell(it.sys, other, Work);
    tr_sim_advance(it.sim, TR_SECONDS(5));
    tr_tell(it.sys, ref, Crash);
    tr_sim_advance(it.sim, TR_SECONDS(5));
    tr_kind_metrics kind = of(it.sys, "copper");
    assert_int_equal(kind.spawned, 1);
    assert_int_equal(kind.actors, 1);
    assert_int_equal(kind.messages, 2);
    assert_int_equal(kind.failures, 2);
    assert_int_equal(kind.restarts, 2);
    // One that fails has been timed, and so has one that panics.
    assert_int_equal(kind.samples, 2);
    assert_int_equal(kind.times[tri_time_bucket(TR_MS(3))], 1);
    assert_int_equal(of(it.sys, "tin").failures, 0);
    assert_int_equal(of(it.sys, "tin").messages, 1);
    tr_stop(it.sys, ref);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(of(it.sys, "copper").actors, 0);
    assert_int_equal(of(it.sys, "copper").spawned, 1);
    end(&it);
}

static void test_PA5_become_counts_for_the_handler_that_ran(void **state)
{
    (void)state;
    fixture it = begin(NULL);
    tr_ref ref = tr_spawn(it.sys, copper);
    tr_tell(it.sys, ref, Turn);
    tr_tell(it.sys, ref, Work);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(of(it.sys, "copper").messages, 1);
    assert_int_equal(of(it.sys, "copper").samples, 1);
    assert_int_equal(of(it.sys, "tin").messages, 1);
    assert_int_equal(of(it.sys, "tin").spawned, 0);
    tr_stop(it.sys, ref);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(of(it.sys, "copper").actors, 0);
    assert_int_equal(of(it.sys, "tin").actors, 0);
    end(&it);
}

static void test_PA5_a_handler_beside_a_parked_one_is_timed(void **state)
{
    (void)state;
    fixture it = begin(NULL);
    tr_ref ref = tr_spawn(it.sys, copper);
    tr_tell(it.sys, ref, Work, .nanos = TR_MS(100));
    tr_sim_advance(it.sim, TR_MS(10));
    TR_MUST(tr_ask(it.sys, ref, NULL, TR_SECONDS(1), Look));
    tr_kind_metrics kind = of(it.sys, "copper");
    assert_int_equal(kind.samples, 1);
    assert_int_equal(kind.times[tri_time_bucket(TR_MS(7))], 1);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    kind = of(it.sys, "copper");
    assert_int_equal(kind.samples, 2);
    assert_int_equal(kind.times[tri_time_bucket(TR_MS(100))], 1);
    end(&it);
}

/* The same seed gives the same numbers; two systems have their own. */
static void test_PA5_numbers_are_the_systems_own_and_repeat(void **state)
{
    (void)state;
    fixture a = begin("a"), b = begin("b"), idle = begin("idle");
    fixture *two[] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        tr_ref ref = tr_spawn(two[i]->sys, copper);
        for (int n = 0; n < 50; n++) {
            tr_tell(two[i]->sys, ref, Work, .nanos = n * n * 1000);
        }
        tr_sim_advance(two[i]->sim, TR_SECONDS(1));
    }
    tr_kind_metrics first = of(a.sys, "copper"), second = of(b.sys, "copper");
    assert_int_equal(first.messages, 50);
    assert_memory_equal(&first, &second, sizeof(first));
    assert_null(of(idle.sys, "copper").kind);
    end(&a);
    end(&b);
    end(&idle);
}

static void test_PA5_names_beyond_the_limit_are_counted_together(void **state)
{
    (void)state;
    enum { MANY = TR_KINDS_MAX + 20 };
    fixture it = begin(NULL);
    static tr_actor_def defs[MANY];
    static char names[MANY][16];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "kind%d", i);
        defs[i] = tin;
        defs[i].name = names[i];
        const tr_actor_def *def = &defs[i];
        tr_tell(it.sys, tr_spawn(it.sys, *def), Work);
    }
    static tr_actor_def twin;  // another file's definition of this name
    twin = tin;
    twin.name = "kind3";
    const tr_actor_def *def = &twin;
    tr_tell(it.sys, tr_spawn(it.sys, *def), Work);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    assert_int_equal(of(it.sys, "kind3").spawned, 2);
    tr_kind_metrics others = of(it.sys, "(others)");
    assert_true(others.spawned > 20 && others.spawned < MANY / 2);
    assert_int_equal(others.messages, others.spawned);
    assert_int_equal(others.samples, others.spawned);
    assert_null(of(it.sys, names[MANY - 1]).kind);
    assert_int_equal(tr_metrics_kinds(it.sys, NULL, 0), TR_KINDS_MAX);
    end(&it);
}

/* A caller built with a header of fewer fields gets these, and no more. */
static void test_PA5_kinds_fit_the_callers_struct(void **state)
{
    (void)state;
    fixture it = begin(NULL);
    tr_tell(it.sys, tr_spawn(it.sys, copper), Work);
    tr_tell(it.sys, tr_spawn(it.sys, tin), Work);
    tr_sim_advance(it.sim, TR_SECONDS(1));
    typedef struct old {
        size_t size;
        const char *kind;
        uint64_t actors;
    } old;
    old some[64] = {{.size = sizeof(old)}};
    size_t count =
        tr_metrics_kinds(it.sys, (tr_kind_metrics *)(void *)some, 63);
    assert_in_range(count, 2, 63);
    assert_string_equal(some[count - 2].kind, "copper");
    assert_string_equal(some[count - 1].kind, "tin");
    assert_int_equal(some[count - 1].actors, 1);
    assert_null(some[count].kind);
    end(&it);
}

static uint64_t value_of(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    assert_non_null(at);
    return strtoull(at + strlen(line), NULL, 10);
}

static void test_PA5_histograms_as_prometheus_text(void **state)
{
    (void)state;
    fixture it = begin("a \"b\"\\c");
    tr_ref ref = tr_spawn(it.sys, tin);
    tr_tell(it.sys, ref, Work, .nanos = TR_MS(5));
    tr_tell(it.sys, ref, Work, .nanos = TR_MS(20));
    tr_sim_advance(it.sim, TR_SECONDS(1));
    size_t need = tr_metrics_text(it.sys, NULL, 0);
    char *text = malloc(need + 1);
    assert_non_null(text);
    assert_int_equal(tr_metrics_text(it.sys, text, need + 1), need);
#define LABELS "{system=\"a \\\"b\\\"\\\\c\",kind=\"tin\""
#define TIME   "\ntroupe_kind_handler_seconds"
    // 2^22 ns, 2^23 and 2^25: each holds all that is not longer.
    assert_int_equal(
        value_of(text, TIME "_bucket" LABELS ",le=\"0.004194304\"} "), 0);
    assert_int_equal(
        value_of(text, TIME "_bucket" LABELS ",le=\"0.008388608\"} "), 1);
    assert_int_equal(
        value_of(text, TIME "_bucket" LABELS ",le=\"0.033554432\"} "), 2);
    assert_int_equal(value_of(text, TIME "_bucket" LABELS ",le=\"+Inf\"} "), 2);
    assert_int_equal(value_of(text, TIME "_count" LABELS "} "), 2);
    assert_non_null(strstr(text, TIME "_sum" LABELS "} 0.025"));
    assert_int_equal(value_of(text, "\ntroupe_kind_mailbox_depth_bucket" LABELS
                                    ",le=\"0\"} "),
                     1);
    assert_int_equal(value_of(text, "\ntroupe_kind_mailbox_depth_bucket" LABELS
                                    ",le=\"1\"} "),
                     2);
    assert_int_equal(value_of(text, "\ntroupe_kind_messages_total" LABELS "} "),
                     2);
    assert_int_equal(value_of(text, "\ntroupe_kind_actors" LABELS "} "), 1);
    // A metric is named once, and its kinds follow.
    const char *type = "# TYPE troupe_kind_handler_seconds histogram\n";
    const char *first = strstr(text, type);
    assert_non_null(first);
    assert_null(strstr(first + 1, type));
    free(text);
    end(&it);
}

/* ---- real threads ---- */

typedef struct Relay {
    tr_ref next;
} Relay;

TR_MESSAGE(Token, (int64_t, left));
TR_REQUEST(Drained, tr_none);

static tr_err on_token(tr_ctx *ctx, Relay *self, const Token *m)
{
    (void)self;
    if (m->left > 0) {
        tr_tell(ctx, tr_self(ctx), Token, .left = m->left - 1);
    }
    return TR_OK;
}

static tr_err on_drained(tr_ctx *ctx, Relay *self, const Drained *m)
{
    (void)self;
    return tr_reply(ctx, m);
}

TR_ACTOR(relay, Relay, TR_ON(Token, on_token), TR_ON(Drained, on_drained));

static void test_PA5_threads_lose_no_count_and_take_samples(void **state)
{
    (void)state;
    enum { ACTORS = 8, TOKENS = 5000 };
    tr_system *sys;
    tr_ref refs[ACTORS];
    TR_MUST(tr_system_open(&sys, .workers = 2, .log_level = 9));
    for (int i = 0; i < ACTORS; i++) {
        refs[i] = tr_spawn(sys, relay);
        tr_tell(sys, refs[i], Token, .left = TOKENS - 1);
    }
    uint64_t asked = 0;
    tr_kind_metrics kind;
    do {  // samples are a matter of chance, but of time as well
        for (int i = 0; i < ACTORS; i++, asked++) {
            TR_MUST(tr_ask(sys, refs[i], NULL, TR_SECONDS(60), Drained));
        }
        kind = of(sys, "relay");
    } while (kind.messages - asked < ACTORS * TOKENS || kind.samples == 0);
    assert_int_equal(kind.messages, ACTORS * TOKENS + asked);
    assert_int_equal(kind.actors, ACTORS);
    assert_true(kind.samples <= kind.messages);
    tr_metrics_snapshot all = {.size = sizeof(all)};
    tr_metrics(sys, &all);
    assert_true(all.messages >= kind.messages);
    TR_MUST(tr_system_close(sys, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA5_a_bound_belongs_to_the_bucket_below_it),
        cmocka_unit_test(test_PA5_handler_times_are_of_virtual_time),
        cmocka_unit_test(test_PA5_depths_are_of_what_waits_behind),
        cmocka_unit_test(test_PA5_failures_and_lives_count_for_their_kind),
        cmocka_unit_test(test_PA5_become_counts_for_the_handler_that_ran),
        cmocka_unit_test(test_PA5_a_handler_beside_a_parked_one_is_timed),
        cmocka_unit_test(test_PA5_numbers_are_the_systems_own_and_repeat),
        cmocka_unit_test(test_PA5_names_beyond_the_limit_are_counted_together),
        cmocka_unit_test(test_PA5_kinds_fit_the_callers_struct),
        cmocka_unit_test(test_PA5_histograms_as_prometheus_text),
        cmocka_unit_test(test_PA5_threads_lose_no_count_and_take_samples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
