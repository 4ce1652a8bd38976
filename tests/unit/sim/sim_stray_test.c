/*
 * sim_stray_test.c - stray calls are reported with node, actor and message,
 * once for each place, and counted; they can fail a run.
 *
 * Sanitizers of clang define some of the functions inside the executable,
 * where calls cannot be redirected: there the tests use the other functions.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "sim/sim.h"
#include "sim/sim_plan.h"
#include "sim/sim_run.h"
#include "sim/sim_stray.h"

#if defined(__clang__) && defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IN_EXECUTABLE 1
#endif
#endif
#ifndef IN_EXECUTABLE
#define IN_EXECUTABLE 0
#endif

enum { CALLS = 3, PLACES = 32 };

TR_MESSAGE(Done, (bool, ok));
TR_REQUEST(Chance, Done);
TR_REQUEST(Slow, Done);
TR_REQUEST(Many, Done);
TR_REQUEST(Inside, Done);
TR_REQUEST(Clean, Done);

typedef enum question { CHANCE, SLOW, MANY, INSIDE, CLEAN } question;

static void *nothing(void *arg)
{
    return arg;
}

static tr_err on_chance(tr_ctx *ctx, void *self, const Chance *m)
{
    (void)self;
    for (volatile int i = 0; i < CALLS; i++) {  // one place: not unrolled
        (void)!rand();
    }
    return tr_reply(ctx, m);
}

/* Makes a stray call after a wait, in the same handler. */
static tr_err on_slow(tr_ctx *ctx, void *self, const Slow *m)
{
    (void)self;
    TR_TRY(tr_sleep(ctx, TR_SECONDS(1)));
    (void)!random();
    return tr_reply(ctx, m);
}

static tr_err on_many(tr_ctx *ctx, void *self, const Many *m)
{
    pthread_t thread;
    struct timespec now, span = {0};
    (void)self;
    usleep(1);
    nanosleep(&span, NULL);
    clock_gettime(CLOCK_MONOTONIC, &now);
    (void)!time(NULL);
    if (pthread_create(&thread, NULL, nothing, NULL) == 0) {
        pthread_join(thread, NULL);
    }
    close(socket(AF_UNIX, SOCK_STREAM, 0));
    close(open("/dev/null", O_RDONLY));
    (void)!drand48();
    return tr_reply(ctx, m);
}

/* Makes a stray call from an address in the library. */
static tr_err on_inside(tr_ctx *ctx, void *self, const Inside *m)
{
    tri_world *posix = tri_world_posix();
    (void)self;
    (void)posix->ops->wall(posix);
    return tr_reply(ctx, m);
}

static tr_err on_clean(tr_ctx *ctx, void *self, const Clean *m)
{
    (void)self;
    (void)tr_now(ctx);
    TR_TRY(tr_sleep(ctx, TR_MS(1)));
    return tr_reply(ctx, m);
}

TR_ACTOR(clerk, void, TR_ON(Chance, on_chance), TR_ON(Slow, on_slow),
         TR_ON(Many, on_many), TR_ON(Inside, on_inside),
         TR_ON(Clean, on_clean));

typedef struct job {
    question ask;
    uint32_t times;
    uint32_t places;  // counted at the end of the run
    tr_sim_count counts[PLACES];
    char names[PLACES][128];
    char failure[TRI_SIM_FAIL_MAX];
} job;

static tr_err bring_up(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    (void)user;
    return tr_ref_err(tr_spawn(sys, clerk, .name = "clerk"));
}

static tr_err work(tr_sim *sim, void *user)
{
    job *it = user;
    tr_system *sys = tr_sim_node(sim, 0);
    tr_ref to = tr_lookup(sys, "clerk");
    for (uint32_t i = 0; i < it->times; i++) {
        if (it->ask == CHANCE) {
            TR_TRY(tr_ask(sys, to, NULL, 0, Chance));
        } else if (it->ask == SLOW) {
            TR_TRY(tr_ask(sys, to, NULL, 0, Slow));
        } else if (it->ask == MANY) {
            TR_TRY(tr_ask(sys, to, NULL, 0, Many));
        } else if (it->ask == INSIDE) {
            TR_TRY(tr_ask(sys, to, NULL, 0, Inside));
        } else {
            TR_TRY(tr_ask(sys, to, NULL, 0, Clean));
        }
    }
    return TR_OK;
}

static void look(tr_sim *sim, void *user)
{
    job *it = user;
    it->places = tr_sim_strays(sim, it->counts, PLACES);
    for (uint32_t i = 0; i < it->places && i < PLACES; i++) {
        snprintf(it->names[i], sizeof(it->names[i]), "%s", it->counts[i].name);
    }
    snprintf(it->failure, sizeof(it->failure), "%s", sim->fail_text);
}

static tr_err run(job *it, tr_strays strays, tri_sim_strays *shared)
{
    tri_sim_plan plan = {.seed = 1, .silent = true, .strays = shared};
    tri_sim_result result;
    (void)tri_sim_stray_redirect();
    return tri_sim_run_plan(TR_OPTIONS(tr_sim_options, .node = bring_up,
                                       .workload = work, .user = it,
                                       .strays = strays),
                            &plan, &result, look, it);
}

/* Returns how often a call was counted. */
static uint64_t count_of(const job *it, const char *call)
{
    uint64_t count = 0;
    size_t size = strlen(call);
    for (uint32_t i = 0; i < it->places; i++) {
        if (strncmp(it->names[i], call, size) == 0 &&
            it->names[i][size] == ' ') {
            count += it->counts[i].fired;
        }
    }
    return count;
}

/* Runs, and keeps standard error in `out`. */
static tr_err run_heard(job *it, tri_sim_strays *shared, char *out, size_t size)
{
    FILE *kept = tmpfile();
    int before = dup(STDERR_FILENO);
    assert_non_null(kept);
    dup2(fileno(kept), STDERR_FILENO);
    tr_err err = run(it, TR_STRAYS_REPORT, shared);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(kept);
    out[fread(out, 1, size - 1, kept)] = '\0';
    fclose(kept);
    return err;
}

static void test_TE5_a_stray_call_is_reported_with_its_actor(void **state)
{
    job it = {.ask = CHANCE, .times = 2};
    char out[4096];
    (void)state;
    assert_int_equal(run_heard(&it, NULL, out, sizeof(out)), TR_OK);
    const char *line = strstr(out, "stray call: rand ");
    assert_non_null(line);
    assert_non_null(strstr(line, "node 0, actor /user/clerk, "
                                 "message Chance"));
    assert_non_null(strstr(line, "+0x"));
    assert_non_null(strstr(line, "tr_random draws from the seed"));
    // The place is reported once, and every call is counted.
    assert_null(strstr(line + 1, "stray call"));
    assert_int_equal(it.places, 1);
    assert_int_equal(count_of(&it, "rand"), 2 * CALLS);
}

static void test_TE5_a_place_is_reported_once_for_many_runs(void **state)
{
    job it = {.ask = CHANCE, .times = 1};
    tri_sim_strays shared = {0};
    char out[4096];
    (void)state;
    assert_int_equal(run_heard(&it, &shared, out, sizeof(out)), TR_OK);
    assert_non_null(strstr(out, "stray call"));
    assert_int_equal(run_heard(&it, &shared, out, sizeof(out)), TR_OK);
    assert_null(strstr(out, "stray call"));
    assert_int_equal(count_of(&it, "rand"), 2 * CALLS);
    tri_sim_strays_fini(&shared);
}

static void test_TE5_the_message_is_known_after_a_wait(void **state)
{
    job it = {.ask = SLOW, .times = 1};
    char out[4096];
    (void)state;
    assert_int_equal(run_heard(&it, NULL, out, sizeof(out)), TR_OK);
    assert_non_null(strstr(out, "stray call: random "));
    assert_non_null(strstr(out, "actor /user/clerk, message Slow"));
}

static void test_TE5_every_kind_of_call_is_seen(void **state)
{
    job it = {.ask = MANY, .times = 1};
    (void)state;
    assert_int_equal(run(&it, TR_STRAYS_REPORT, NULL), TR_OK);
    assert_int_equal(count_of(&it, "drand48"), 1);
    if (!IN_EXECUTABLE) {
        static const char *const calls[] = {
            "usleep", "nanosleep",      "clock_gettime", "time",
            "socket", "pthread_create", "open"};
        for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
            assert_int_equal(count_of(&it, calls[i]), 1);
        }
    }
}

static void test_TE5_a_stray_call_can_fail_the_run(void **state)
{
    job it = {.ask = CHANCE, .times = 1};
    (void)state;
    assert_int_equal(run(&it, TR_STRAYS_FAIL, NULL), TR_EFAILED);
    assert_non_null(strstr(it.failure, "stray call: rand "));
    assert_non_null(strstr(it.failure, "message Chance"));
}

static void test_TE5_a_stray_call_of_the_library_fails(void **state)
{
    job it = {.ask = INSIDE, .times = 1};
    (void)state;
    tr_err err = run(&it, TR_STRAYS_REPORT, NULL);
    assert_int_equal(err, IN_EXECUTABLE ? TR_OK : TR_EFAILED);
    if (!IN_EXECUTABLE) {
        assert_non_null(strstr(it.failure, "(the library, node 0"));
    }
}

static void test_TE5_allowed_calls_are_not_counted(void **state)
{
    job clean = {.ask = CLEAN, .times = 2};
    job it = {.ask = CHANCE, .times = 1};
    (void)state;
    assert_int_equal(run(&clean, TR_STRAYS_FAIL, NULL), TR_OK);
    assert_int_equal(clean.places, 0);
    assert_int_equal(run(&it, TR_STRAYS_ALLOW, NULL), TR_OK);
    assert_int_equal(it.places, 0);
}

/* A test may call the operating system between two runs. */
static void test_TE5_calls_outside_of_steps_are_not_stray(void **state)
{
    struct timespec now = {0};
    (void)state;
    (void)tri_sim_stray_redirect();
    assert_int_equal(tri_sim_stray_redirect(),
                     0);  // all slots are redirected already
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    assert_true(now.tv_sec > 0 || now.tv_nsec > 0);
    (void)!rand();
    int fd = open("/dev/null", O_RDONLY);
    assert_true(fd >= 0);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE5_a_stray_call_is_reported_with_its_actor),
        cmocka_unit_test(test_TE5_a_place_is_reported_once_for_many_runs),
        cmocka_unit_test(test_TE5_the_message_is_known_after_a_wait),
        cmocka_unit_test(test_TE5_every_kind_of_call_is_seen),
        cmocka_unit_test(test_TE5_a_stray_call_can_fail_the_run),
        cmocka_unit_test(test_TE5_a_stray_call_of_the_library_fails),
        cmocka_unit_test(test_TE5_allowed_calls_are_not_counted),
        cmocka_unit_test(test_TE5_calls_outside_of_steps_are_not_stray),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
