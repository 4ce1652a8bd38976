/*
 * props_test.c - options of tr_spawn that an actor keeps: each of them alone,
 * and auto_stop.
 */
#include "support/stage.h"

#include "support/core.h"

typedef struct bare {
    int64_t value;
} bare;

static tr_err bare_note(tr_ctx *ctx, bare *self, const Note *m)
{
    (void)ctx;
    self->value = m->value;
    return TR_OK;
}

TR_ACTOR(bares, bare, TR_ON(Note, bare_note));

static void test_each_spawn_option_works_alone(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    const tr_spawn_options alone[] = {
        {.restart = TR_TEMPORARY},
        {.soft_limit = 10},
        {.mailbox_limit = 2},
        {.heap_limit = 1000},
        {.stop_timeout = TR_SECONDS(1)},
        {.drain = TR_DRAIN_DROP},
        {.joinable = true},
        {.inherit_supervision = true},
        {.auto_stop = true},
    };
    for (size_t i = 0; i < sizeof(alone) / sizeof(alone[0]); i++) {
        // No state and no name: only this option makes the actor need props.
        tr_spawn_options o = alone[i];
        o.size = sizeof(o);
        tr_ref ref = (tr_spawn)((tr_from){.sys = it.sys}, &bares, &o);
        expect_ok(tr_ref_err(ref));
        tri_cell *cell = tri_ref_cell(ref);
        assert_non_null(cell->props);
        assert_int_equal(cell->props->restart, o.restart);
        assert_int_equal(cell->props->soft_limit, o.soft_limit);
        assert_int_equal(cell->props->mailbox_limit, o.mailbox_limit);
        assert_int_equal(cell->props->drain, o.drain);
        assert_int_equal(cell->props->joinable, o.joinable);
    }
    stage_close(&it);
}

static void test_X37_an_auto_stop_actor_ends_with_its_last_handle(void **state)
{
    stage it;
    (void)state;
    stage_open(&it);
    tr_ref ref = stage_spawn(&it, .auto_stop = true);
    stage_run_ready(&it);
    tr_handle second = tr_handle_hold(it.sys, ref);
    tr_handle_drop(it.sys, ref);
    tr_tell(it.sys, ref, Note, .value = 1);
    stage_run_ready(&it);
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_RUNNING);
    tr_tell(it.sys, ref, Note, .value = 2);
    tr_handle_drop(it.sys, second.ref);
    stage_run_ready(&it);
    expect_notes(&it, 1, 2);  // mail that was sent before is handled
    assert_int_equal(tr_state_of(it.sys, ref), TR_STATE_TERMINATED);
    // A handle of an ended actor does nothing to the next one in its cell.
    tr_handle_drop(it.sys, tr_handle_hold(it.sys, ref).ref);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_spawn_option_works_alone),
        cmocka_unit_test(test_X37_an_auto_stop_actor_ends_with_its_last_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
