/*
 * storage_test.c - what every store promises about states, keys and errors.
 * Events and reminders are in storage_events_reminders_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unit/storage/all_stores.h"
#include "unit/storage/shared_counters.h"

/* ---- states ---- */

static void test_ST3_a_save_replaces_all_of_the_state(void **state)
{
    tr_storage *store = store_of(state);

    assert_int_equal(save_text(store, "a::b/c", 0, "a long first state"),
                     TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 1, "short"), TR_OK);
    assert_stored(store, "a::b/c", "2:short");
    assert_int_equal(save_text(store, "a::b/c", 2, ""), TR_OK);
    assert_stored(store, "a::b/c", "3:");
}

static void test_ST4_a_load_of_a_new_key_finds_nothing(void **state)
{
    asked load = ask_for(TR_STORE_LOAD, "a::b/never");

    assert_int_equal(asked_run(&load, store_of(state)), TR_OK);
    assert_false(load.op.found);
    assert_int_equal(load.op.version, 0);
    assert_null(load.op.out);
    assert_string_equal(load.op.text, "");
}

static void test_ST5_a_key_has_at_most_512_bytes(void **state)
{
    char key[TRI_STORE_KEY_MAX + 2];
    tr_storage *store = store_of(state);

    memset(key, 'k', sizeof(key));
    key[TRI_STORE_KEY_MAX] = '\0';
    assert_int_equal(save_text(store, key, 0, "x"), TR_OK);
    assert_stored(store, key, "1:x");
    key[TRI_STORE_KEY_MAX] = 'k';
    key[TRI_STORE_KEY_MAX + 1] = '\0';
    assert_int_equal(save_text(store, key, 0, "x"), TR_EINVAL);
    assert_int_equal(save_text(store, "", 0, "x"), TR_EINVAL);
}

/* Zeros, and bytes that are no text. */
static void test_ST7_a_state_may_be_any_bytes(void **state)
{
    static const char bytes[] = {0, 1, (char)0xff, 0, '"', (char)0x80, 0};
    asked save = ask_for(TR_STORE_SAVE, "a::b/c");
    asked load = ask_for(TR_STORE_LOAD, "a::b/c");

    save.op.bytes = (tri_store_bytes){bytes, sizeof(bytes)};
    assert_int_equal(asked_run(&save, store_of(state)), TR_OK);
    assert_int_equal(asked_run(&load, store_of(state)), TR_OK);
    assert_int_equal(load.op.out_size, sizeof(bytes));
    assert_memory_equal(load.op.out, bytes, sizeof(bytes));
    tri_store_op_fini(&load.op);
}

static void test_ST8_keys_of_other_spaces_and_types_are_separate(void **state)
{
    tr_storage *store = store_of(state);
    static const char *const keys[] = {"a::b/c", "a::c/c", "b::b/c", "a::b/c2",
                                       "a::b/C"};
    char expected[8];

    for (size_t i = 0; i < TRI_COUNT_OF(keys); i++) {
        snprintf(expected, sizeof(expected), "%zu", i);
        assert_int_equal(save_text(store, keys[i], 0, expected), TR_OK);
    }
    for (size_t i = 0; i < TRI_COUNT_OF(keys); i++) {
        snprintf(expected, sizeof(expected), "1:%zu", i);
        assert_stored(store, keys[i], expected);
    }
}

static void test_ST9_a_load_returns_the_saved_state(void **state)
{
    tr_storage *store = store_of(state);
    char key[32], text[512];

    for (int i = 0; i < 50; i++) {
        snprintf(key, sizeof(key), "a::b/%d", i);
        memset(text, 'a' + i % 26, sizeof(text));
        text[i * 10] = '\0';
        assert_int_equal(save_text(store, key, 0, text), TR_OK);
        asked load = ask_for(TR_STORE_LOAD, key);
        assert_int_equal(asked_run(&load, store), TR_OK);
        assert_int_equal(load.op.out_size, i * 10);
        assert_memory_equal(load.op.out, text, (size_t)i * 10);
        tri_store_op_fini(&load.op);
    }
}

static void test_ST10_a_save_of_an_old_version_is_refused(void **state)
{
    tr_storage *store = store_of(state);

    assert_int_equal(save_text(store, "a::b/c", 0, "first"), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 0, "late"), TR_EFENCED);
    assert_stored(store, "a::b/c", "1:first");
    assert_int_equal(save_text(store, "a::b/c", 1, "winner"), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 1, "loser"), TR_EFENCED);
    assert_stored(store, "a::b/c", "2:winner");
}

static void test_ST10_a_lower_epoch_is_fenced(void **state)
{
    tr_storage *store = store_of(state);
    asked save = ask_save("a::b/c", 0, "old owner");
    asked fence = ask_for(TR_STORE_FENCE, "a::b/c");

    save.op.shard = 7;
    save.op.epoch = 4;
    assert_int_equal(asked_run(&save, store), TR_OK);
    fence.op.shard = 7;
    fence.op.epoch = 5;
    assert_int_equal(asked_run(&fence, store), TR_OK);
    assert_int_equal(fence.op.version, 5);

    // The old owner comes back with the right version.
    save.op.number = 1;
    assert_int_equal(asked_run(&save, store), TR_EFENCED);
    assert_string_equal(
        save.op.text, "OperationFailed(shard 7 belongs to epoch 5, this is 4)");
    assert_stored(store, "a::b/c", "1:old owner");
    fence.op.epoch = 4;
    assert_int_equal(asked_run(&fence, store), TR_EFENCED);

    // A save raises the fence as well. Other shards have their own fences.
    save.op.epoch = 6;
    save.op.bytes = bytes_of("new owner");
    assert_int_equal(asked_run(&save, store), TR_OK);
    save.op.number = 2;
    save.op.epoch = 5;
    assert_int_equal(asked_run(&save, store), TR_EFENCED);
    save.op.shard = 8;
    assert_int_equal(asked_run(&save, store), TR_OK);
}

static void test_ST10_namespaces_do_not_fence_each_other(void **state)
{
    tr_storage *store = store_of(state);
    asked fence = ask_for(TR_STORE_FENCE, "a::b/c");
    asked other = ask_save("ab::b/c", 0, "another cluster");
    asked same = ask_save("a::x/y", 0, "the same cluster");

    fence.op.shard = other.op.shard = same.op.shard = 7;
    fence.op.epoch = 5;
    other.op.epoch = same.op.epoch = 4;
    assert_int_equal(asked_run(&fence, store), TR_OK);
    assert_int_equal(asked_run(&same, store), TR_EFENCED);
    assert_int_equal(asked_run(&other, store), TR_OK);
    assert_stored(store, "ab::b/c", "1:another cluster");
}

/* The writes of a plain actor, of every kind, beside a fence. */
static void test_a_write_without_an_epoch_passes_every_fence(void **state)
{
    tr_storage *store = store_of(state);
    asked fence = ask_for(TR_STORE_FENCE, "a::b/c");
    asked append = ask_for(TR_STORE_APPEND, "a::b/c");
    asked trim = ask_for(TR_STORE_TRIM, "a::b/c");
    asked remind = ask_for(TR_STORE_REMIND, "a::b/c");
    asked forget = ask_for(TR_STORE_FORGET, "a::b/c");
    asked delete = ask_for(TR_STORE_DELETE, "a::b/c");
    tri_store_bytes event = bytes_of("event");

    fence.op.epoch = 5;
    assert_int_equal(asked_run(&fence, store), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 0, "plain"), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 0, "late"), TR_EFENCED);
    append.op.events = &event;
    append.op.event_count = 1;
    assert_int_equal(asked_run(&append, store), TR_OK);
    trim.op.number = 1;
    assert_int_equal(asked_run(&trim, store), TR_OK);
    remind.op.name = forget.op.name = bytes_of("bill");
    remind.op.number = 7;
    assert_int_equal(asked_run(&remind, store), TR_OK);
    assert_true(remind.op.found);
    assert_int_equal(asked_run(&forget, store), TR_OK);
    assert_true(forget.op.found);
    delete.op.number = 1;
    delete.op.after = 1;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_true(delete.op.found);

    // The fence is as it was.
    asked save = ask_save("a::b/d", 0, "owner");
    save.op.epoch = 4;
    assert_int_equal(asked_run(&save, store), TR_EFENCED);
    save.op.epoch = 5;
    assert_int_equal(asked_run(&save, store), TR_OK);
}

/* A refused save does not raise the fence. */
static void test_a_refused_save_changes_nothing(void **state)
{
    tr_storage *store = store_of(state);
    asked save = ask_save("a::b/c", 3, "x");

    save.op.epoch = 9;
    assert_int_equal(asked_run(&save, store), TR_ENOENT);
    assert_int_equal(save_text(store, "a::b/c", 0, "epoch 0"), TR_OK);
}

static void test_ST15_errors_have_a_text(void **state)
{
    asked save = ask_save("a::b/c", 3, "x");

    assert_int_equal(asked_run(&save, store_of(state)), TR_ENOENT);
    assert_int_equal(save.op.fault, TRI_STORE_FAULT_NOT_FOUND);
    assert_string_equal(save.op.text, "NotFound(a::b/c)");
    save.op.number = 0;
    assert_int_equal(asked_run(&save, store_of(state)), TR_OK);
    assert_string_equal(save.op.text, "");
    assert_int_equal(asked_run(&save, store_of(state)), TR_EFENCED);
    assert_string_equal(save.op.text,
                        "OperationFailed(version 1 is stored, 0 was expected)");
}

static void test_delete_checks_the_version(void **state)
{
    tr_storage *store = store_of(state);
    asked delete = ask_for(TR_STORE_DELETE, "a::b/c");

    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_false(delete.op.found);
    assert_int_equal(save_text(store, "a::b/c", 0, "x"), TR_OK);
    assert_int_equal(asked_run(&delete, store), TR_EFENCED);
    delete.op.number = 1;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_true(delete.op.found);
    assert_stored(store, "a::b/c", "none");
    assert_int_equal(asked_run(&delete, store), TR_ENOENT);
    assert_int_equal(save_text(store, "a::b/c", 0, "again"), TR_OK);
    assert_stored(store, "a::b/c", "1:again");
}

static asked ask_append(const char *key, uint64_t last,
                        const tri_store_bytes *event)
{
    asked it = ask_for(TR_STORE_APPEND, key);

    it.op.number = last;
    it.op.events = event;
    it.op.event_count = 1;
    return it;
}

/* State and events go together, and only if both are as expected. */
static void test_delete_removes_the_events_too(void **state)
{
    tr_storage *store = store_of(state);
    tri_store_bytes event = bytes_of("event");
    asked one = ask_append("a::b/c", 0, &event);
    asked two = ask_append("a::b/c", 1, &event);
    asked delete = ask_for(TR_STORE_DELETE, "a::b/c");
    asked read = ask_for(TR_STORE_READ, "a::b/c");

    assert_int_equal(asked_run(&one, store), TR_OK);
    assert_int_equal(asked_run(&two, store), TR_OK);
    assert_int_equal(save_text(store, "a::b/c", 0, "snapshot"), TR_OK);
    delete.op.number = 1;
    delete.op.after = 1;
    assert_int_equal(asked_run(&delete, store), TR_EFENCED);
    delete.op.number = 2;
    delete.op.after = 2;
    assert_int_equal(asked_run(&delete, store), TR_EFENCED);
    assert_stored(store, "a::b/c", "1:snapshot");
    delete.op.number = 1;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_true(delete.op.found);
    assert_stored(store, "a::b/c", "none");
    assert_int_equal(asked_run(&read, store), TR_OK);
    assert_int_equal(read.op.version, 0);
    assert_false(read.op.found);

    // Both begin anew, and events alone are deleted as well.
    assert_int_equal(asked_run(&two, store), TR_ENOENT);
    assert_int_equal(asked_run(&one, store), TR_OK);
    assert_int_equal(one.op.version, 1);
    delete.op.number = 0;
    delete.op.after = 1;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_true(delete.op.found);
    delete.op.after = 0;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_false(delete.op.found);
}

/* ---- keys ---- */

/* Lists keys as "b/1 b/2", one page of `limit` keys after the other. */
static void assert_keys(tr_storage *store, const char *prefix, uint32_t limit,
                        const char *expected)
{
    char found[1024] = "", after[TRI_STORE_KEY_MAX + 1] = "";
    asked scan;

    do {
        tri_store_row row;
        uint32_t count = 0;
        scan = ask_for(TR_STORE_SCAN, after);
        scan.op.bytes = bytes_of(prefix);
        scan.op.limit = limit;
        assert_int_equal(asked_run(&scan, store), TR_OK);
        for (size_t at = 0; tri_store_row_next(&scan.op, &at, &row); count++) {
            snprintf(after, sizeof(after), "%.*s", (int)row.key.size,
                     (const char *)row.key.at);
            strcat(found, found[0] == '\0' ? "" : " ");
            strcat(found, after + 3);
        }
        assert_true(count == limit || !scan.op.more);
        tri_store_op_fini(&scan.op);
    } while (scan.op.more);
    assert_string_equal(found, expected);
}

static void test_a_scan_lists_states_and_events_in_order(void **state)
{
    tr_storage *store = store_of(state);
    tri_store_bytes event = bytes_of("event");
    static const char *const keys[] = {"a::b/3", "a::b/1",   "a::b/20",
                                       "a::c/1", "b::b/1",   "a::bb/1",
                                       "a::b/2", "a::b/\xf0"};
    asked events = ask_append("a::b/25", 0, &event);
    asked both = ask_append("a::b/20", 0, &event);
    asked delete = ask_for(TR_STORE_DELETE, "a::b/2");

    assert_keys(store, "a::b/", 10, "");
    for (size_t i = 0; i < TRI_COUNT_OF(keys); i++) {
        assert_int_equal(save_text(store, keys[i], 0, "x"), TR_OK);
    }
    assert_int_equal(asked_run(&events, store), TR_OK);
    assert_int_equal(asked_run(&both, store), TR_OK);
    for (uint32_t limit = 1; limit < 7; limit++) {
        assert_keys(store, "a::b/", limit, "b/1 b/2 b/20 b/25 b/3 b/\xf0");
    }
    assert_keys(store, "a::b/2", 2, "b/2 b/20 b/25");
    assert_keys(store, "a::b", 2, "b/1 b/2 b/20 b/25 b/3 b/\xf0 bb/1");
    delete.op.number = 1;
    assert_int_equal(asked_run(&delete, store), TR_OK);
    assert_keys(store, "a::b/2", 2, "b/20 b/25");
    assert_int_equal(save_text(store, "a::b/2", 0, "again"), TR_OK);
    assert_int_equal(save_text(store, "a::b/3", 1, "newer"), TR_OK);
    assert_keys(store, "a::b/", 3, "b/1 b/2 b/20 b/25 b/3 b/\xf0");
    assert_keys(store, "a::d/", 3, "");
}

static void test_a_scan_needs_a_prefix(void **state)
{
    tr_storage *store = store_of(state);
    asked scan = ask_for(TR_STORE_SCAN, "");

    assert_int_equal(asked_run(&scan, store), TR_EINVAL);
    scan.op.bytes = bytes_of("\xff");
    assert_int_equal(asked_run(&scan, store), TR_EINVAL);
    scan.op.bytes = bytes_of("a\xff");
    assert_int_equal(asked_run(&scan, store), TR_OK);
    assert_false(scan.op.found);
}

static void test_saves_of_one_key_in_a_batch_keep_their_order(void **state)
{
    tr_storage *store = store_of(state);
    asked ops[12];
    tri_list list;

    tri_list_init(&list);
    for (uint32_t i = 0; i < TRI_COUNT_OF(ops); i++) {
        ops[i] = ask_save("a::b/c", i, "same");
        tri_list_push_back(&list, &ops[i].op.link);
    }
    tri_storage_submit_all(store, &list);
    for (uint32_t i = 0; i < TRI_COUNT_OF(ops); i++) {
        asked_wait(&ops[i]);
        assert_int_equal(ops[i].op.err, TR_OK);
        assert_int_equal(ops[i].op.version, i + 1);
    }
    assert_stored(store, "a::b/c", "12:same");
}

/* Invalid requests are answered at once; the others are carried out. */
static void test_an_invalid_request_does_not_fail_its_batch(void **state)
{
    asked good = ask_save("a::b/c", 0, "good");
    asked bad = ask_save("", 0, "bad");
    asked high = ask_save("a::b/d", 0, "bad");
    tri_list list;

    high.op.shard = TRI_STORE_SHARDS_MAX;
    tri_list_init(&list);
    tri_list_push_back(&list, &bad.op.link);
    tri_list_push_back(&list, &good.op.link);
    tri_list_push_back(&list, &high.op.link);
    tri_storage_submit_all(store_of(state), &list);
    asked_wait(&good);
    assert_int_equal(good.op.err, TR_OK);
    assert_int_equal(bad.op.err, TR_EINVAL);
    assert_int_equal(high.op.err, TR_EINVAL);
}

/* ---- many threads ---- */

static void test_ST21_one_store_serves_many_threads(void **state)
{
    tr_storage *store = store_of(state);

    increment_in_threads(&store, 1, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_ALL(test_ST3_a_save_replaces_all_of_the_state),
        IN_ALL(test_ST4_a_load_of_a_new_key_finds_nothing),
        IN_ALL(test_ST5_a_key_has_at_most_512_bytes),
        IN_ALL(test_ST7_a_state_may_be_any_bytes),
        IN_ALL(test_ST8_keys_of_other_spaces_and_types_are_separate),
        IN_ALL(test_ST9_a_load_returns_the_saved_state),
        IN_ALL(test_ST10_a_save_of_an_old_version_is_refused),
        IN_ALL(test_ST10_a_lower_epoch_is_fenced),
        IN_ALL(test_ST10_namespaces_do_not_fence_each_other),
        IN_ALL(test_a_write_without_an_epoch_passes_every_fence),
        IN_ALL(test_a_refused_save_changes_nothing),
        IN_ALL(test_ST15_errors_have_a_text),
        IN_ALL(test_delete_checks_the_version),
        IN_ALL(test_delete_removes_the_events_too),
        IN_ALL(test_a_scan_lists_states_and_events_in_order),
        IN_ALL(test_a_scan_needs_a_prefix),
        IN_ALL(test_saves_of_one_key_in_a_batch_keep_their_order),
        IN_ALL(test_an_invalid_request_does_not_fail_its_batch),
        IN_ALL(test_ST21_one_store_serves_many_threads),
    };

    return cmocka_run_group_tests(tests, start_server, end_server);
}
