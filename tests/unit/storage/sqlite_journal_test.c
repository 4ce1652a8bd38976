/*
 * sqlite_journal_test.c - the index of states that are not folded yet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "storage/sqlite_journal.h"

static tri_store_bytes bytes_of(const char *text)
{
    return (tri_store_bytes){text, strlen(text)};
}

static void put(tri_journal *journal, const char *key, uint64_t row,
                uint64_t version, const char *text)
{
    assert_int_equal(
        tri_journal_put(journal, bytes_of(key), row, version, bytes_of(text)),
        TR_OK);
    tri_journal_set_known(journal, row);
    tri_journal_check(journal);
}

/* The key has this state after row `folded`; NULL: the index lacks it. */
static void assert_state(tri_journal *journal, const char *key, uint64_t folded,
                         const char *expected)
{
    tri_store_op op = {.call = TR_STORE_LOAD, .key = bytes_of(key)};

    assert_int_equal(tri_journal_load(journal, &op, folded), expected != NULL);
    if (expected != NULL) {
        assert_int_equal(op.out_size, strlen(expected));
        assert_memory_equal(op.out, expected, op.out_size);
    }
    tri_store_op_fini(&op);
}

static void test_the_newest_row_of_a_key_counts(void **state)
{
    tri_journal journal;

    (void)state;
    tri_journal_init(&journal);
    put(&journal, "a", 1, 1, "one");
    put(&journal, "a", 3, 2, "two");
    put(&journal, "a", 2, 9, "old");  // comes late and changes nothing
    assert_state(&journal, "a", 0, "two");
    assert_state(&journal, "a", 3, NULL);
    assert_state(&journal, "b", 0, NULL);
    assert_int_equal(tri_journal_known(&journal), 3);
    assert_int_equal(tri_journal_size(&journal), 3);
    tri_journal_fini(&journal);
}

static void test_a_deleted_state_is_known_and_not_found(void **state)
{
    tri_journal journal;
    tri_store_op op = {.call = TR_STORE_LOAD, .key = bytes_of("a")};

    (void)state;
    tri_journal_init(&journal);
    put(&journal, "a", 1, 1, "one");
    put(&journal, "a", 2, 0, "");
    assert_true(tri_journal_load(&journal, &op, 0));
    assert_false(op.found);
    tri_journal_fini(&journal);
}

/* Claims a key, as the writer does, and stages a state for it. */
static void stage(tri_journal *journal, tri_list *claims, const char *key,
                  uint64_t row, const char *text)
{
    bool known;
    uint64_t version;
    tri_journal_entry *entry =
        tri_journal_claim(journal, bytes_of(key), 0, claims, &known, &version);

    if (entry == NULL) {
        entry = tri_journal_claim_new(journal, bytes_of(key), claims);
    }
    assert_non_null(entry);
    assert_int_equal(tri_journal_stage(entry, row, version + 1, bytes_of(text)),
                     TR_OK);
    tri_journal_check(journal);
}

static void test_staged_states_are_seen_after_the_commit(void **state)
{
    tri_journal journal;
    tri_list claims;
    bool known;
    uint64_t version;

    (void)state;
    tri_journal_init(&journal);
    tri_list_init(&claims);
    put(&journal, "a", 1, 1, "one");
    stage(&journal, &claims, "a", 2, "two");
    stage(&journal, &claims, "b", 3, "new");
    assert_state(&journal, "a", 0, "one");
    assert_state(&journal, "b", 0, NULL);
    // The writer itself sees what it has staged.
    (void)tri_journal_claim(&journal, bytes_of("a"), 0, &claims, &known,
                            &version);
    assert_true(known);
    assert_int_equal(version, 2);
    tri_journal_end_claims(&journal, &claims, true);
    tri_journal_check(&journal);
    assert_state(&journal, "a", 0, "two");
    assert_state(&journal, "b", 0, "new");
    tri_journal_fini(&journal);
}

static void test_staged_states_are_dropped_without_a_commit(void **state)
{
    tri_journal journal;
    tri_list claims;

    (void)state;
    tri_journal_init(&journal);
    tri_list_init(&claims);
    put(&journal, "a", 1, 1, "one");
    stage(&journal, &claims, "a", 2, "two");
    stage(&journal, &claims, "b", 3, "new");
    tri_journal_end_claims(&journal, &claims, false);
    assert_true(tri_list_is_empty(&claims));
    tri_journal_check(&journal);
    assert_state(&journal, "a", 0, "one");
    assert_state(&journal, "b", 0, NULL);
    tri_journal_fini(&journal);
}

static void test_pruning_spares_pinned_and_claimed_entries(void **state)
{
    tri_journal journal;
    tri_list claims;
    uint64_t upto;
    size_t count;

    (void)state;
    tri_journal_init(&journal);
    tri_list_init(&claims);
    put(&journal, "a", 1, 1, "one");
    stage(&journal, &claims, "a", 2, "two");
    tri_journal_prune(&journal, 1);
    assert_state(&journal, "a", 0, "one");
    tri_journal_end_claims(&journal, &claims, true);
    tri_journal_set_known(&journal, 2);
    tri_journal_entry **entries = tri_journal_pin(&journal, 0, &upto, &count);
    tri_journal_prune(&journal, 2);
    assert_state(&journal, "a", 0, "two");
    tri_journal_unpin(&journal, entries, count);
    free(entries);
    tri_journal_prune(&journal, 2);
    assert_state(&journal, "a", 0, NULL);
    tri_journal_check(&journal);
    tri_journal_fini(&journal);
}

static void test_a_fold_gets_its_generation_sorted_by_key(void **state)
{
    tri_journal journal;
    uint64_t upto, version;
    size_t count, capacity = 0, size;
    void *buffer = NULL;

    (void)state;
    tri_journal_init(&journal);
    put(&journal, "c", 1, 1, "folded");
    put(&journal, "b", 2, 1, "second");
    put(&journal, "a", 3, 1, "first");
    put(&journal, "ab", 4, 1, "between");
    tri_journal_entry **entries = tri_journal_pin(&journal, 1, &upto, &count);
    assert_int_equal(upto, 4);
    assert_int_equal(count, 3);
    assert_memory_equal(entries[0]->key, "a", 1);
    assert_memory_equal(entries[1]->key, "ab", 2);
    assert_memory_equal(entries[2]->key, "b", 1);
    assert_int_equal(tri_journal_copy(&journal, entries[2], 1, upto, &buffer,
                                      &capacity, &version, &size),
                     TR_OK);
    assert_int_equal(size, 6);
    assert_memory_equal(buffer, "second", 6);
    // A state that is newer than the generation stays for the next one.
    put(&journal, "b", 5, 2, "newer");
    assert_int_equal(tri_journal_copy(&journal, entries[2], 1, upto, &buffer,
                                      &capacity, &version, &size),
                     TR_ENOENT);
    tri_journal_unpin(&journal, entries, count);
    free(entries);
    free(buffer);
    tri_journal_fini(&journal);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_row_of_a_key_counts),
        cmocka_unit_test(test_a_deleted_state_is_known_and_not_found),
        cmocka_unit_test(test_staged_states_are_seen_after_the_commit),
        cmocka_unit_test(test_staged_states_are_dropped_without_a_commit),
        cmocka_unit_test(test_pruning_spares_pinned_and_claimed_entries),
        cmocka_unit_test(test_a_fold_gets_its_generation_sorted_by_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
