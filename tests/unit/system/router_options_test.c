/*
 * router_options_test.c - what the options of a router mean: every kind of
 * field as the key of TR_HASH_OF_FIELD, and the default number of workers.
 * router_test.c has the strategies and the supervision.
 */
#include "support/stage.h"

#include <string.h>

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
    tr_ref r = tr_router(
        it->sys, parcels, .count = 5, .field = field,
        .routing = TR_HASH_OF_FIELD,
        .worker = TR_OPTIONS(tr_spawn_options,
                             .supervision = TR_SUPERVISE(.max_restarts = 9)));
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

static void test_PA2_a_router_has_as_many_workers_as_the_system(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options), .workers = 3};
    tr_actor_info all[32];
    (void)state;
    stage_open_seed(&it, 1, &options);
    tr_ref r = tr_router(
        it.sys, puppets, .name = "r",
        .worker = TR_OPTIONS(tr_spawn_options, TR_INIT(puppets, .stage = &it)));
    expect_ok(tr_ref_err(r));
    stage_run_ready(&it);
    size_t before = tr_actors(it.sys, all, 32);
    tr_tell(it.sys, r, tr_resize, .count = 0);  // at least one: refused
    stage_run_ready(&it);
    assert_int_equal(tr_actors(it.sys, all, 32), before);
    tr_tell(it.sys, r, tr_resize, .count = 5);
    stage_run_ready(&it);
    assert_int_equal(tr_actors(it.sys, all, 32), before + 2);
    tr_tell(it.sys, r, tr_resize, .count = 1);
    stage_pass(&it, TR_SECONDS(1));
    assert_int_equal(tr_actors(it.sys, all, 32), before - 2);
    stage_close(&it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_PA2_any_field_can_be_hashed),
        cmocka_unit_test(test_PA2_a_router_has_as_many_workers_as_the_system),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
