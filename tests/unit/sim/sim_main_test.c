/*
 * sim_main_test.c - the main function of a simulated program: its command
 * line, its exit status, and what it prints of runs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <troupe/troupe.h>

enum { SAID_MAX = 256 * 1024, NODES = 2 };

TR_MESSAGE(Pong, (uint64_t, n));
TR_REQUEST(Ping, Pong, (uint64_t, n));

static tr_err on_ping(tr_ctx *ctx, void *self, const Ping *m)
{
    (void)self;
    return tr_reply(ctx, m, .n = m->n);
}

TR_ACTOR(ponger, void, TR_ON(Ping, on_ping));

static tr_err node(tr_system *sys, uint32_t index, void *user)
{
    (void)index;
    (void)user;
    return tr_ref_err(tr_spawn(sys, ponger, .name = "ponger"));
}

/* Fails if *user is true, at a time that is not a round one. */
static tr_err workload(tr_sim *sim, void *user)
{
    tr_system *sys = tr_sim_node(sim, 0);

    TR_TRY(tr_ask(sys, tr_lookup(sys, "ponger"), NULL, 0, Ping, .n = 1));
    tr_sim_advance(sim, TR_MS(2345));
    return *(const bool *)user ? tr_sim_fail(sim, "planted") : TR_OK;
}

static char said[SAID_MAX];

/* Calls tr_sim_main with up to four words; keeps what it prints in `said`. */
static int call(bool fails, const char *a, const char *b, const char *c,
                const char *d)
{
    static const tr_faults faults = {.size = sizeof(faults),
                                     .drop = 0.5,
                                     .node_pause = 0.1,
                                     .pause_max = TR_MS(1)};
    tr_sim_options options = {.size = sizeof(options),
                              .nodes = NODES,
                              .node = node,
                              .workload = workload,
                              .faults = &faults,
                              .user = &fails};
    char words[5][64] = {"prog"};
    const char *given[] = {a, b, c, d};
    char *argv[6] = {words[0]};
    int argc = 1;
    FILE *file = tmpfile();

    for (int i = 0; i < 4 && given[i] != NULL; i++, argc++) {
        snprintf(words[argc], sizeof(words[argc]), "%s", given[i]);
        argv[argc] = words[argc];
    }
    assert_non_null(file);
    int before = dup(STDERR_FILENO);
    assert_true(before >= 0);
    assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
    int status = tr_sim_main(argc, argv, &options);
    assert_true(dup2(before, STDERR_FILENO) >= 0);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof(said) - 1, file)] = '\0';
    fclose(file);
    return status;
}

static void must_say(const char *text)
{
    if (strstr(said, text) == NULL) {
        fail_msg("not said: %s\nbut: %s", text, said);
    }
}

static void test_TE5_a_wrong_argument_is_quoted(void **state)
{
    static const struct {
        const char *option, *value, *wanted;
    } all[] = {
        {"--seed", "abc", "--seed abc: expected a number"},
        {"--seed", "12x", "--seed 12x: expected a number"},
        {"--seed", "99999999999999999999999", ": expected a number"},
        {"--seed", NULL, "--seed: expected a number after it"},
        {"--seeds", "0", "--seeds 0: expected how many, from 1"},
        {"--check-every", "4294967296", "expected a number of steps, 1 to"},
        {"--only", "nodekill", "--only nodekill: no such class"},
        {"--only", "drop,x", "--only x: no such class"},
        {"--faults", NULL, "--faults: expected numbers of faults"},
        {"--sed", "7", "--sed: no such option"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_int_equal(call(false, all[i].option, all[i].value, NULL, NULL),
                         2);
        must_say(all[i].wanted);
        must_say("usage: prog ");
    }
}

static void test_the_exit_status_tells_pass_fail_and_usage(void **state)
{
    (void)state;
    assert_int_equal(call(false, NULL, NULL, NULL, NULL), 0);
    assert_int_equal(call(false, "--seed", "12", NULL, NULL), 0);
    assert_int_equal(call(false, "--seeds", "3", NULL, NULL), 0);
    assert_int_equal(call(false, "--only", "node_pause", NULL, NULL), 0);
    assert_int_equal(call(false, "--only", "none", NULL, NULL), 0);
    assert_int_equal(call(false, "--only", "drop,buggify", NULL, NULL), 0);
    assert_int_equal(call(false, "--only", "nonsense", NULL, NULL), 2);
    assert_int_equal(call(false, "--seed", NULL, NULL, NULL), 2);
    assert_int_equal(call(false, "--seed", "x", NULL, NULL), 2);
    assert_int_equal(call(false, "--seeds", "0", NULL, NULL), 2);
    assert_int_equal(call(false, "--sed", "7", NULL, NULL), 2);
    assert_int_equal(call(false, "--help", NULL, NULL, NULL), 0);
    assert_int_equal(call(false, "--what", NULL, NULL, NULL), 2);
    assert_int_equal(call(true, "--seed", "1", "--shrink", NULL), 1);
}

static void test_TE5_unknown_fault_numbers_are_reported(void **state)
{
    (void)state;
    assert_int_equal(call(false, "--seed", "1", "--faults", "9999"), 2);
    must_say("--faults 9999: expected numbers from 1 to ");
    must_say("seed 1");
}

static void test_TE5_a_passing_run_prints_so(void **state)
{
    (void)state;
    assert_int_equal(call(false, "--seed", "7", NULL, NULL), 0);
    must_say("seed 7 passed at step ");
    must_say(" faults\n");
    assert_int_equal(call(false, "--seed", "7", "--shrink", NULL), 0);
    must_say("seed 7 passed at step ");
    assert_int_equal(call(false, "--seeds", "3", NULL, NULL), 0);
    assert_null(strstr(said, "passed"));
    must_say("3 of 3 seeds, 0 failed");
}

static void test_TE5_a_failure_has_the_time_of_the_trace(void **state)
{
    unsigned long step;
    long long seconds, millis;
    char text[64];
    (void)state;

    assert_int_equal(call(true, "--seed", "1", "--trace", NULL), 1);
    const char *line = strstr(said, "seed 1 failed at step ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "seed 1 failed at step %lu, %lld.%lld s",
                            &step, &seconds, &millis),
                     3);
    snprintf(text, sizeof(text), "%10lu %5lld.%03lld", step, seconds, millis);
    must_say(text);
    snprintf(text, sizeof(text), "00:00:%02lld.%03lld", seconds, millis);
    must_say(text);
}

static void test_TE5_an_active_class_never_reached_is_reported(void **state)
{
    (void)state;
    assert_int_equal(call(false, "--seeds", "2", NULL, NULL), 0);
    const char *drop = strstr(said, "fault   drop ");
    const char *delay = strstr(said, "fault   delay ");
    assert_non_null(drop);
    assert_non_null(delay);
    assert_true(drop < delay);
    const char *on = strstr(drop, "(switched on, never reached)");
    assert_true(on != NULL && on < delay);
    const char *off = strstr(delay, "(off)");
    assert_true(off != NULL && off < strstr(delay, "\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE5_a_wrong_argument_is_quoted),
        cmocka_unit_test(test_the_exit_status_tells_pass_fail_and_usage),
        cmocka_unit_test(test_TE5_unknown_fault_numbers_are_reported),
        cmocka_unit_test(test_TE5_a_passing_run_prints_so),
        cmocka_unit_test(test_TE5_a_failure_has_the_time_of_the_trace),
        cmocka_unit_test(test_TE5_an_active_class_never_reached_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
