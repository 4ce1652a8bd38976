/*
 * mem_test.c - the memory budget of a system.
 */
#include <stdatomic.h>

#include "support/stage.h"

#include <string.h>

#include "core/cell/cache.h"
#include "core/cell/mem.h"
#include "support/core.h"
#include "unit/core/waiting.h"

/* Chunks grow with the system; the last ones still fit into the budget. */
static void test_X27_a_budget_is_used_to_its_last_chunk(void **state)
{
    enum { BUDGET = 36 << 20, CHUNK = 256 << 10, CLASS = 3, OTHERS = 3 };
    (void)state;
    tri_mem mem;
    tri_cache cache;
    size_t bytes = 0;
    tri_mem_init(&mem, BUDGET);
    tri_mem_limit(&mem, BUDGET);
    tri_cache_init(&cache, &mem);
    for (uint32_t klass = 0; klass < OTHERS; klass++) {
        assert_non_null(tri_cache_alloc(&cache, klass));
    }
    while (tri_cache_alloc(&cache, CLASS) != NULL) {
        bytes += tri_class_size[CLASS];
    }
    assert_true(bytes > BUDGET - (OTHERS + 2) * CHUNK);
    tri_mem_fini(&mem);

    // Other classes get their first block after one class has grown large.
    tri_mem_init(&mem, BUDGET);
    tri_mem_limit(&mem, BUDGET);
    tri_cache_init(&cache, &mem);
    for (bytes = 0; bytes < BUDGET - 16 * CHUNK;
         bytes += tri_class_size[CLASS]) {
        assert_non_null(tri_cache_alloc(&cache, CLASS));
    }
    for (uint32_t klass = 0; klass < OTHERS; klass++) {
        assert_non_null(tri_cache_alloc(&cache, klass));
    }
    tri_mem_fini(&mem);
}

static void test_X27_a_send_beyond_the_memory_budget_fails(void **state)
{
    stage it;
    tr_system_options options = {.size = sizeof(options),
                                 .memory_budget = 8 << 20};
    (void)state;
    stage_open_seed(&it, 1, &options);
    keep_busy(&it, it.one);
    uint32_t sent = 0;
    while (sent < 1000000 &&
           tr_try_tell(it.sys, it.one, Note, .value = 1) == TR_OK) {
        sent++;
    }
    assert_true(sent > 1000 && sent < 1000000);
    tr_metrics_snapshot now = {.size = sizeof(now)};
    stage_pass(&it, TR_SECONDS(2));
    tr_metrics(it.sys, &now);
    assert_int_equal(atomic_load(&it.note_count), sent);
    stage_close(&it);
}

/* An actor whose state takes half a megabyte of the budget. */
typedef struct Ledger {
    int64_t words[64 * 1024];
} Ledger;

TR_MESSAGE(Put, (uint32_t, index), (int64_t, value));
TR_MESSAGE(Parcel, (const char *, text));  // not handled by it

static tr_err on_put(tr_ctx *ctx, Ledger *self, const Put *m)
{
    (void)ctx;
    self->words[m->index] = m->value;
    return TR_OK;
}

TR_ACTOR(ledger, Ledger, TR_ON(Put, on_put));

static void test_PA7_a_large_message_beyond_the_budget_is_refused(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20, BUDGET = 32 << 20 };
    static char text[SIZE];
    memset(text, 'x', sizeof(text) - 1);
    tr_sim *sim;
    tr_system *sys;
    TR_MUST(tr_sim_new(&sim, 1));
    TR_MUST(tr_system_open(&sys, .world = tr_sim_world(sim), .log_level = 9,
                           .memory_budget = BUDGET));
    tr_ref ref = tr_spawn(sys, ledger);
    tr_sim_advance(sim, TR_SECONDS(1));  // its state counts against the budget
    tr_err err = TR_OK;
    int taken = 0;
    while (err == TR_OK && taken < 2 * BUDGET / SIZE) {
        err = tr_try_tell(sys, ref, Parcel, .text = text);
        taken += err == TR_OK;
    }
    assert_int_equal(err, TR_ENOMEM);
    assert_in_range(taken, 1, BUDGET / SIZE);
    // The messages were unhandled and are freed.
    tr_sim_advance(sim, TR_SECONDS(1));
    assert_int_equal(tr_try_tell(sys, ref, Parcel, .text = text), TR_OK);
    TR_MUST(tr_system_close(sys, 0));
    tr_sim_free(sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_X27_a_budget_is_used_to_its_last_chunk),
        cmocka_unit_test(test_X27_a_send_beyond_the_memory_budget_fails),
        cmocka_unit_test(test_PA7_a_large_message_beyond_the_budget_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
