/*
 * sim_options_test.c - options that make no sense are refused by name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <troupe/troupe.h>

#include "base/text.h"
#include "sim/sim.h"
#include "sim/sim_fault.h"
#include "sim/sim_options.h"

static tr_sim_options options_of(const tr_faults *faults)
{
    return (tr_sim_options){.size = sizeof(tr_sim_options), .faults = faults};
}

static void expect_refused(const tr_sim_options *options, const char *part)
{
    char line[TRI_SIM_LINE_MAX];
    tri_text why;
    tr_sim_options own;
    tr_faults faults;
    char *argv[] = {"program", NULL};

    tri_text_init(&why, line, sizeof(line));
    assert_false(tri_sim_options_take(&own, &faults, options, &why));
    if (strstr(line, part) == NULL) {
        fail_msg("%s: has no %s", line, part);
    }
    // The text mentions nodes only if the nodes are wrong.
    assert_true(strstr(line, "nodes") == NULL || options->nodes > 0);
    assert_int_equal(tr_sim_run(options), TR_EINVAL);
    assert_int_equal(tr_sim_main(1, argv, options), 2);
}

static void expect_taken(const tr_sim_options *options)
{
    char line[TRI_SIM_LINE_MAX];
    tri_text why;
    tr_sim_options own;
    tr_faults faults;

    tri_text_init(&why, line, sizeof(line));
    assert_true(tri_sim_options_take(&own, &faults, options, &why));
    assert_string_equal(line, "");
    assert_ptr_equal(own.faults, &faults);
}

static void test_TE4_a_probability_is_from_0_to_1(void **state)
{
    (void)state;
    static const double wrong[] = {2.0, -1.0, 1.0000001, INFINITY, NAN};
    tr_faults faults = {0};
    tr_sim_options options = options_of(&faults);

#define TRI_X(name)                                                            \
    faults = (tr_faults){.size = sizeof(faults), .name = 1.0};                 \
    expect_taken(&options);                                                    \
    for (size_t i = 0; i < TRI_COUNT_OF(wrong); i++) {                         \
        faults.name = wrong[i];                                                \
        expect_refused(&options, "tr_faults: ." #name " is ");                 \
    }
    TRI_SIM_FAULTS(TRI_X)
#undef TRI_X
}

static void test_TE4_a_missing_size_is_an_error(void **state)
{
    (void)state;
    tr_faults faults = {.node_kill = 0.1};
    tr_sim_options options = options_of(&faults);

    expect_refused(&options, "tr_faults: .size is not sizeof(tr_faults)");
    options = (tr_sim_options){.nodes = 0};
    expect_refused(&options,
                   "tr_sim_options: .size is not sizeof(tr_sim_options)");
    options = options_of(NULL);
    expect_taken(&options);
}

static void test_TE4_wrong_spans_and_node_counts_are_refused(void **state)
{
    (void)state;
    tr_faults faults = {.size = sizeof(faults), .pause_max = -1};
    tr_sim_options options = options_of(&faults);

    expect_refused(&options, "tr_faults: .pause_max is -1 ns");
    faults = (tr_faults){.size = sizeof(faults), .delay_max = -TR_SECONDS(1)};
    expect_refused(&options, "tr_faults: .delay_max is ");
    options = options_of(NULL);
    options.limit = -1;
    expect_refused(&options, "tr_sim_options: .limit is -1 ns");
    options = options_of(NULL);
    options.quiet_time = -1;
    expect_refused(&options, "tr_sim_options: .quiet_time is -1 ns");
    options = options_of(NULL);
    options.nodes = TRI_SIM_NODES_MAX + 1;
    expect_refused(&options, "tr_sim_options: .nodes is 65, above ");
    options = options_of(NULL);
    options.step_cost = -1;  // allowed: no cost
    expect_taken(&options);
}

static void draw_below_0(void)
{
    tr_sim *sim;

    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    TR_MUST(tr_sim_new(&sim, 1));
    (void)tr_sim_random(sim, 0);
}

static void test_TE4_tr_sim_random_of_0_aborts(void **state)
{
    (void)state;
    char text[512];
    int ends[2], status = 0;

    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        draw_below_0();
        _exit(0);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], text, sizeof(text) - 1);
    assert_true(got > 0);
    text[got] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_non_null(strstr(text, "tr_sim_random: below is 0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_TE4_a_probability_is_from_0_to_1),
        cmocka_unit_test(test_TE4_a_missing_size_is_an_error),
        cmocka_unit_test(test_TE4_wrong_spans_and_node_counts_are_refused),
        cmocka_unit_test(test_TE4_tr_sim_random_of_0_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
