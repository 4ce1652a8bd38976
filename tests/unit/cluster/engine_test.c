/*
 * engine_test.c - the contract of an engine, held by every engine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <troupe/sim.h>

#include "support/aborts.h"
#include "unit/cluster/engine_calls.h"
#include "unit/storage/store_calls.h"

/* Two engines that share a table. */
typedef struct pair {
    tr_sim *sim;  // or NULL
    folder folder;
    tr_engine *a, *b;
} pair;

static int close_pair(void **state)
{
    pair *it = *state;
    int left = 0;

    tr_engine_close(it->a);
    tr_engine_close(it->b);
    tr_sim_free(it->sim);
    if (it->folder.path[0] != '\0') {
        left = folder_remove(&it->folder);
    }
    free(it);
    return left;
}

static pair *pair_new(void **state)
{
    pair *it = calloc(1, sizeof(*it));

    assert_non_null(it);
    *state = it;
    return it;
}

static int open_memory(void **state)
{
    pair *it = pair_new(state);

    TR_MUST(tr_engine_memory(&it->a, "contract", NULL));
    TR_MUST(tr_engine_memory(&it->b, "contract", NULL));
    return 0;
}

static int open_simulated(void **state)
{
    pair *it = pair_new(state);

    TR_MUST(tr_sim_new(&it->sim, 7));
    tr_engine_options options = {.size = sizeof(options),
                                 .world = tr_sim_world(it->sim)};
    TR_MUST(tr_engine_memory(&it->a, "contract", &options));
    TR_MUST(tr_engine_memory(&it->b, "contract", &options));
    return 0;
}

static int open_sqlite(void **state)
{
    pair *it = pair_new(state);

    assert_true(folder_make(&it->folder));
    TR_MUST(tr_engine_sqlite(&it->a, it->folder.database, NULL));
    TR_MUST(tr_engine_sqlite(&it->b, it->folder.database, NULL));
    return 0;
}

#define assert_rows(engine, call, key, after, expected)                        \
    do {                                                                       \
        char rows_[ROWS_TEXT];                                                 \
        assert_string_equal(rows_text(engine, call, key, after, rows_),        \
                            expected);                                         \
    } while (0)
#define assert_key(engine, key, expected)                                      \
    assert_rows(engine, TRI_ENGINE_GET, key, 0, expected)

/* ---- one key ---- */

static void test_a_key_is_created_once(void **state)
{
    pair *it = *state;

    assert_key(it->a, "k", "");
    assert_int_equal(cas_text(it->a, "k", 0, "one", NULL), TRI_ENGINE_YES);
    assert_int_equal(cas_text(it->b, "k", 0, "two", NULL), TRI_ENGINE_NO);
    assert_key(it->a, "k", "k=one");
    assert_key(it->b, "k", "k=one");
}

static void test_a_cas_needs_the_revision_of_the_key(void **state)
{
    pair *it = *state;
    uint64_t first = 0, second = 0;

    (void)cas_text(it->a, "k", 0, "one", &first);
    assert_int_equal(cas_text(it->b, "k", first, "two", &second),
                     TRI_ENGINE_YES);
    assert_true(second > first);
    assert_int_equal(cas_text(it->a, "k", first, "three", NULL), TRI_ENGINE_NO);
    assert_int_equal(cas_text(it->a, "k", second + 1, "three", NULL),
                     TRI_ENGINE_NO);
    assert_key(it->a, "k", "k=two");
}

static void test_a_key_that_is_written_again_has_a_new_revision(void **state)
{
    pair *it = *state;
    uint64_t first = 0, second = 0, found = 0;

    (void)cas_text(it->a, "k", 0, "1", &first);
    assert_int_equal(cas_text(it->b, "k", first, NULL, NULL), TRI_ENGINE_YES);
    assert_key(it->a, "k", "");
    assert_int_equal(cas_text(it->a, "k", first, "2", NULL), TRI_ENGINE_NO);
    assert_int_equal(cas_text(it->a, "k", 0, "3", &second), TRI_ENGINE_YES);
    assert_true(second > first + 1);
    assert_int_equal(read_number(it->b, "k", &found), 3);
    assert_int_equal(found, second);
}

static void test_revisions_grow_over_all_keys(void **state)
{
    pair *it = *state;
    uint64_t last = 0, now = 0;
    char key[8];

    for (int i = 0; i < 20; i++) {
        snprintf(key, sizeof(key), "k%d", 19 - i);
        assert_int_equal(
            cas_text(i % 2 == 0 ? it->a : it->b, key, 0, "x", &now),
            TRI_ENGINE_YES);
        assert_true(now > last);
        last = now;
    }
    posed read;
    assert_int_equal(read_run(&read, it->a, TRI_ENGINE_GET, "none", 0),
                     TRI_ENGINE_YES);
    assert_int_equal(read.op.revision, last);
}

static void test_values_are_bytes(void **state)
{
    pair *it = *state;
    size_t size = TRI_ENGINE_VALUE_MAX;
    char *bytes = malloc(size);
    posed cas = {.op = {.call = TRI_ENGINE_CAS, .change_count = 1}}, read;

    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)(i * 7);
    }
    cas.change = (tri_engine_change){"k", 0, bytes, size};
    cas.op.changes = &cas.change;
    assert_int_equal(posed_run(&cas, it->a), TRI_ENGINE_YES);
    assert_int_equal(read_run(&read, it->b, TRI_ENGINE_GET, "k", 0),
                     TRI_ENGINE_YES);
    assert_int_equal(tri_engine_op_row(&read.op)->size, size);
    assert_memory_equal(tri_engine_op_row(&read.op)->value, bytes, size);
    tri_engine_op_fini(&read.op);
    free(bytes);
    // An empty value is a value.
    assert_int_equal(cas_text(it->a, "empty", 0, "", NULL), TRI_ENGINE_YES);
    assert_key(it->b, "empty", "empty=");
}

/* ---- many keys ---- */

static void test_a_range_is_in_order_of_keys(void **state)
{
    pair *it = *state;
    static const char *const keys[] = {"a/2", "b", "a/10", "a", "a/1", "a0"};

    for (size_t i = 0; i < TRI_COUNT_OF(keys); i++) {
        (void)cas_text(it->a, keys[i], 0, "x", NULL);
    }
    assert_rows(it->b, TRI_ENGINE_RANGE, "a/", 0, "a/1=x a/10=x a/2=x");
    assert_rows(it->b, TRI_ENGINE_RANGE, "", 0,
                "a=x a/1=x a/10=x a/2=x a0=x b=x");
    assert_rows(it->b, TRI_ENGINE_RANGE, "c", 0, "");
}

static void test_a_range_may_show_only_newer_keys(void **state)
{
    pair *it = *state;
    uint64_t first = 0, second = 0, third = 0;

    (void)cas_text(it->a, "a/1", 0, "x", &first);
    (void)cas_text(it->a, "a/2", 0, "y", &second);
    (void)cas_text(it->a, "b", 0, "z", NULL);
    assert_rows(it->b, TRI_ENGINE_RANGE, "a/", first, "a/2=y");
    assert_rows(it->b, TRI_ENGINE_RANGE, "a/", second, "");
    (void)cas_text(it->a, "a/1", first, "w", &third);
    assert_rows(it->b, TRI_ENGINE_RANGE, "a/", second, "a/1=w");
}

static void test_changes_commit_together_or_not_at_all(void **state)
{
    pair *it = *state;
    uint64_t first = 0;
    posed cas = {.op = {.call = TRI_ENGINE_CAS, .change_count = 3}}, read;

    (void)cas_text(it->a, "old", 0, "x", &first);
    (void)cas_text(it->a, "gone", 0, "x", NULL);
    tri_engine_change changes[] = {
        {"new", 0, "n", 1}, {"old", first, "o", 1}, {"gone", first, NULL, 0}};
    cas.op.changes = changes;
    assert_int_equal(posed_run(&cas, it->b), TRI_ENGINE_NO);
    assert_rows(it->a, TRI_ENGINE_RANGE, "", 0, "gone=x old=x");
    changes[2].expected = first + 1;
    assert_int_equal(posed_run(&cas, it->b), TRI_ENGINE_YES);
    assert_int_equal(read_run(&read, it->a, TRI_ENGINE_RANGE, "", 0),
                     TRI_ENGINE_YES);
    assert_int_equal(read.op.row_count, 2);
    TRI_LIST_EACH_ITEM (row, &read.op.rows, tri_engine_row, link) {
        assert_int_equal(row->revision, cas.op.revision);
    }
    tri_engine_op_fini(&read.op);
}

/* The largest CAS, as often as it takes to write all shards of a cluster. */
static void test_the_largest_cas(void **state)
{
    enum { ROUNDS = 9 };
    pair *it = *state;
    tri_engine_change changes[TRI_ENGINE_CHANGES_MAX];
    char keys[TRI_ENGINE_CHANGES_MAX][16];
    posed read;

    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < TRI_ENGINE_CHANGES_MAX; i++) {
            snprintf(keys[i], sizeof(keys[i]), "s/%d/%u", round, i);
            changes[i] = (tri_engine_change){keys[i], 0, "x", 1};
        }
        posed cas = {.op = {.call = TRI_ENGINE_CAS,
                            .changes = changes,
                            .change_count = TRI_ENGINE_CHANGES_MAX}};
        assert_int_equal(posed_run(&cas, it->a), TRI_ENGINE_YES);
    }
    assert_int_equal(read_run(&read, it->b, TRI_ENGINE_RANGE, "s/", 0),
                     TRI_ENGINE_YES);
    assert_int_equal(read.op.row_count, ROUNDS * TRI_ENGINE_CHANGES_MAX);
    tri_engine_op_fini(&read.op);
}

/* ---- several callers ---- */

enum { CLIMBERS = 6, CLIMB = 25 };

/* Increments a counter by CAS again and again, from the answers themselves. */
typedef struct climber {
    tri_engine_op op;
    tri_engine_change change;
    tr_engine *engine;
    uint64_t value;
    uint32_t wins;
    char text[24];
    _Atomic(uint32_t) *left;
} climber;

static void climb_on(tri_engine_op *op);

static void climb(climber *it, tri_engine_call call)
{
    it->op = (tri_engine_op){.call = call,
                             .key = "sum",
                             .changes = &it->change,
                             .change_count = 1,
                             .done = climb_on};
    tri_engine_submit(it->engine, &it->op);
}

static void climb_on(tri_engine_op *op)
{
    climber *it = tri_container_of(op, climber, op);
    tri_world *world = it->engine->world;

    if (op->call == TRI_ENGINE_CAS) {
        it->wins += op->answer == TRI_ENGINE_YES;
        if (it->wins == CLIMB) {
            // Release: pairs with the acquire of the test.
            atomic_fetch_sub_explicit(it->left, 1, memory_order_release);
            world->ops->wake(world, it->left, 1);
        } else {
            climb(it, TRI_ENGINE_GET);
        }
        return;
    }
    tri_engine_row *row = tri_engine_op_row(op);
    it->value = row == NULL ? 0 : strtoull(row->value, NULL, 10);
    snprintf(it->text, sizeof(it->text), "%llu",
             (unsigned long long)it->value + 1);
    it->change = (tri_engine_change){"sum", row == NULL ? 0 : row->revision,
                                     it->text, strlen(it->text) + 1};
    tri_engine_op_fini(op);
    climb(it, TRI_ENGINE_CAS);
}

static void test_no_increment_is_lost_between_callers(void **state)
{
    pair *it = *state;
    tri_world *world = it->a->world;
    climber climbers[CLIMBERS];
    _Atomic(uint32_t) left = CLIMBERS;
    uint64_t revision;

    for (int i = 0; i < CLIMBERS; i++) {
        climbers[i] =
            (climber){.engine = i % 2 == 0 ? it->a : it->b, .left = &left};
        climb(&climbers[i], TRI_ENGINE_GET);
    }
    for (uint32_t now;
         (now = atomic_load_explicit(&left, memory_order_acquire)) > 0;) {
        (void)world->ops->park(world, &left, now, TR_FOREVER);
    }
    assert_int_equal(read_number(it->a, "sum", &revision), CLIMBERS * CLIMB);
}

/* ---- watching ---- */

static void test_a_watch_tells_of_a_change_by_another(void **state)
{
    pair *it = *state;
    uint64_t first = 0, second = 0;

    (void)cas_text(it->a, "w/1", 0, "x", &first);
    posed watch = {
        .op = {.call = TRI_ENGINE_WATCH, .key = "w/", .after = first}};
    posed_submit(&watch, it->a);
    (void)cas_text(it->b, "w/2", 0, "y", &second);
    assert_int_equal(posed_wait(&watch), TRI_ENGINE_YES);
    assert_true(watch.op.revision >= second);
}

static void test_a_watch_tells_of_a_delete(void **state)
{
    pair *it = *state;
    uint64_t first = 0;

    (void)cas_text(it->a, "w/1", 0, "x", &first);
    posed watch = {
        .op = {.call = TRI_ENGINE_WATCH, .key = "w/", .after = first}};
    posed_submit(&watch, it->a);
    (void)cas_text(it->b, "w/1", first, NULL, NULL);
    assert_int_equal(posed_wait(&watch), TRI_ENGINE_YES);
}

static void test_a_watch_of_something_old_is_answered_at_once(void **state)
{
    pair *it = *state;

    (void)cas_text(it->a, "w", 0, "x", NULL);
    posed watch = {.op = {.call = TRI_ENGINE_WATCH, .key = "w"}};
    assert_int_equal(posed_run(&watch, it->b), TRI_ENGINE_YES);
}

static void test_a_watch_can_be_cancelled(void **state)
{
    pair *it = *state;
    posed watch = {.op = {.call = TRI_ENGINE_WATCH, .key = "w"}};

    posed_submit(&watch, it->a);
    tri_engine_cancel(it->a, &watch.op);
    assert_int_equal(posed_wait(&watch), TRI_ENGINE_UNKNOWN);
    assert_int_equal(watch.op.err, TR_ESTOPPED);
}

static void test_closing_answers_watches(void **state)
{
    pair *it = *state;
    posed watch = {.op = {.call = TRI_ENGINE_WATCH, .key = "w"}};

    posed_submit(&watch, it->a);
    tr_engine_close(it->a);
    it->a = NULL;
    assert_int_equal(atomic_load_explicit(&watch.answers, memory_order_acquire),
                     1);
    assert_int_equal(watch.op.answer, TRI_ENGINE_UNKNOWN);
    assert_int_equal(watch.op.err, TR_ECLOSED);
}

/* ---- mistakes ---- */

static void close_held(void *user)
{
    tr_engine_close(user);
}

static void test_a_held_engine_is_not_closed(void **state)
{
    pair *it = *state;

    tri_engine_hold(it->a);
    assert_true(aborts(close_held, it->a));
    tri_engine_drop(it->a);
}

#define IN_EACH(test)                                                          \
    {"memory: " #test, test, open_memory, close_pair, NULL},                   \
        {"simulated: " #test, test, open_simulated, close_pair, NULL},         \
    {                                                                          \
        "sqlite: " #test, test, open_sqlite, close_pair, NULL                  \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_EACH(test_a_key_is_created_once),
        IN_EACH(test_a_cas_needs_the_revision_of_the_key),
        IN_EACH(test_a_key_that_is_written_again_has_a_new_revision),
        IN_EACH(test_revisions_grow_over_all_keys),
        IN_EACH(test_values_are_bytes),
        IN_EACH(test_a_range_is_in_order_of_keys),
        IN_EACH(test_a_range_may_show_only_newer_keys),
        IN_EACH(test_changes_commit_together_or_not_at_all),
        IN_EACH(test_the_largest_cas),
        IN_EACH(test_no_increment_is_lost_between_callers),
        IN_EACH(test_a_watch_tells_of_a_change_by_another),
        IN_EACH(test_a_watch_tells_of_a_delete),
        IN_EACH(test_a_watch_of_something_old_is_answered_at_once),
        IN_EACH(test_a_watch_can_be_cancelled),
        IN_EACH(test_closing_answers_watches),
        IN_EACH(test_a_held_engine_is_not_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
