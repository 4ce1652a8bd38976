/*
 * inbox_test.c - the queue in front of a thread of a store.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/check.h"
#include "storage/inbox.h"
#include "storage/store_op.h"

#define OPS 5

static void push_ops(tri_inbox *inbox, tri_store_op ops[OPS])
{
    tri_list list;

    tri_list_init(&list);
    for (size_t i = 0; i < OPS; i++) {
        ops[i] = (tri_store_op){.call = TR_STORE_SAVE, .number = i};
        tri_list_push_back(&list, &ops[i].link);
    }
    tri_inbox_push(inbox, &list);
    assert_true(tri_list_is_empty(&list));
}

/* The ops of the list are the ones from `first` on, in order. */
static void assert_ops(tri_list *list, uint64_t first, uint32_t count)
{
    tri_link *link;

    for (uint32_t i = 0; i < count; i++) {
        link = tri_list_pop_front(list);
        assert_non_null(link);
        assert_int_equal(tri_container_of(link, tri_store_op, link)->number,
                         first + i);
    }
    assert_true(tri_list_is_empty(list));
}

static void test_ops_are_taken_in_order_up_to_a_limit(void **state)
{
    tri_inbox inbox;
    tri_store_op ops[OPS];
    tri_list out;

    (void)state;
    tri_inbox_init(&inbox, tri_world_posix());
    tri_list_init(&out);
    push_ops(&inbox, ops);
    assert_int_equal(tri_inbox_count(&inbox), OPS);
    assert_int_equal(tri_inbox_take(&inbox, &out, 2, 0), 2);
    assert_ops(&out, 0, 2);
    assert_int_equal(tri_inbox_take(&inbox, &out, OPS, TR_FOREVER), OPS - 2);
    assert_ops(&out, 2, OPS - 2);
    assert_int_equal(tri_inbox_take(&inbox, &out, OPS, 0), 0);
    assert_int_equal(tri_inbox_take(&inbox, &out, OPS, TR_MS(1)), 0);
}

static void test_a_wake_lets_one_take_return(void **state)
{
    tri_inbox inbox;
    tri_list out;

    (void)state;
    tri_inbox_init(&inbox, tri_world_posix());
    tri_list_init(&out);
    tri_inbox_wake(&inbox);
    assert_int_equal(tri_inbox_take(&inbox, &out, 1, TR_FOREVER), 0);
    assert_false(tri_inbox_is_closed(&inbox));
    tri_inbox_close(&inbox);
    assert_int_equal(tri_inbox_take(&inbox, &out, 1, TR_FOREVER), 0);
    assert_int_equal(tri_inbox_take(&inbox, &out, 1, TR_FOREVER), 0);
    assert_true(tri_inbox_is_closed(&inbox));
}

static void test_reads_and_writes_go_to_their_inboxes(void **state)
{
    static const tr_store_call calls[] = {TR_STORE_SAVE,   TR_STORE_LOAD,
                                          TR_STORE_APPEND, TR_STORE_READ,
                                          TR_STORE_FENCE,  TR_STORE_REMINDERS};
    tri_store_op ops[TRI_COUNT_OF(calls)];
    tri_inbox reads, writes;
    tri_list list;

    (void)state;
    tri_inbox_init(&reads, tri_world_posix());
    tri_inbox_init(&writes, tri_world_posix());
    tri_list_init(&list);
    for (size_t i = 0; i < TRI_COUNT_OF(calls); i++) {
        ops[i] = (tri_store_op){.call = calls[i], .number = i / 2};
        tri_list_push_back(&list, &ops[i].link);
    }
    tri_inbox_push_both(&reads, &writes, &list);
    assert_int_equal(tri_inbox_take(&reads, &list, UINT32_MAX, 0), 3);
    assert_ops(&list, 0, 3);
    assert_int_equal(tri_inbox_take(&writes, &list, UINT32_MAX, 0), 3);
    assert_ops(&list, 0, 3);
}

typedef struct taker {
    tri_inbox inbox;
    uint32_t taken;
} taker;

static void take_all(void *arg)
{
    taker *it = arg;
    tri_list out;

    tri_list_init(&out);
    while (!tri_inbox_is_closed(&it->inbox) ||
           tri_inbox_count(&it->inbox) > 0) {
        it->taken += tri_inbox_take(&it->inbox, &out, 3, TR_FOREVER);
        while (tri_list_pop_front(&out) != NULL) {
        }
    }
}

static void test_a_parked_taker_wakes_for_every_push(void **state)
{
    enum { ROUNDS = 1000 };
    static tri_store_op ops[ROUNDS][OPS];
    tri_world *world = tri_world_posix();
    tri_thread *thread;
    taker it = {.taken = 0};

    (void)state;
    tri_inbox_init(&it.inbox, world);
    assert_int_equal(
        world->ops->thread_start(world, &thread, "taker", take_all, &it),
        TR_OK);
    for (int i = 0; i < ROUNDS; i++) {
        push_ops(&it.inbox, ops[i]);
    }
    tri_inbox_close(&it.inbox);
    world->ops->thread_join(world, thread);
    assert_int_equal(it.taken, ROUNDS * OPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ops_are_taken_in_order_up_to_a_limit),
        cmocka_unit_test(test_a_wake_lets_one_take_return),
        cmocka_unit_test(test_reads_and_writes_go_to_their_inboxes),
        cmocka_unit_test(test_a_parked_taker_wakes_for_every_push),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
