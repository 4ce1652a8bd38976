/*
 * options_test.c - options of actors, systems, routers and dispatchers: each
 * one alone, and those that are refused.
 */
#include "support/stage.h"

#include <stdio.h>

#include "support/core.h"

/* ---- options of actors ---- */

/* Each alone, and all but one with the one before: nothing is shared wrongly. */
static void test_SP4_each_spawn_option_works_alone(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    const tr_spawn_options all[] = {
        {.size = sizeof(all[0]), .inherit_supervision = true},
        {.size = sizeof(all[0]), .restart = TR_TEMPORARY},
        {.size = sizeof(all[0]), .soft_limit = 7},
        {.size = sizeof(all[0]), .mailbox_limit = 7},
        {.size = sizeof(all[0]),
         .mailbox_limit = 7,
         .overflow = TR_OVERFLOW_DROP_OLD},
        {.size = sizeof(all[0]),
         .mailbox_limit = 7,
         .overflow = TR_OVERFLOW_DROP_OLD,
         .heap_limit = 100000},
        {.size = sizeof(all[0]), .heap_limit = 100000},
        {.size = sizeof(all[0]), .stop_timeout = TR_SECONDS(2)},
        {.size = sizeof(all[0]), .drain = TR_DRAIN_DROP},
        {.size = sizeof(all[0]), .joinable = true},
        {.size = sizeof(all[0]), .auto_stop = true},
    };
    enum { COUNT = sizeof(all) / sizeof(all[0]) };
    for (int round = 0; round < 2; round++) {
        tr_ref refs[COUNT];
        for (size_t i = 0; i < COUNT; i++) {
            refs[i] = stage_puppet(&it, &all[i]);
            expect_ok(tr_ref_err(refs[i]));
        }
        for (size_t i = 0; i < COUNT; i++) {
            expect_ok(stage_ask(&it, refs[i], act_nothing, NULL));
            const tri_props *props = tri_ref_cell(refs[i])->props;
            if (props != NULL) {
                assert_int_equal(props->mailbox_limit, all[i].mailbox_limit);
                assert_int_equal(props->overflow, all[i].overflow);
                assert_int_equal(props->heap_limit, all[i].heap_limit);
                assert_int_equal(props->drain, all[i].drain);
                assert_int_equal(props->restart, all[i].restart);
                assert_int_equal(props->joinable, all[i].joinable);
            }
        }
    }
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
    expect_err(tr_ref_err(tr_top_level(it.sys, puppets)), TR_EINVAL);
    ref = tr_top_level(it.sys, puppets, .name = "user");
    expect_err(tr_ref_err(ref), TR_EINVAL);
    ref = tr_top_level(it.sys, puppets, .name = "extra",
                       .stop_timeout = TR_SECONDS(-1));
    expect_err(tr_ref_err(ref), TR_EINVAL);
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
    for (int i = 0; i < TRI_POOLS_MAX; i++) {
        snprintf(small, sizeof(small), "d%d", i);
        if (tr_dispatcher_add(it->sys, small) != TR_OK) {
            break;
        }
        assert_true(i < TRI_POOLS_MAX - 1);  // there is a limit
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_SP4_each_spawn_option_works_alone),
        cmocka_unit_test(test_options_out_of_range_are_refused),
        cmocka_unit_test(test_DP4_dispatchers_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
