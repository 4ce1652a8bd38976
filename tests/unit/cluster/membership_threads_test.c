/*
 * membership_threads_test.c - memberships on real threads, through each
 * engine: nodes join, share the shards and leave.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cluster/membership/membership.h"
#include "unit/cluster/engine_calls.h"
#include "unit/storage/store_calls.h"

enum { NODES = 3 };

typedef struct member {
    tr_engine *engine;
    tri_membership *membership;
    tri_node self;
    _Atomic(uint32_t) shards;  // that the newest view gives it
} member;

static void on_up(void *user, tri_node self)
{
    ((member *)user)->self = self;
}

static void on_view(void *user, tri_view *view)
{
    member *it = user;
    tri_world *world = tri_world_posix();
    uint32_t count = 0;

    for (uint32_t i = 0; i < TRI_SHARDS && it->self.incarnation != 0; i++) {
        if (tri_node_is(view->shards[i].node, it->self)) {
            count++;
            if (view->shards[i].next != TRI_NODE_NONE) {
                tri_membership_handed_over(it->membership, i);
            }
        }
    }
    // Release: pairs with the acquire in wait_for_share.
    atomic_store_explicit(&it->shards, count, memory_order_release);
    world->ops->wake(world, &it->shards, 1);
}

static void on_dead(void *user, tri_node node)
{
    (void)user;
    (void)node;
}

static void on_end(void *user)
{
    ((member *)user)->self = (tri_node){0};
}

static const tri_membership_calls calls = {
    .up = on_up,
    .view_changed = on_view,
    .dead = on_dead,
    .fenced = on_end,
    .left = on_end,
};

static void wait_for_share(member *it, uint32_t nodes)
{
    tri_world *world = tri_world_posix();
    uint32_t share = TRI_SHARDS / nodes, has;

    while ((has = atomic_load_explicit(&it->shards, memory_order_acquire)) <
               share ||
           has > share + 1) {
        (void)world->ops->park(world, &it->shards, has, TR_FOREVER);
    }
}

static void join_share_leave(const char *file)
{
    member members[NODES];

    memset(members, 0, sizeof(members));
    for (int i = 0; i < NODES; i++) {
        member *it = &members[i];
        if (file != NULL) {
            TR_MUST(tr_engine_sqlite(&it->engine, file, NULL));
        } else {
            TR_MUST(tr_engine_memory(&it->engine, "threads", NULL));
        }
        tri_membership_options options = {.world = tri_world_posix(),
                                          .engine = it->engine,
                                          .ns = "test",
                                          .address = "127.0.0.1:1",
                                          .calls = &calls,
                                          .user = it};
        TR_MUST(tri_membership_start(&it->membership, &options));
    }
    for (int i = 0; i < NODES; i++) {
        TR_MUST(tri_membership_wait_up(members[i].membership, TR_FOREVER));
        assert_true(tri_membership_may_act(members[i].membership));
        wait_for_share(&members[i], NODES);
    }
    for (int i = 0; i < NODES; i++) {
        tri_membership_leave(members[i].membership);
        TR_MUST(tri_membership_wait_left(members[i].membership, TR_FOREVER));
        assert_false(tri_membership_may_act(members[i].membership));
        if (i + 1 < NODES) {
            wait_for_share(&members[NODES - 1], (uint32_t)(NODES - 1 - i));
        }
        tri_membership_free(members[i].membership);
        tr_engine_close(members[i].engine);
    }
}

static void test_members_of_an_engine_in_memory(void **state)
{
    (void)state;
    join_share_leave(NULL);
}

static void test_members_of_an_engine_in_a_file(void **state)
{
    folder place;
    (void)state;

    assert_true(folder_make(&place));
    join_share_leave(place.database);
    assert_int_equal(folder_remove(&place), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_of_an_engine_in_memory),
        cmocka_unit_test(test_members_of_an_engine_in_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
