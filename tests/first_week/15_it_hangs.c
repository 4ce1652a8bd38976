/*
 * 15_it_hangs.c - "it hangs" can be diagnosed: tr_actor_info, tr_tree, the
 * texts of time-outs and the log of a close say which handler waits, for what
 * or whom, since when, and at which line.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <troupe/troupe.h>

enum { LOG_MAX = 16384, TREE_MAX = 4096 };

TR_MESSAGE(Total, (int64_t, sum));
TR_REQUEST(Get, Total);
TR_REQUEST(Sum, Total, (tr_ref, of));
TR_MESSAGE(Nap);
TR_MESSAGE(Join, (tr_ref, other));

static char log_text[LOG_MAX];
static const char *get_site, *nap_site, *join_site;

static void keep_log(void *user, const tr_log_record *record)
{
    size_t used = strlen(log_text);
    (void)user;
    snprintf(log_text + used, sizeof(log_text) - used, "%s: %s\n",
             record->path != NULL ? record->path : "-", record->text);
}

static void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", text, part);
    }
}

/* Never answers. */
static tr_err on_get(tr_ctx *ctx, void *self, const Get *m)
{
    (void)self;
    (void)tr_keep(ctx, m);
    return TR_OK;
}

static tr_err on_sum(tr_ctx *ctx, void *self, const Sum *m)
{
    Total total;
    (void)self;
    TR_TRY(get_site = TR_HERE, tr_ask(ctx, m->of, &total, TR_FOREVER, Get));
    return tr_reply(ctx, m, .sum = total.sum);
}

static tr_err on_nap(tr_ctx *ctx, void *self, const Nap *m)
{
    (void)self;
    (void)m;
    TR_TRY(nap_site = TR_HERE, tr_sleep(ctx, TR_SECONDS(1000)));
    return TR_OK;
}

static tr_err on_join(tr_ctx *ctx, void *self, const Join *m)
{
    (void)self;
    TR_TRY(join_site = TR_HERE, tr_join(ctx, m->other, TR_FOREVER, NULL, NULL));
    return TR_OK;
}

TR_ACTOR(teller, void, TR_ON(Get, on_get), TR_ON(Sum, on_sum),
         TR_ON(Nap, on_nap), TR_ON(Join, on_join));

typedef struct scene {
    tr_sim *sim;
    tr_system *sys;
    tr_ref ann, bob;
} scene;

static int open_scene(void **state)
{
    static scene s;

    log_text[0] = '\0';
    TR_MUST(tr_sim_new(&s.sim, 1));
    TR_MUST(
        tr_system_open(&s.sys, .world = tr_sim_world(s.sim), .log = keep_log));
    s.ann = tr_spawn(s.sys, teller, .name = "ann", .stop_timeout = TR_MS(50));
    s.bob = tr_spawn(s.sys, teller, .name = "bob");
    *state = &s;
    return 0;
}

static int close_scene(void **state)
{
    scene *s = *state;

    if (s->sys != NULL) {
        (void)!tr_system_close(s->sys, TR_SECONDS(1));
    }
    tr_sim_free(s->sim);
    return 0;
}

static tr_actor_info info_of(const scene *s, tr_ref ref)
{
    tr_actor_info info = {.size = sizeof(info)};
    TR_MUST(tr_actor_info_of(s->sys, ref, &info));
    return info;
}

/* ---- what an actor waits for ---- */

static void test_info_shows_whom_an_ask_waits_for(void **state)
{
    scene *s = *state;
    tr_nanos before = tr_now(s->sys);

    tr_tell(s->sys, s->ann, Sum, .of = s->bob);
    tr_sim_advance(s->sim, TR_MS(500));
    tr_actor_info info = info_of(s, s->ann);
    assert_non_null(info.running);
    assert_string_equal(info.running, "Sum");
    assert_string_equal(info.waits_in, "tr_ask");
    assert_string_equal(info.waits_with, "Get");
    assert_true(tr_ref_eq(info.waits_for, s->bob));
    assert_string_equal(info.waits_at, get_site);
    assert_true(info.waits_since >= before);
    assert_true(info.waits_since < before + TR_MS(400));
    // Bob waits for nothing.
    info = info_of(s, s->bob);
    assert_null(info.running);
    assert_null(info.waits_in);
}

static void test_info_shows_a_sleep_and_a_join_with_their_lines(void **state)
{
    scene *s = *state;

    tr_tell(s->sys, s->bob, Nap);
    tr_tell(s->sys, s->ann, Join, .other = s->bob);
    tr_sim_advance(s->sim, TR_MS(1));
    tr_actor_info info = info_of(s, s->bob);
    assert_string_equal(info.running, "Nap");
    assert_string_equal(info.waits_in, "tr_sleep");
    assert_string_equal(info.waits_at, nap_site);
    assert_true(tr_ref_eq(info.waits_for, TR_NOBODY));
    info = info_of(s, s->ann);
    assert_string_equal(info.waits_in, "tr_join");
    assert_string_equal(info.waits_at, join_site);
    assert_true(tr_ref_eq(info.waits_for, s->bob));
}

static void test_a_turn_that_has_ended_is_not_shown(void **state)
{
    scene *s = *state;

    tr_tell(s->sys, s->bob, Nap);
    tr_sim_advance(s->sim, TR_SECONDS(1001));
    tr_actor_info info = info_of(s, s->bob);
    assert_null(info.running);
    assert_null(info.waits_in);
}

static void test_the_tree_shows_who_waits(void **state)
{
    scene *s = *state;
    char tree[TREE_MAX];

    tr_tell(s->sys, s->ann, Sum, .of = s->bob);
    tr_sim_advance(s->sim, TR_MS(500));
    (void)tr_tree(s->sys, tree, sizeof(tree));
    assert_says(tree, "handling Sum, waits in tr_ask with Get at ");
    assert_says(tree, get_site);
}

/* ---- what is said when something is late ---- */

static void test_a_time_out_says_what_its_target_does(void **state)
{
    scene *s = *state;

    assert_int_equal(
        tr_ask(s->sys, s->ann, NULL, TR_MS(500), Sum, .of = s->bob),
        TR_ETIMEDOUT);
    assert_says(tr_error_text(s->sys), "Sum of /user/ann");
    assert_says(tr_error_text(s->sys),
                "handling Sum, waits in tr_ask with Get for /user/bob at ");
    assert_says(tr_error_text(s->sys), get_site);
}

static void test_a_close_names_what_late_actors_wait_for(void **state)
{
    scene *s = *state;

    tr_tell(s->sys, s->bob, Nap);
    tr_sim_advance(s->sim, TR_MS(1));
    (void)!tr_system_close(s->sys, TR_SECONDS(2));
    s->sys = NULL;
    assert_says(log_text, "/user/bob: did not stop in time");
    assert_says(log_text, "handling Nap, waits in tr_sleep at ");
    assert_says(log_text, nap_site);
    assert_null(strstr(log_text, "nothing known"));
}

/* ---- a handler that neither returns nor waits ---- */

typedef struct blocked {
    sem_t library, program, reported, go_on;
    char lines[LOG_MAX];
} blocked;

static blocked it;

/* The monitor logs on one thread, so lines are not mixed. */
static void keep_warning(void *user, const tr_log_record *record)
{
    (void)user;
    if (strstr(record->text, "has been handling") != NULL) {
        size_t used = strlen(it.lines);
        snprintf(it.lines + used, sizeof(it.lines) - used, "%s %s\n",
                 record->path, record->text);
        if (strstr(record->path, "/user/") != NULL) sem_post(&it.reported);
    }
}

/* Runs in an actor of the library. */
static void block_library(void *user, const tr_type *type, const void *event)
{
    (void)user, (void)type, (void)event;
    sem_post(&it.library);
    sem_wait(&it.go_on);
}

static tr_err block_program(tr_ctx *ctx, void *self, const Nap *m)
{
    (void)ctx, (void)self, (void)m;
    sem_post(&it.program);
    sem_wait(&it.go_on);
    return TR_OK;
}

TR_ACTOR(blocker, void, TR_ON(Nap, block_program));

/* The library's actor blocks first, and has the shorter limit. */
static void test_a_stuck_handler_is_named_but_not_the_librarys(void **state)
{
    (void)state;
    tr_system *sys;
    sem_init(&it.library, 0, 0);
    sem_init(&it.program, 0, 0);
    sem_init(&it.reported, 0, 0);
    sem_init(&it.go_on, 0, 0);
    TR_MUST(tr_system_open(&sys, .workers = 3, .log = keep_warning,
                           .handler_limit = TR_MS(20)));
    TR_MUST(tr_on_event(sys, Total, block_library, NULL));
    tr_ref ref =
        tr_spawn(sys, blocker, .name = "blocker", .handler_limit = TR_MS(100));
    TR_MUST(tr_started(sys, ref, TR_SECONDS(60)));
    tr_publish(sys, Total, .sum = 1);
    sem_wait(&it.library);
    tr_tell(sys, ref, Nap);
    sem_wait(&it.program);
    sem_wait(&it.reported);
    assert_says(it.lines, "/user/blocker has been handling Nap for ");
    assert_null(strstr(it.lines, "/system"));
    sem_post(&it.go_on);
    sem_post(&it.go_on);
    TR_MUST(tr_system_close(sys, TR_SECONDS(60)));
}

#define ON_SCENE(test)                                                         \
    cmocka_unit_test_setup_teardown(test, open_scene, close_scene)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SCENE(test_info_shows_whom_an_ask_waits_for),
        ON_SCENE(test_info_shows_a_sleep_and_a_join_with_their_lines),
        ON_SCENE(test_a_turn_that_has_ended_is_not_shown),
        ON_SCENE(test_the_tree_shows_who_waits),
        ON_SCENE(test_a_time_out_says_what_its_target_does),
        ON_SCENE(test_a_close_names_what_late_actors_wait_for),
        cmocka_unit_test(test_a_stuck_handler_is_named_but_not_the_librarys),
    };
    return cmocka_run_group_tests_name("it hangs", tests, NULL, NULL);
}
